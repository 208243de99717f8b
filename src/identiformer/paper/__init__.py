"""The paper's figures and claims, computed and graded for any model."""

from identiformer.paper.reproduction import Reproduction, reproduce

__all__ = ["Reproduction", "reproduce"]
