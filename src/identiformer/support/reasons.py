"""Why an architecture is not served, in a sentence: what it does, what else it reads or needs, or that it was not found out."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from identiformer.errors import IdentiformerError, UnsupportedModelError

LONGEST = 260
PLACE = re.compile(r"(/[^/\s'\"]+)+/(?=site-packages/)")
"""Where packages are installed here, which is nobody else's business."""
PACKAGE = re.compile(r"requires the (\S+) library")
ARGUMENTS = re.compile(r"missing \d+ required (?:positional|keyword-only) arguments?: (.*)")
ASKED = re.compile(
    r"(?i)(you (have to|must) (specify|provide)|exactly (1|one) of|cannot be `?none|needs? to be (specified|provided)"
    r"|is required|a 5D tensor)"
)
MISSED = re.compile(r"NoneType")
"""In an error of a run: an input that was not given."""
NO_FORWARD = "_forward_unimplemented"

NEEDS_PACKAGE = "needs a package that is not installed here"
READS_MORE = "reads more than one text, image or sound"
NOT_FOUND_OUT = "not found out"
NOT_BUILT = "transformers does not build a model of its default configuration"
KINDS = (NEEDS_PACKAGE, READS_MORE, NOT_BUILT, NOT_FOUND_OUT)
"""How reasons begin that are no judgment of how a family attends."""


MAPS = "it attends over feature maps of several sizes, not over a sequence of patches with one position each."
CODES = f"{READS_MORE}: several codes of a sound at each position."
LOOKED_UP: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("d_fine", "deimv2", "lw_detr", "mask2former", "oneformer", "rt_detr", "rt_detr_v2"), MAPS),
        **dict.fromkeys(("pp_doclayout_v3", "pp_doclayout_v4"), MAPS),
        **dict.fromkeys(("csm", "dia", "kyutai_speech_to_text"), CODES),
        **dict.fromkeys(("pp_ocrv6_small_det", "univnet", "uvdoc"), "it is made of convolutions and does not attend."),
        "blt": "it reads bytes, and most of its layers attend over patches of several bytes, which are no tokens.",
        "depth_pro": f"{READS_MORE}: it cuts an image into pieces of several sizes, each of which a model of its own reads.",
        "speecht5": f"{READS_MORE}: its base model reads what a task's model makes of a text or a sound.",
    }
)
"""Why not, of families whose small models do not run, as their code in transformers says."""

RUN, BUILD = "the small model that was tried fails", "a small model of it could not be built, an error"


def reason_of(error: Exception, when: str = RUN) -> str:
    """One line. What we refuse is said as we say it; an error of others is one that a small model of noise may have caused."""
    refused = isinstance(error, IdentiformerError)
    if isinstance(error, UnsupportedModelError) and isinstance(error.__cause__, Exception):
        error, refused = error.__cause__, False  # a first run that failed within transformers
    text = PLACE.sub("", " ".join(str(error).split())) or type(error).__name__
    if found := PACKAGE.search(text):
        return f"{NEEDS_PACKAGE}: {found[1]}."
    if refused:
        return _cut(text)
    if found := ARGUMENTS.search(text):
        return f"{READS_MORE}: it is called with {found[1].rstrip('.')} as well."
    if ASKED.search(text) or (when == RUN and MISSED.search(text)):
        return _cut(f"{READS_MORE}: {text}")
    if NO_FORWARD in text:
        return "it is several models without a forward pass of their own; load the one that is meant."
    if when == NOT_BUILT:
        return _cut(f"{NOT_BUILT}: {text}")
    return _cut(f"{NOT_FOUND_OUT}, {when} within transformers or torch: {text}")


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST].rsplit(' ', 1)[0]} …"
