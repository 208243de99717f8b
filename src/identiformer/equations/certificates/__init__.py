"""Certified bounds on attention weights, and other attention with the same output. §3.1."""
