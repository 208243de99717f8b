"""The blocks of a model: residual connections, norms and feed-forward layers around attention."""
