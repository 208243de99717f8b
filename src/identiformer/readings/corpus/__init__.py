"""A run over a corpus in words, tables and figures: in its report, and as a page of Markdown."""
