"""All maps of each layer against the forward pass."""

import time

import identiformer as idf
from benchmarks.harness import bare_pass, report, side_by_side
from benchmarks.prose import prose
from identiformer.measures.maps import MAPS
from identiformer.names import MAPS_OF_LAYERS

TOKENS = 128


def run() -> None:
    """The maps of minilm that are computed by default, together; then the others one by one, timed once."""
    model = idf.load("minilm")
    text = prose(model.tokenizer, TOKENS)
    cheap = [name for name in MAPS_OF_LAYERS if MAPS[name].cheap]
    times = side_by_side({"maps": lambda: idf.maps(model, text, kinds=cheap), "forward": bare_pass(model, text)}, 5)
    report(f"{len(cheap)} maps of all layers, {TOKENS} tokens, over a forward pass", times["maps"] / times["forward"], 15, True)
    for name in MAPS_OF_LAYERS:
        if name not in cheap and name != "efficient":  # which is another name of one of them
            start = time.perf_counter()
            idf.maps(model, text, kinds=[name])
            passes = (time.perf_counter() - start) / times["forward"]
            print(f"             {name}: {passes:.0f} forward passes", flush=True)
