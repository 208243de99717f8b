"""The measures over corpora, by name."""

from collections.abc import Sequence

from identiformer.errors import InputError
from identiformer.measures.corpus.ambiguity import AMBIGUITY
from identiformer.measures.corpus.attention_identifiability import ATTENTION_IDENTIFIABILITY
from identiformer.measures.corpus.effective_attention import EFFECTIVE_ATTENTION
from identiformer.measures.corpus.measure import CorpusMeasure
from identiformer.measures.corpus.self_contribution_by_tag import SELF_CONTRIBUTION_BY_TAG
from identiformer.measures.corpus.texts import TEXTS
from identiformer.measures.corpus.token_attribution import TOKEN_ATTRIBUTION
from identiformer.texts import Survey

ALL = (TEXTS, EFFECTIVE_ATTENTION, ATTENTION_IDENTIFIABILITY, TOKEN_ATTRIBUTION, SELF_CONTRIBUTION_BY_TAG, AMBIGUITY)
MEASURES: dict[str, CorpusMeasure] = {measure.name: measure for measure in ALL}
CHEAP = tuple(measure.name for measure in ALL if measure.cheap)


def choose_measures(names: Sequence[str]) -> tuple[str, ...]:
    """The names in the order of the registry, texts always among them; what is no measure is refused."""
    wrong = [name for name in names if name not in MEASURES]
    if wrong or not names:
        raise InputError(
            f"expected measures of {', '.join(MEASURES)}, got {wrong[0]!r}." if wrong else "expected a measure, got none."
        )
    return tuple(name for name in MEASURES if name in {*names, TEXTS.name})


def packages_of(names: Sequence[str], survey: Survey) -> tuple[str, ...]:
    """Packages beyond the core that the measures of a corpus depend on; what cannot run here is refused."""
    return tuple(package for name in names for package in MEASURES[name].packages(survey))
