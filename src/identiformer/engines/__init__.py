"""Engines map a worker over shards: in this process, or in the workers of a Ray cluster."""

from identiformer.engines.engine import Engine, Job, SerialEngine
from identiformer.engines.ray import RayEngine, one_cluster

__all__ = ["Engine", "Job", "RayEngine", "SerialEngine", "one_cluster"]
