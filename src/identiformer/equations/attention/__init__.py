"""Attention that the output determines: rank, effective and null attention, and their variants. §3."""
