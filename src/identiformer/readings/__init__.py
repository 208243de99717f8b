"""Readings: what results mean, in sentences."""

from identiformer.readings.attribution import AttributionSummary, summarize_attribution
from identiformer.readings.certificate import Certificate, certify_head
from identiformer.readings.inspection import Inspection, certify, inspect_trace
from identiformer.readings.reading import Reading, read

__all__ = [
    "AttributionSummary",
    "Certificate",
    "Inspection",
    "Reading",
    "certify",
    "certify_head",
    "inspect_trace",
    "read",
    "summarize_attribution",
]
