"""Whether the reading of attention maps holds on real models, measured over a corpus and written as tables."""
