"""Run a model with other attention or without some values."""
