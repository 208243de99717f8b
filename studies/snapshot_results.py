"""The results that a snapshot holds: by name, for five models, each computed when it is called."""

import io
import json
import os
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import torch
from PIL import Image
from transformers import ViTImageProcessorPil

import identiformer as idf
from identiformer.cli import run_command
from identiformer.measures.faithfulness import YARDSTICKS
from identiformer.measures.maps import MAPS
from identiformer.support.tiny_models import tiny_model, tiny_tokenizer, tiny_words
from identiformer.texts import PASSAGE
from studies.snapshot import page_data

Result = tuple[str, Callable[[], Any]]
TEXT = " ".join(PASSAGE.split()[:24])
"""About thirty tokens of minilm, whose heads have no null space then; those of the tiny models do."""
SHORT = "The boat left, and she"
PROMPT = "The capital of France is"
MEASURES = "effective_attention,attention_identifiability,token_attribution,ambiguity,reading"
TAGGED = [idf.Example("The boat left .", tags="DT NN VBD ."), idf.Example("She saw it .", tags="PRP VBD PRP .")]


def results(folder: Path) -> Iterator[Result]:
    """All results; `folder` is for files on the way."""
    tiny = {name: _saved(name, folder) for name in ("t5", "vit", "qwen3_next")}
    picture = folder / "picture.png"
    Image.effect_mandelbrot((48, 32), (-2.0, -1.2, 0.8, 1.2), 60).convert("RGB").save(picture)
    words = tiny_words(9)
    models = (
        ("t5", tiny["t5"], words, tiny_words(5, 3), None),
        ("vit", tiny["vit"], None, None, picture),
        ("qwen3_next", tiny["qwen3_next"], words, None, None),
        ("minilm", "minilm", TEXT, None, None),
        ("smollm2", "smollm2", SHORT, None, None),
    )
    for name, source, text, pair, image in models:
        model = idf.load(source)
        content = text if image is None else idf.open_picture(model, image).pixels
        groups = [_attention(model, content, pair), _model(model, content, pair), _pages(model, text, pair, image)]
        groups.append(_commands(str(source), folder / f"{name}.html", text, pair, image))
        if image is None:
            texts = [tiny_words(6, start) for start in range(9)] if name in tiny else [SHORT, TEXT, *PASSAGE.split(". ")]
            groups += [_maps(model, texts[0]), _identifiability(model, texts, folder / f"{name}-identify")]
        if name == "smollm2":
            groups.append(_answers(model, folder / "answer.html"))
        for group in groups:
            for label, compute in group:
                yield f"{name}/{label}", compute
    data = Path(os.environ["GLUE_DATA"])
    yield from _corpus(data, folder)
    yield "minilm/paper", lambda: _paper(idf.load("minilm"), data, folder / "paper")


def _saved(architecture: str, folder: Path) -> Path:
    """A tiny random model in a folder, with what reads its input."""
    network, path = tiny_model(architecture), folder / architecture
    network.save_pretrained(path)
    reader = ViTImageProcessorPil(size={"height": 32, "width": 32}) if architecture == "vit" else tiny_tokenizer()
    reader.save_pretrained(path)
    return path


def _attention(model: idf.Model, content: Any, pair: str | None) -> Iterator[Result]:
    """What needs a trace, for each attention type."""
    tensor = content if isinstance(content, torch.Tensor) else None
    trace = model.trace(content, pair)
    for kind, layers, last, row in (
        (stack.kind, stack.layers, len(stack.layers), len(stack.queries) - 1) for stack in trace.stacks
    ):
        visible = layers[-1].visible.dense()
        first, second, *_ = visible[-1].nonzero()[:, 0].tolist()
        head, patched = (trace, last, 0), {(last, 0): visible / visible.sum(-1, keepdim=True)}
        run, moved = {"kind": kind, "tensor": tensor}, {"share": 0.5, "kind": kind, "tensor": tensor}
        calls = {
            "trace": lambda layers=layers: [[layer.recorded().weights, layer.recorded().values] for layer in layers],
            "effective": partial(idf.effective_attention, trace, kind=kind),
            "effective_row": partial(
                idf.effective_attention, *head[:1], layers=last, heads=0, queries=row, value_bias=False, kind=kind
            ),
            "factored": lambda kind=kind: idf.effective_attention(
                model.trace(content, pair, form="factored", raw_norms=True), kind=kind
            ),
            "ambiguity": partial(idf.ambiguity, *head, sets={"two": [first, second]}, kind=kind),
            "ambiguity_exact": partial(idf.ambiguity, trace, 1, 1, queries=row, exact=True, kind=kind),
            "certified_share": partial(idf.certified_share, trace, layers=last, rows=2, kind=kind),
            "identifiability": partial(idf.attention_identifiability, trace, last, kind=kind),
            "variants": partial(idf.attention_variants, trace, last, kind=kind),
            "patterns": partial(idf.attention_patterns, trace, kind=kind),
            "attention_reading": partial(idf.attention_reading, trace, layers=last, kind=kind),
            "certify_head": partial(idf.certify_head, model, *head, **run),
            "sink_effects": partial(idf.sink_effects, model, *head, **run),
            "move_weight": partial(idf.move_weight, model, *head, row, first, second, **moved),
            "rerun": partial(model.rerun, trace, patched, **run),
            "read": partial(idf.read, model, content, pair, certify=False, kind=kind),
            "read_certified": partial(idf.read, model, content, pair, layers=[1, last], heads=[0, 1], kind=kind),
            "read_rows": partial(idf.read, model, content, pair, queries=[row], directions=3, certify=False, kind=kind),
        }
        yield from ((f"{kind}/{label}", compute) for label, compute in calls.items())


