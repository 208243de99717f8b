"""Measures of token identifiability over a corpus."""
