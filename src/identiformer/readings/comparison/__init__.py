"""A comparison of maps in words, in a report, and as rows for a CSV file."""
