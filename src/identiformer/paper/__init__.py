"""The paper's figures and claims, computed and graded for any model."""

from identiformer.paper.reproduction import Reproduction, reproduce
from identiformer.paper.several import reproduce_papers

__all__ = ["Reproduction", "reproduce", "reproduce_papers"]
