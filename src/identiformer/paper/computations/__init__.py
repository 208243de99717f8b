"""The computations behind the figures."""
