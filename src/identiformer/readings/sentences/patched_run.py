"""Sentences about patched runs: a row with the same output, weight on sinks or weight that was moved."""

import xarray as xr

from identiformer.models.interventions.patching import Change

TELLING = 0.1
"""A patched run that changes the output by less than this share of the control confirms that the output does not depend on it."""


def patched_run_sentence(total_variation: float, output: Change | xr.Dataset) -> str:
    """Describe how much a patched run changed the model's output, next to its control."""
    return (
        f"A patched run with an alternative row, in which {total_variation:.0%} of the weight is on other keys, changes "
        f"the model's output by up to {_size(float(output.patched))} per coordinate (control, a random change of the same size: "
        f"{_size(float(output.control))})."
    )


def _size(change: float) -> str:
    """A change in one digit, and never as 4e+01."""
    return f"{change:.0f}" if change >= 10 else f"{change:.1g}"


def patched_run_conclusion(output: Change | xr.Dataset) -> str:
    """What a patched run next to its control shows."""
    if output.patched <= output.control * TELLING:
        return "So the model's output does not show which of the two rows was used."
    return "So the alternative is not equivalent for the whole model: its output changes about as much as by a random change."


def sink_effects_sentence(effects: xr.Dataset) -> str:
    """The two interventions of `sink_effects` in a sentence."""
    return (
        f"Removing what the sink writes changes this head's output by {float(effects.removed_change):.1%} and the model's by "
        f"{float(effects.removed_output):.1g}; giving its weight to the other keys multiplies the head's output by "
        f"{float(effects.measured_scale):.2f} (predicted {float(effects.predicted_scale):.2f}) and changes the model's by "
        f"{float(effects.redistributed_output):.1g}."
    )


def moved_weight_sentences(moved: xr.Dataset) -> list[str]:
    """The findings of `move_weight` as sentences."""
    if moved.alternative:
        verdict = f"an alternative: the head's output changes by at most {float(moved.tolerance):g} times its length"
    else:
        verdict = f"not an alternative: the head's output changes by {float(moved.head_change):.2g} times its length"
    query, source, target = (moved[f"{name}_token"].item() for name in ("query", "source", "target"))
    return [
        f"The changed row is {verdict}.",
        f"Moving {float(moved.amount):.3f} of the weight of ‘{query}’ from ‘{source}’ to ‘{target}’ changes the model's output "
        f"by up to {float(moved.patched):.2g} per coordinate; a random change of the same size by up to "
        f"{float(moved.control):.2g}.",
        *prediction_sentences(moved)[:1],
    ]


def prediction_sentences(predictions: xr.Dataset) -> list[str]:
    """How the most probable token changes, one sentence per position of `predictions`.

    >>> tokens = {name: (("position", "rank"), [[token]]) for name, token in (("token_before", "cat"), ("token_after", "dog"))}
    >>> shares = {"probability_before": (("position", "rank"), [[0.5]]), "probability_after": (("position", "rank"), [[0.4]])}
    >>> prediction_sentences(xr.Dataset({**tokens, **shares, "total_variation": ("position", [0.2])}, {"position": [3]}))
    ['The most probable token becomes ‘dog’ (40%) instead of ‘cat’ (50%); 20% of the probability moves.']
    """
    return [_prediction_sentence(predictions.sel(position=position)) for position in predictions["position"]]


def _prediction_sentence(prediction: xr.Dataset) -> str:
    first, share = prediction.isel(rank=0), float(prediction.total_variation)
    old, before, new, after = (
        first[name].item() for name in ("token_before", "probability_before", "token_after", "probability_after")
    )
    moved = f"{share:.1%}" if share < 0.01 else f"{share:.0%}"
    if old == new:
        return f"The most probable token stays ‘{old}’ ({before:.0%}, now {after:.0%}); {moved} of the probability moves."
    return (
        f"The most probable token becomes ‘{new}’ ({after:.0%}) instead of ‘{old}’ ({before:.0%}); {moved} of the probability "
        "moves."
    )
