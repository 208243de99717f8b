"""Let a language model write an answer, and keep the exact tokens that it read and wrote."""
