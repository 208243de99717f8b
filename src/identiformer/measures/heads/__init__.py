"""Heads one at a time: the stream that every reading of attention consumes, in the order that it asks for."""
