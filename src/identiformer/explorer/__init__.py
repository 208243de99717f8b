"""A local server for the page: run any text, and compute certificates and attributions on request."""
