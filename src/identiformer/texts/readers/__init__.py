"""Read corpora: `sources` finds the file, dataset or list, `formats` has one reader per file format."""
