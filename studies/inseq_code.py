"""python -m studies.inseq_code [--model M] [--prompt P] [--tokens N]: attribution of an answer next to that of Inseq.

Inseq must be importable. Its input × gradient of a token's probability is `answer_attribution(output="probability")`; that of a
token's logit is relative to the mean of all logits here, and not in Inseq, so that the same number is registered there first.
Each line is what is explained and the largest difference of an attribution, over the largest attribution of its step.
"""

import argparse
from typing import Any

import numpy as np
import torch

import identiformer as idf

PROMPT = "The capital of France is"


def theirs(answer: idf.Answer, number: str) -> np.ndarray:
    """Inseq's input × gradient (step source), summed over the width of the embeddings."""
    import inseq

    model = inseq.load_model(answer.model.network, "input_x_gradient", tokenizer=answer.model.tokenizer)
    text = answer.model.tokenizer.decode(answer.tokens.ids)
    found = model.attribute(
        answer.prompt, text, attributed_fn=number, show_progress=False, pretty_progress=False, skip_special_tokens=False
    )
    scores = found.sequence_attributions[0].target_attributions
    return scores.sum(-1).nan_to_num().T.double().numpy()


def register() -> None:
    """Register a token's logit relative to the mean of all logits with Inseq."""
    import inseq

    def relative_logit(args: Any) -> torch.Tensor:
        logits = args.forward_output.logits[:, -1]
        return logits.gather(-1, args.target_ids.reshape(-1, 1))[:, 0] - logits.mean(-1)

    inseq.register_step_function(fn=relative_logit, identifier="relative_logit", overwrite=True)


def main() -> None:
    """Print the differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--prompt", default=PROMPT)
    parser.add_argument("--tokens", type=int, default=5)
    options = parser.parse_args()
    model = idf.load(options.model)
    answer = model.generate(options.prompt, max_new_tokens=options.tokens)
    register()
    for output, number in (("probability", "probability"), ("logit", "relative_logit")):
        ours = idf.answer_attribution(model, answer, method="gradient_times_input", output=output).attribution.values
        other = theirs(answer, number)
        width = min(ours.shape[1], other.shape[1])
        difference = np.abs(ours[:, :width] - other[:, :width]).max(-1) / np.abs(other).max(-1)
        print(f"{output}: {difference.max():.1e} over {len(ours)} steps, shapes {ours.shape} and {other.shape}")


if __name__ == "__main__":
    main()
