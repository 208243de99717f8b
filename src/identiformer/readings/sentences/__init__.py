"""Sentences about single results, which readings, reports and the page share."""
