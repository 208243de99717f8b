"""What works with which architecture: every check run on a tiny random model of it, each no with its reason."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any

import torch
from torch import Tensor

from identiformer.equations.attention.grouped_heads import per_head
from identiformer.errors import InputError
from identiformer.measures.attention.ambiguity import ambiguity
from identiformer.measures.attribution.hidden_token import token_attribution
from identiformer.measures.identifiability.tokens import token_identifiability
from identiformer.models import Model, load
from identiformer.models.derivatives.tangents import TorchPushforward, agreement
from identiformer.models.encoding.image_audio import random_audio, random_image, takes_audio, takes_images
from identiformer.models.interventions.patching import Change
from identiformer.models.library_output import quiet_transformers
from identiformer.models.loading.load import towers_of
from identiformer.progress import work_bar
from identiformer.support.checks import (
    SAME,
    CheckError,
    check_derivatives,
    check_head_outputs,
    check_own_weights,
    check_unchanged,
    state_of,
)
from identiformer.support.reasons import BUILD, LOOKED_UP, NOT_BUILT, NOT_FOUND_OUT, reason_of
from identiformer.support.tiny_models import (
    TooLargeError,
    architectures,
    error_of_default,
    tiny_model,
    tiny_tokenizer,
    tiny_words,
)
from identiformer.trace import RecordedLayer, Trace

RECORD = files("identiformer.support") / "architectures.json"
"""What `make docs` found when it checked every architecture."""


@dataclass(frozen=True)
class Support:
    """What works with one architecture."""

    architecture: str
    kinds: dict[str, int]
    """How many layers attend of each type: self, or encoder, decoder and cross."""
    reads: str
    """text, image or sound; empty where no model could be built."""
    compared: bool
    """Whether the model gives out weights of its own that were compared; A·V is compared in any case."""
    reasons: dict[str, str]
    """For each capability why not; empty where it works."""

    @property
    def verified(self) -> bool:
        """Whether attention is recorded and every check of it holds."""
        return not self.reasons["trace"] and not self.reasons["effective attention"]

    @property
    def why_not(self) -> str:
        """The reasons of each no, those that several capabilities share once."""
        by_reason: dict[str, list[str]] = {}
        for capability, reason in self.reasons.items():
            if reason:
                by_reason.setdefault(reason, []).append(capability)
        if len(by_reason) == 1 and len(next(iter(by_reason.values()))) == len(self.reasons):
            return next(iter(by_reason))
        return " ".join(f"{', '.join(capabilities).capitalize()}: {reason}" for reason, capabilities in by_reason.items())


UNKNOWN = "not checked yet; run: identiformer models --verify "


def known_support() -> list[Support]:
    """What is on record of every architecture of the installed transformers."""
    works = dict.fromkeys(CAPABILITIES, "")
    rows = json.loads(RECORD.read_text(encoding="utf-8"))["architectures"]
    record = {row["architecture"]: Support(**row | {"reasons": works | row["reasons"]}) for row in rows}
    return [
        record.get(name) or Support(name, {}, "", False, dict.fromkeys(works, f"{UNKNOWN}{name}")) for name in architectures()
    ]


@dataclass
class _Subject:
    model: Model
    given: Any
    pair: str | None
    reads: str
    trace: Trace | None = None
    compared: bool = False
    kinds: dict[str, int] = field(default_factory=dict)

    @property
    def traced(self) -> Trace:
        if self.trace is None:
            raise InputError("without a trace there is nothing to look at.")
        return self.trace


def verify_models(names: Sequence[str] | None = None, progress: bool = False) -> list[Support]:
    """Build a tiny random model of each of these architectures (all that transformers has without names) and check it."""
    known = architectures()
    for name in names or ():
        if name not in known:
            raise InputError(
                f"expected architectures of the installed transformers, as `identiformer models` lists, got {name!r}."
            )
    found = []
    with work_bar("architectures", progress) as bar:
        bar.expect(len(names or known))
        for name in names or known:
            found.append(_verify(name))
            bar.advance(1)
    return found


def _verify(architecture: str) -> Support:
    """On a small model; on one as wide as usual, but of few layers, where nothing was found out by that; else as looked up."""
    found = _verify_one(architecture, narrow=True)
    if NOT_FOUND_OUT not in found.reasons["trace"]:
        return found
    if architecture in LOOKED_UP:
        reasons = {name: LOOKED_UP[architecture] if NOT_FOUND_OUT in why else why for name, why in found.reasons.items()}
        return replace(found, reasons=reasons)
    wide = _verify_one(architecture, narrow=False)
    return found if NOT_FOUND_OUT in wide.reasons["trace"] else wide


def _verify_one(architecture: str, narrow: bool) -> Support:
    with quiet_transformers(), torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        try:
            network = tiny_model(architecture, narrow=narrow)
        except TooLargeError as error:
            return _not_built(architecture, f"{NOT_FOUND_OUT}: {error}")
        except Exception as error:
            own = error_of_default(architecture)
            return _not_built(architecture, reason_of(error, BUILD) if own is None else reason_of(own, NOT_BUILT))
        towers = towers_of(network)
        found = [_check(architecture, getattr(network, name)) for name in towers] or [_check(architecture, network)]
    return found[0] if len(found) == 1 else _side_by_side(architecture, dict(zip(towers, found, strict=True)))


def _not_built(architecture: str, reason: str) -> Support:
    return Support(architecture, {}, "", False, dict.fromkeys(CAPABILITIES, reason))


def _check(architecture: str, network: Any) -> Support:
    before = state_of(network)
    subject, reasons = None, {}
    try:
        subject = _subject(network)
    except Exception as error:
        reasons = dict.fromkeys(CAPABILITIES, reason_of(error))
    if subject is not None:
        for name, check in CAPABILITIES.items():
            needs_trace = name in ("effective attention", "ambiguity", "re-run")
            reasons[name] = reasons["trace"] if needs_trace and reasons["trace"] else _reason(check, subject)
    changed = _reason(lambda _: check_unchanged(before, state_of(network)), subject)
    if changed:
        reasons = dict.fromkeys(CAPABILITIES, changed)
    if subject is None:
        return Support(architecture, {}, "", False, reasons)
    return Support(architecture, subject.kinds, subject.reads, subject.compared, reasons)


def _side_by_side(architecture: str, towers: dict[str, Support]) -> Support:
    """Models that are loaded each by itself: what works with each of them."""
    return Support(
        architecture,
        {f"{name} {kind}": layers for name, each in towers.items() for kind, layers in each.kinds.items()},
        " or ".join(each.reads for each in towers.values() if each.reads),
        all(each.compared for each in towers.values()),
        {
            capability: "; ".join(
                f"{name}: {each.reasons[capability]}" for name, each in towers.items() if each.reasons[capability]
            )
            for capability in CAPABILITIES
        },
    )


def _subject(network: Any) -> _Subject:
    model = load(network, tiny_tokenizer())
    pair = tiny_words(5, 3) if network.config.is_encoder_decoder else None
    if takes_images(network):
        return _Subject(model, random_image(network), None, "image")
    if takes_audio(network):
        return _Subject(model, random_audio(network), pair, "sound")
    return _Subject(model, tiny_words(12), pair, "text")


def _reason(check: Callable[[Any], None], subject: Any) -> str:
    try:
        check(subject)
    except Exception as error:
        return reason_of(error)
    return ""


def _check_trace(subject: _Subject) -> None:
    model = subject.model
    trace = model.trace(subject.given, subject.pair)
    batch = model._encode(subject.given, subject.pair, False)
    compared = check_own_weights(model, batch, trace)
    check_head_outputs(model, batch, trace)
    if subject.reads == "text":
        _check_padding(subject, trace)
    subject.trace, subject.compared = trace, compared
    subject.kinds = {stack.kind: len(stack.layers) for stack in trace.stacks}


def _check_padding(subject: _Subject, alone: Trace) -> None:
    pairs = None if subject.pair is None else [subject.pair, tiny_words(8)]
    together = subject.model.trace([subject.given, tiny_words(15, 3)], pairs)[0]
    for one, other in zip(_layers(alone), _layers(together), strict=True):
        difference = float((one.weights - other.weights).abs().max())
        if not difference <= 10 * SAME:
            raise CheckError(f"in a padded batch layer {one.number} attends otherwise than alone, by {difference:.2g}.")


def _layers(trace: Trace) -> Iterator[RecordedLayer]:
    return (layer.recorded() for stack in trace.stacks for layer in stack.layers)


def _check_effective(subject: _Subject) -> None:
    """A⊥T = AT, with T = VH where the output projection is known."""
    for layer in _layers(subject.traced):
        heads = per_head(layer.transmitted_values().double(), layer.heads)
        if layer.projection is not None and heads.shape[-1] == layer.projection.shape[1]:
            heads = heads @ layer.projection.double()
        own, effective = layer.weights.double() @ heads, layer.effective().matrices().double() @ heads
        difference = float((own - effective).abs().max() / own.abs().max().clamp(min=1e-9))
        if not difference <= 10 * SAME:
            raise CheckError(
                f"effective attention of layer {layer.number} changes the output by {difference:.2g} of the largest."
            )


def _check_ambiguity(subject: _Subject) -> None:
    for stack in subject.traced.stacks:
        found = ambiguity(subject.traced, 1, 0, query=len(stack.queries) - 1, kind=stack.kind)
        raw, low, high = (torch.as_tensor(found[name].values) for name in ("raw", "low", "high"))
        if bool(((raw < low - SAME) | (raw > high + SAME)).any()):
            raise CheckError(f"weights of {stack.kind} layer 1 lie outside the intervals certified for them.")


def _check_rerun(subject: _Subject) -> None:
    trace = subject.traced
    for stack in trace.stacks:
        layer = stack.layers[0].recorded()
        given = None if subject.reads == "text" else subject.given

        def run(weights: Tensor, given: Tensor | None = given, kind: str = stack.kind) -> Change:
            found = subject.model.rerun(trace, {(1, 0): weights}, kind=kind, allow_non_simplex=True, given=given)
            return found.output

        own, other = run(layer.weights[0]), run(_moved(layer))
        if not own.patched <= 10 * SAME * own.scale:
            raise CheckError(f"its own weights put back change the output by {own.patched:.2g}.")
        if not other.patched > other.floor:
            raise CheckError("other attention in the first head changes nothing.")


def _moved(layer: RecordedLayer) -> Tensor:
    """All attention of each row on the first key that it sees."""
    weights = torch.zeros_like(layer.weights[0])
    weights[torch.arange(len(weights)), layer.visible.start] = 1
    return weights


def _check_attribution(subject: _Subject) -> None:
    """Forward as by finite differences, many changes at once as one alone; in reverse, contributions that sum to one."""
    given = tiny_words(4) if subject.reads == "text" else subject.given
    function, _, _ = subject.model.input_function(given)
    with torch.no_grad():
        check_derivatives(function)
        if not agreement(function)(TorchPushforward.direct(function, heads=False)):
            raise CheckError("derivatives of many changes at once differ from those of one.")
    found = token_attribution(subject.model, given, exact=True, layers=[len(function.widths)], targets=[1])
    error = float(abs(found.contribution.sum("source") - 1).max())
    if not error <= 10 * SAME:
        raise CheckError(f"contributions sum to one but for {error:.2g}.")


def _check_identifiability(subject: _Subject) -> None:
    if subject.reads != "text":
        raise InputError(f"tokens are looked for in texts, and this model reads one {subject.reads}.")
    corpus = [tiny_words(5, start) for start in range(20)]
    found = token_identifiability(subject.model, corpus, methods=["linear l2"], resplits=1)
    if not bool(((found.rate >= 0) & (found.rate <= 1)).all()):
        raise CheckError("no rate of tokens found again.")


CAPABILITIES: dict[str, Callable[[_Subject], None]] = {
    "trace": _check_trace,
    "effective attention": _check_effective,
    "ambiguity": _check_ambiguity,
    "re-run": _check_rerun,
    "attribution": _check_attribution,
    "identifiability": _check_identifiability,
}
