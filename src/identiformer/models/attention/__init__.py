"""Record what attention does while a model runs."""
