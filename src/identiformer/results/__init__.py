"""Results describe themselves: their schema, where they came from, and how they are kept on disk."""

from identiformer.results.content import content_hash
from identiformer.results.provenance import describe, package_versions
from identiformer.results.schema import SCHEMA_VERSION, validate
from identiformer.results.store import open_result, save_result

__all__ = ["SCHEMA_VERSION", "content_hash", "describe", "open_result", "package_versions", "save_result", "validate"]
