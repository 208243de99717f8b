"""One recipe per figure of the paper."""
