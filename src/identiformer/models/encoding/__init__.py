"""Encode texts, images and audio as the tensors that a model takes."""
