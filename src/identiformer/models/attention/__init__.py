"""Record the attention of a model while it runs."""
