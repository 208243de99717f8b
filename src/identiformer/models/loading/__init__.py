"""Load a model, and check that it is what its files hold."""
