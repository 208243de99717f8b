"""Hidden Token Attribution and its derivatives. §5."""
