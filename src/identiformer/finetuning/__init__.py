"""Fine-tuning of models for GLUE tasks."""
