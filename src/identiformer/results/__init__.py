"""Results: labeled arrays that record where they came from, checked against a schema and stored on disk."""

from identiformer.results.schema import SCHEMA_VERSION, describe, package_versions, validate
from identiformer.results.store import content_hash, open_result, save_result

__all__ = ["SCHEMA_VERSION", "content_hash", "describe", "open_result", "package_versions", "save_result", "validate"]
