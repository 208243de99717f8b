"""What a model's output depends on: the effect of every attention weight, exact removals, idle attention, parts of values."""
