"""From a text, an image or audio to the tensors that a model takes."""
