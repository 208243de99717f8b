"""Attention that the output determines: rank, effective attention, null component, and variants. §3."""
