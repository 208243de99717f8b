"""Derivatives of hidden vectors with respect to the input vectors."""
