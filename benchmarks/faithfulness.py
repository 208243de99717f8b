"""Edge knockouts of one head, all pairs of a text, against one forward pass per pair."""

import time

import torch

import identiformer as idf
from benchmarks.harness import report, side_by_side
from benchmarks.prose import prose
from identiformer.equations.attention.removal import Removal, knock_out_edges
from identiformer.models.interventions.output_effects import output_effects
from identiformer.models.interventions.removal import layer_effects
from identiformer.progress import work_bar

TOKENS, LAYER, HEAD = 128, 4, 5


def run() -> None:
    model = idf.load("minilm").limited(TOKENS)
    text = prose(model.tokenizer, 2 * TOKENS)  # cut to exactly as many
    batch = model.encode(text, None, True)
    pairs = batch.longest**2
    replica = model.replica()

    def remove(*call: object) -> Removal:
        return knock_out_edges(*call).of_head(HEAD)

    def at_the_layer() -> None:
        with work_bar("knocking out", False) as bar:
            layer_effects(model, model.encode(text, None, True), {LAYER}, bar, remove)

    def forward() -> None:
        with torch.no_grad():
            model.forward(replica, batch.inputs)

    times = side_by_side({"layer": at_the_layer, "forward": forward}, rounds=3, repeats={"forward": 20})
    detail = (
        f"{batch.longest} tokens, {pairs} pairs: {times['layer']:.2f} s against {pairs} passes of {times['forward'] * 1e3:.1f} ms"
    )
    report(
        "edge knockouts of a head, at the layer's output, times faster",
        pairs * times["forward"] / times["layer"],
        20,
        False,
        detail,
    )
    measure_output(model, prose(model.tokenizer, TOKENS // 4), remove)


def measure_output(model: idf.Model, text: str, remove: object) -> None:
    """At the model's output every pair needs its own copy from its layer on: there is only batching and resumption to gain."""
    batch, replica = model.encode(text, None, True), model.replica()
    pairs = batch.longest**2
    for layer in (1, LAYER, 6):
        start = time.perf_counter()
        output_effects(model, model.encode(text, None, True), [layer], remove, edges=True)
        seconds = time.perf_counter() - start
        start = time.perf_counter()
        with torch.no_grad():
            for _ in range(50):
                model.forward(replica, batch.inputs)
        single = (time.perf_counter() - start) / 50
        print(
            f"     {pairs * single / seconds:8.3g}  the same in layer {layer}, at the model's output, times faster; "
            f"{batch.longest} tokens, {seconds:.2f} s against {pairs} passes of {single * 1e3:.1f} ms",
            flush=True,
        )
