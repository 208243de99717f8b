"""Certified bounds on attention weights, and alternative attention with the same output. §3.1."""
