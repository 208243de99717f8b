"""Measures of where hidden vectors and outputs come from."""
