"""Which architectures work: run every check on a tiny random model of each, and give a reason for what does not work."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from identiformer.errors import IdentiformerError, UnsupportedModelError
from identiformer.models.library_output import quiet_transformers
from identiformer.models.load_model import towers_of
from identiformer.progress import work_bar
from identiformer.support.checks import CHECKS, NEED_TRACE, Subject, check_unchanged, state_of
from identiformer.support.record import check_known, read_record
from identiformer.support.tiny_models import TooLargeError, architectures, error_of_default, tiny_model

UNCHECKED = "not checked yet; run: identiformer models --verify "

NEEDS_PACKAGE = "needs a package that is not installed here"
NEEDS_MORE_INPUT = "needs more input than one text, image or audio clip"
NOT_BUILT = "transformers cannot build a model from its default configuration"
UNDETERMINED = "undetermined"
INCONCLUSIVE = (NEEDS_PACKAGE, NEEDS_MORE_INPUT, NOT_BUILT, UNDETERMINED)
"""How reasons begin that do not judge how a family attends."""

MAPS = "it attends over feature maps of several sizes, not over a sequence of patches with one position each."
CODES = f"{NEEDS_MORE_INPUT}: several audio codes at each position."
CONVOLUTIONS = "it consists of convolutions and has no attention."
REASONS_FROM_CODE: Mapping[str, str] = {
    **dict.fromkeys(("d_fine", "deimv2", "lw_detr", "mask2former", "oneformer", "rt_detr", "rt_detr_v2"), MAPS),
    **dict.fromkeys(("pp_doclayout_v3", "pp_doclayout_v4"), MAPS),
    **dict.fromkeys(("csm", "dia", "kyutai_speech_to_text"), CODES),
    **dict.fromkeys(("pp_ocrv6_small_det", "univnet", "uvdoc"), CONVOLUTIONS),
    "blt": "it reads bytes, and most of its layers attend over patches of several bytes, which are not tokens.",
    "depth_pro": f"{NEEDS_MORE_INPUT}: it cuts an image into pieces of several sizes, which separate models read.",
    "speecht5": f"{NEEDS_MORE_INPUT}: its base model reads the output of a task-specific network for text or audio.",
}
"""Reasons for families whose tiny models do not run, read from their code in transformers."""


@dataclass(frozen=True)
class Support:
    """What works with one architecture."""

    architecture: str
    kinds: dict[str, int]
    """Number of attention layers of each type: self, or encoder, decoder and cross."""
    reads: str
    """text, image or audio; empty if no model could be built."""
    compared: bool
    """Whether the model returns weights that were compared with the record; A·V is always compared."""
    reasons: dict[str, str]
    """Why each capability does not work; empty if it does."""

    @property
    def verified(self) -> bool:
        """Whether attention is recorded and passes every check."""
        return not self.reasons["trace"] and not self.reasons["effective attention"]

    @property
    def why_not(self) -> str:
        """The reasons in one text, each once with the capabilities that share it."""
        by_reason: dict[str, list[str]] = {}
        for capability, reason in self.reasons.items():
            if reason:
                by_reason.setdefault(reason, []).append(capability)
        if len(by_reason) == 1 and len(next(iter(by_reason.values()))) == len(self.reasons):
            return next(iter(by_reason))
        return " ".join(f"{', '.join(capabilities).capitalize()}: {reason}" for reason, capabilities in by_reason.items())


def known_support() -> list[Support]:
    """Return the recorded support of every architecture of the installed transformers."""
    rows = read_record()["architectures"]
    record = {row["architecture"]: Support(**row | {"reasons": _for_all("") | row["reasons"]}) for row in rows}
    return [record.get(name) or _unsupported(name, f"{UNCHECKED}{name}") for name in architectures()]


def _for_all(reason: str) -> dict[str, str]:
    return dict.fromkeys(CHECKS, reason)


def _unsupported(architecture: str, reason: str) -> Support:
    return Support(architecture, {}, "", False, _for_all(reason))


def verify_models(names: Sequence[str] | None = None, progress: bool = False) -> list[Support]:
    """Build a tiny random model of each of these architectures (of all by default) and check it."""
    known = architectures()
    check_known(names or (), known)
    supports = []
    with work_bar("architectures", progress) as bar:
        bar.expect(len(names or known))
        for name in names or known:
            supports.append(_verify(name))
            bar.advance(1)
    return supports


def _verify(architecture: str) -> Support:
    """Check a narrow model; if that is inconclusive, use the reason from the code, or check one of the usual width."""
    narrow = _verify_one(architecture, narrow=True)
    if UNDETERMINED not in narrow.reasons["trace"]:
        return narrow
    if known := REASONS_FROM_CODE.get(architecture):
        reasons = {name: known if UNDETERMINED in reason else reason for name, reason in narrow.reasons.items()}
        return replace(narrow, reasons=reasons)
    wide = _verify_one(architecture, narrow=False)
    return narrow if UNDETERMINED in wide.reasons["trace"] else wide


def _verify_one(architecture: str, narrow: bool) -> Support:
    with quiet_transformers(), torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        try:
            network = tiny_model(architecture, narrow=narrow)
        except TooLargeError as error:
            return _unsupported(architecture, f"{UNDETERMINED}: {error}")
        except Exception as error:
            of_default = error_of_default(architecture)
            return _unsupported(architecture, reason_of(error, BUILD) if of_default is None else reason_of(of_default, NOT_BUILT))
        towers = towers_of(network)
        supports = [_check(architecture, getattr(network, name)) for name in towers] or [_check(architecture, network)]
    return supports[0] if len(supports) == 1 else _joined(architecture, dict(zip(towers, supports, strict=True)))


def _check(architecture: str, network: Any) -> Support:
    before = state_of(network)
    try:
        subject = Subject.of(network)
    except Exception as error:
        changed = _reason(lambda: check_unchanged(before, state_of(network)))
        return _unsupported(architecture, changed or reason_of(error))
    reasons: dict[str, str] = {}
    for name, check in CHECKS.items():
        untraced = reasons["trace"] if name in NEED_TRACE else ""
        reasons[name] = untraced or _reason(lambda check=check: check(subject))
    if changed := _reason(lambda: check_unchanged(before, state_of(network))):
        reasons = _for_all(changed)
    return Support(architecture, subject.kinds, subject.reads, subject.compared, reasons)


def _joined(architecture: str, towers: dict[str, Support]) -> Support:
    """Return the support of an architecture whose towers are loaded separately."""
    return Support(
        architecture,
        {f"{name} {kind}": layers for name, tower in towers.items() for kind, layers in tower.kinds.items()},
        " or ".join(tower.reads for tower in towers.values() if tower.reads),
        all(tower.compared for tower in towers.values()),
        {
            capability: "; ".join(
                f"{name}: {tower.reasons[capability]}" for name, tower in towers.items() if tower.reasons[capability]
            )
            for capability in CHECKS
        },
    )


def _reason(check: Callable[[], None]) -> str:
    try:
        check()
    except Exception as error:
        return reason_of(error)
    return ""


LONGEST = 260
FOLDER = re.compile(r"(/[^/\s'\"]+)+/(?=site-packages/)")
"""The folder of installed packages, which differs between machines."""
PACKAGE = re.compile(r"requires the (\S+) library")
ARGUMENTS = re.compile(r"missing \d+ required (?:positional|keyword-only) arguments?: (.*)")
MISSING_INPUT = re.compile(
    r"(?i)(you (have to|must) (specify|provide)|exactly (1|one) of|cannot be `?none|needs? to be (specified|provided)"
    r"|is required|a 5D tensor)"
)
RUN, BUILD = "the tiny model fails", "building a tiny model fails"


def reason_of(error: Exception, when: str = RUN) -> str:
    """Turn an error into a reason of one line: ours as it is; that of a library with whether it judges the architecture."""
    ours = isinstance(error, IdentiformerError)
    if isinstance(error, UnsupportedModelError) and isinstance(error.__cause__, Exception):
        error, ours = error.__cause__, False  # a first run that failed within transformers
    text = FOLDER.sub("", " ".join(str(error).split())) or type(error).__name__
    if match := PACKAGE.search(text):
        return f"{NEEDS_PACKAGE}: {match[1]}."
    if ours:
        return _shortened(text)
    if match := ARGUMENTS.search(text):
        return f"{NEEDS_MORE_INPUT}: it also takes {match[1].rstrip('.')}."
    if MISSING_INPUT.search(text) or (when == RUN and "NoneType" in text):  # an input that was not passed
        return _shortened(f"{NEEDS_MORE_INPUT}: {text}")
    if "_forward_unimplemented" in text:
        return "it consists of several models without a common forward pass; load one of them."
    if when == NOT_BUILT:
        return _shortened(f"{NOT_BUILT}: {text}")
    return _shortened(f"{UNDETERMINED}, {when} within transformers or torch: {text}")


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST].rsplit(' ', 1)[0]} …"
