"""Token identifiability over a corpus: recovery rates of probes, per layer and in variations."""
