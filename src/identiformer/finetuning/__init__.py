"""Fine-tune a model to classify texts."""
