"""What a language model predicts before and after a patched run."""

from dataclasses import dataclass

from torch import Tensor

from identiformer.models import Model
from identiformer.models.encoding.text import readable_tokens
from identiformer.models.interventions.patching import Rerun

TOP = 5


@dataclass(frozen=True)
class Prediction:
    """The most probable tokens at one position, the most probable first."""

    position: int
    before: tuple[tuple[str, float], ...]
    """Tokens and probabilities in the unpatched run."""
    after: tuple[tuple[str, float], ...]
    """The same in the patched run."""
    total_variation: float
    """½Σ|p - p'| over the whole vocabulary."""

    def sentence(self) -> str:
        """The change in a sentence.

        >>> Prediction(3, (("cat", 0.5),), (("dog", 0.4),), 0.2).sentence()
        'The most probable token becomes ‘dog’ (40%) instead of ‘cat’ (50%); 20% of the probability moves.'
        """
        (old, before), (new, after) = self.before[0], self.after[0]
        moved = f"{self.total_variation:.1%}" if self.total_variation < 0.01 else f"{self.total_variation:.0%}"
        if old == new:
            return f"The most probable token stays ‘{old}’ ({before:.0%}, now {after:.0%}); {moved} of the probability moves."
        return (
            f"The most probable token becomes ‘{new}’ ({after:.0%}) instead of ‘{old}’ ({before:.0%}); {moved} of the "
            "probability moves."
        )


def predicts_tokens(model: Model) -> bool:
    """Whether a model outputs logits of tokens at the positions of its text."""
    network = model.network
    return (
        model.tokenizer is not None
        and not network.config.is_encoder_decoder
        and getattr(network, "get_output_embeddings", lambda: None)() is not None
    )


def predictions(model: Model, rerun: Rerun, positions: list[int], top: int = TOP) -> list[Prediction]:
    """The predictions at some positions before and after a patched run; none for a model without a language-model head."""
    if not predicts_tokens(model) or rerun.before.ndim != 3:
        return []
    return [_prediction(model, rerun.before[0, position], rerun.after[0, position], position, top) for position in positions]


def _prediction(model: Model, before: Tensor, after: Tensor, position: int, top: int) -> Prediction:
    old, new = before.double().softmax(-1), after.double().softmax(-1)

    def most_probable(probabilities: Tensor) -> tuple[tuple[str, float], ...]:
        values, ids = probabilities[: len(model.tokenizer)].topk(min(top, len(probabilities)))
        return tuple(zip(readable_tokens(model.tokenizer, ids.tolist()), values.tolist(), strict=True))

    return Prediction(position, most_probable(old), most_probable(new), float((new - old).abs().sum() / 2))
