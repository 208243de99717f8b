"""One page to look at attention with: in a report, from a local server, in a notebook."""
