"""Readers of corpora, one per format."""
