"""The page in a notebook."""
