"""Load a model by name, hub id, folder or file, and check that its files hold it."""
