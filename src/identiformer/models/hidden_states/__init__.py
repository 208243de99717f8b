"""The input and hidden vectors of a corpus, kept on disk."""
