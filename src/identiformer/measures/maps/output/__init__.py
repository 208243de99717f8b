"""Explanations of the output: how much each token of the text matters to the number that the model outputs."""
