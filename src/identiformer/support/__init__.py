"""Which architectures work: every check run on a tiny random model of each."""