def _model(model: idf.Model, content: Any, pair: str | None) -> Iterator[Result]:
    """What needs the model, of a text or an image."""
    yield "attribution", lambda: idf.token_attribution(model, content, directions=2, heads=True)
    exact: dict[str, Any] = {"exact": True, "targets": [1], "layers": [1], "input_site": "after"}
    yield "attribution_exact", lambda: idf.token_attribution(model, content, **exact)
    yield "gradient_times_input", lambda: idf.gradient_times_input(model, content)
    yield "gradient_of_states", lambda: idf.gradient_times_input(model, content, output=lambda found: found[0][0, -1, 0])
    yield "value_zeroing", lambda: idf.value_zeroing(model, content)
    if isinstance(content, str):
        texts, pairs = [content, content[: len(content) // 2]], None if pair is None else [pair, pair[:5]]
        yield "batch", lambda: [idf.effective_attention(trace) for trace in model.trace(texts, pairs)]


def _maps(model: idf.Model, text: str) -> Iterator[Result]:
    """Every map and yardstick; those that the model does not support are left out, by default or with an error."""
    for name in (*MAPS, "rollout:effective", "flow:norm_layer"):
        yield f"maps/{name.replace(':', '_')}", lambda name=name: idf.maps(model, text, kinds=[name])
    yield "faithfulness/default", lambda: idf.faithfulness(model, text)
    if model.name == "smollm2":  # the other yardsticks take too many passes
        return
    words = text.split()
    example = idf.Example(text, evidence=((0, len(words[0])),), answer=(len(text) - len(words[-1]), len(text)))
    for label, judged in (("maps", ["raw", "contribution"]), ("explanations", ["rollout:raw", "token_attribution_last"])):
        names = [name for name, one in YARDSTICKS.items() if one.judges_explanations is (label == "explanations")]
        yield f"faithfulness/{label}", partial(idf.faithfulness, model, example, maps=judged, yardsticks=names)
        chosen = [name for name in names if "resample" in name or name == "value_zeroing"]
        texts = [text, " ".join(reversed(words))]
        yield f"faithfulness/{label}_of_texts", partial(idf.faithfulness, model, texts, maps=judged, yardsticks=chosen)


def _identifiability(model: idf.Model, texts: list[str], folder: Path) -> Iterator[Result]:
    """Of a tiny model, every variation; of a wide one, whose probes take long to fit, one."""
    options: dict[str, Any] = {"layers": 1, "resplits": 1, "vocabulary": True}
    if model.trace(texts[0]).layer(1).values.shape[-1] < 32:
        also = ("transfer", "steps", "neighbors", "curve")
        yield "identify", lambda: idf.identify(model, texts, folder, also=also, **options)
    else:
        methods = ["naive l2", "linear cosine"]
        yield (
            "token_identifiability",
            lambda: idf.token_identifiability(model, texts, methods=methods, **options),
        )


def _answers(model: idf.Model, page: Path) -> Iterator[Result]:
    answer = model.generate(PROMPT, max_new_tokens=3)
    yield "answer/text", lambda: answer
    yield "answer/chat", lambda: model.generate("Say hello.", chat=True, max_new_tokens=3, temperature=0.8, seed=1)
    for method in ("gradient_times_input", "integrated_gradients", "token_attribution_last", "attnlrp"):
        yield f"answer/{method}", lambda method=method: idf.answer_attribution(model, answer, method=method, group_by="span")
    yield "answer/read", lambda: idf.read(model, answer, layers=[1, 30])
    yield "answer/maps", lambda: idf.maps(model, answer, step=1)
    yield "answer/command", lambda: _printed("generate", PROMPT, "--max-new-tokens", "3", "--json", "--out", str(page), page=page)
    with torch.no_grad():
        states = model.network(**model.encode(PROMPT, None, False).inputs, output_hidden_states=True).hidden_states
    yield "recover_prompt", lambda: idf.recover_prompt(model, states[15][0], 15)


def _commands(source: str, page: Path, text: str | None, pair: str | None, image: Path | None) -> Iterator[Result]:
    """What the command line prints and the reports that it writes."""
    words = ["--image", str(image)] if image is not None else [text or "", *([] if pair is None else ["--pair", pair])]
    inspect, shown = ("inspect", *words, "--model", source), ("--layer", "1", "--head", "1")
    yield "commands/inspect", lambda: _printed(*inspect, "--fast", "--out", str(page), page=page)
    yield "commands/inspect_json", lambda: _printed(*inspect, *shown, "--certify", "--json", "--out", str(page), page=page)
    if pair is None and image is None:
        attribute = ("attribute", *words, "--model", source, "--directions", "4")
        yield "commands/attribute", lambda: _printed(*attribute, "--out", str(page), page=page)
        yield "commands/attribute_json", lambda: _printed(*attribute, "--json")


def _printed(*words: str, page: Path | None = None) -> dict[str, Any]:
    with redirect_stdout(io.StringIO()) as output:
        status = run_command(words)
    return {"status": status, "printed": output.getvalue(), "page": None if page is None else page_data(page.read_text())}


def _pages(model: idf.Model, text: str | None, pair: str | None, image: Path | None) -> Iterator[Result]:
    """What the explorer's page gets from its server."""
    if model.name == "smollm2":
        yield "explorer/answer", lambda: _explored(model, PROMPT, None, generate=True, max_new_tokens=2)
    else:
        yield "explorer/text", lambda: _explored(model, text, pair, image=image)


def _explored(model: idf.Model, text: str | None, pair: str | None, **options: Any) -> dict[str, Any]:
    addresses: SimpleQueue[str] = SimpleQueue()
    options |= {"browser": False, "announce": addresses.put}
    threading.Thread(target=idf.explore, args=(model, text, pair), kwargs=options, daemon=True).start()
    address = addresses.get(timeout=60)

    def ask(place: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(address + place, data), timeout=60) as response:
            content = response.read()
        return content if response.headers["content-type"] == "application/octet-stream" else json.loads(content)

    def work(opened: dict[str, Any], **task: Any) -> Any:
        job = ask(f"texts/{opened['id']}/jobs", task)
        while job["state"] in ("waiting", "running"):
            time.sleep(0.05)
            job = ask(f"jobs/{job['job']}")
        return job["state"], job["result"]

    first = ask("texts", {"text": text or "", "pair": pair, "model": model.name})
    kinds = [first, *(ask(f"texts/{first['id']}/kinds/{kind}", {}) for kind in first.get("kinds", [])[1:])]
    found = {}
    for opened in kinds:
        row = {"layer": 1, "head": 1, "query": 2}
        found[opened.get("kind", "")] = {
            "opened": opened,
            "layer": ask(f"texts/{opened['id']}/layers/1"),
            "read": work(opened, task="read heads"),
            "bounds": ask(f"texts/{opened['id']}/bounds/1/1"),
            "certify": work(opened, task="certify", **row),
            "move": work(opened, task="move", **row, source=0, target=1, share=0.5),
            "attribute": work(opened, task="attribute", target=1),
            "map": work(opened, task="map", map="norm_layer"),
            "answer": work(opened, task="answer"),
        }
    return found


def _corpus(data: Path, folder: Path) -> Iterator[Result]:
    """Runs over a few pairs of MRPC."""
    corpus, few = str(data / "MRPC" / "dev.tsv"), ("--limit", "2", "--max-length", "24")
    for name, measures in (("minilm", f"{MEASURES},faithfulness"), ("smollm2", MEASURES)):
        out = folder / f"{name}-run"
        words = ("run", corpus, "--model", name, "--measures", measures, *few, "--directions", "2", "--out", str(out))
        yield f"{name}/run/command", lambda words=words, out=out: _printed(*words, page=out / "report.html")
        yield f"{name}/run/results", lambda out=out: idf.open_run(out)
    tags, out = ["self_contribution_by_tag"], folder / "comparison"
    yield "minilm/run/tags", lambda: idf.run(TAGGED, "minilm", tags, out=folder / "tags", directions=2)
    yield "minilm/run/merged", lambda: _merged(corpus, folder)
    yield "minilm/compare/command", lambda: _printed("compare", corpus, *few, "--out", str(out), page=out / "report.html")
    yield "minilm/compare/results", lambda: {"run": idf.open_run(out), "table": (out / "table.csv").read_text()}


def _merged(corpus: str, folder: Path) -> idf.Run:
    parts = [idf.run(corpus, "minilm", out=folder / f"part{part}", limit=40, part=f"{part}/2").path for part in (1, 2)]
    return idf.merge_runs(parts, folder / "merged")


def _paper(model: idf.Model, data: Path, out: Path) -> Any:
    done = idf.reproduce(model, data, out, figures=["6"], quick=True)
    return {"done": done, "findings": json.loads((out / "findings.json").read_text())}
