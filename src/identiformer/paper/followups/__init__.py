"""The papers that followed, one file each, declared like the figures of the paper itself."""

from identiformer.errors import InputError
from identiformer.paper.followups.bhardwaj2021 import BHARDWAJ
from identiformer.paper.followups.pascual2021 import PASCUAL
from identiformer.paper.followups.sun2021 import SUN
from identiformer.paper.recipes.declarations import BRUNNER, Paper

PAPERS: dict[str, Paper] = {paper.key: paper for paper in (BRUNNER, BHARDWAJ, SUN, PASCUAL)}


def find_paper(key: str) -> Paper:
    """The paper of this key."""
    if key not in PAPERS:
        raise InputError(f"expected a paper of {', '.join(PAPERS)}, got {key!r}.")
    return PAPERS[key]
