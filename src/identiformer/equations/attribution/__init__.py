"""Hidden Token Attribution and the derivatives behind it. §5."""
