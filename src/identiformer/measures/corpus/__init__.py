"""Measures over a corpus: of every example a small state of whole numbers, which add up in any order to the same bits."""

from identiformer.measures.corpus.measure import CorpusMeasure, Observation
from identiformer.measures.corpus.registry import CHEAP, MEASURES, choose_measures, packages_of
from identiformer.measures.corpus.state import Failure, State

__all__ = ["CHEAP", "MEASURES", "CorpusMeasure", "Failure", "Observation", "State", "choose_measures", "packages_of"]
