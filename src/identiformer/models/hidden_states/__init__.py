"""Input vectors and hidden states of a corpus, kept on disk."""
