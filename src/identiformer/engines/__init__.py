"""Engines map a worker over shards: in this process, or on a Ray cluster."""

from identiformer.engines.engine import Engine, Job
from identiformer.engines.ray import RayEngine, one_cluster
from identiformer.engines.serial import SerialEngine

__all__ = ["Engine", "Job", "RayEngine", "SerialEngine", "one_cluster"]
