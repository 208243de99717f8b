"""Derivatives of a model's hidden vectors with respect to its input vectors."""
