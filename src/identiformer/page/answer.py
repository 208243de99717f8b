"""What a language model wrote, step by step, as the page shows it."""

from typing import Any

from identiformer.models import Answer

SHOWN_DIGITS = 4


def answer_panel(answer: Answer, prompt: str, sources: dict[str, Any] | None = None) -> dict[str, Any]:
    """The steps of an answer: each token with its probability and the position at which the model output it.

    `prompt` is the text that the user typed, and `sources` the `answer_as_json` of the answer, if it was computed.
    """
    steps = [
        {
            "token": answer.tokens.texts[at + 1],
            "position": at + 1,
            "predicted_at": at,
            "probability": round(probability, SHOWN_DIGITS),
        }
        for at, probability in zip(answer.positions, answer.probabilities, strict=True)
    ]
    return {
        "prompt": prompt,
        "start": answer.start,
        "spans": list(answer.tokens.span_names or ()),
        "interrupted": answer.interrupted,
        "steps": steps,
        "sources": sources,
    }
