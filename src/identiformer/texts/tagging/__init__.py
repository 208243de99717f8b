"""Parts of speech and token types."""
