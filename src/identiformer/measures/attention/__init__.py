"""Measures of one trace's attention."""
