"""Why an architecture is not served, in a sentence: what it does, what else it reads or needs, or that it was not found out."""

import re

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

NEEDS_PACKAGE = "needs a package that is not installed here"
READS_MORE = "reads more than one text, image or sound"
NOT_FOUND_OUT = "not found out"
KINDS = (NEEDS_PACKAGE, READS_MORE, NOT_FOUND_OUT)
"""How reasons begin that are no judgement of how a family attends."""


def reason_of(error: Exception, when: str = "the small model that was tried fails") -> str:
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
    if ASKED.search(text):
        return _cut(f"{READS_MORE}: {text}")
    return _cut(f"{NOT_FOUND_OUT}, {when} within transformers or torch: {text}")


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST].rsplit(' ', 1)[0]} …"
