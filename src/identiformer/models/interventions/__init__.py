"""Run a model with patched attention, or with values set to zero."""
