"""The measures over a corpus, by name."""

from collections.abc import Sequence

from identiformer.measures.corpus.attention import AMBIGUITY, ATTENTION_IDENTIFIABILITY, EFFECTIVE_ATTENTION
from identiformer.measures.corpus.faithfulness import FAITHFULNESS
from identiformer.measures.corpus.measure import TEXTS, CorpusMeasure
from identiformer.measures.corpus.reading import READING
from identiformer.measures.corpus.token_attribution import SELF_CONTRIBUTION_BY_TAG, TOKEN_ATTRIBUTION
from identiformer.texts import Survey

ALL = (
    TEXTS,
    EFFECTIVE_ATTENTION,
    ATTENTION_IDENTIFIABILITY,
    TOKEN_ATTRIBUTION,
    SELF_CONTRIBUTION_BY_TAG,
    AMBIGUITY,
    READING,
    FAITHFULNESS,
)
MEASURES: dict[str, CorpusMeasure] = {measure.name: measure for measure in ALL}


def packages_of(names: Sequence[str], survey: Survey) -> tuple[str, ...]:
    """The packages beyond the core that the measures need for a corpus; raises if one is missing."""
    return tuple(package for name in names for package in MEASURES[name].packages(survey))
