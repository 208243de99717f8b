"""What a person should know about a result, in words."""

from identiformer.readings.attribution import AttributionSummary, summarize_attribution
from identiformer.readings.certificate import Certificate, certify_head
from identiformer.readings.inspection import Inspection, certify, inspect_text

__all__ = [
    "AttributionSummary",
    "Certificate",
    "Inspection",
    "certify",
    "certify_head",
    "inspect_text",
    "summarize_attribution",
]
