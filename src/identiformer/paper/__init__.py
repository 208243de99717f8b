"""The paper's figures as recipes over the measures, and what it says of them as claims to grade."""

from identiformer.paper.reproduction import Reproduction, reproduce

__all__ = ["Reproduction", "reproduce"]
