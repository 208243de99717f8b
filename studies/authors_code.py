"""python -m studies.authors_code FOLDER [NAME …]: our maps next to those of their authors' code, on the same model and text.

FOLDER holds checkouts of the authors' repositories, under the names that GitHub gives them. Their classes are executed as they
are, without the rest of their modules, which need older libraries. Each line is the name of a map and the largest difference,
over the largest score of the authors.
"""

import __future__

import ast
import collections
import math
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import yaml
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification
from transformers.activations import ACT2FN
from transformers.pytorch_utils import apply_chunking_to_forward

import identiformer as idf
from identiformer.models.blocks.recorded import RecordedBlock
from identiformer.models.blocks.recording import record_blocks
from identiformer.support.tiny_models import tiny_model, tiny_tokenizer, tiny_words

TEXT = "He turned in the research paper on Friday; otherwise, he would have not passed the class. She had told him so before."
LAYER = ("BertSelfAttention", "BertSelfOutput", "BertAttention", "BertIntermediate", "BertOutput", "BertLayer")

EXACT = SimpleNamespace(pairwise_distance=partial(nn.functional.pairwise_distance, eps=0))
"""torch adds 1e-6 to every coordinate of a difference, which shows in rows of small contributions."""

Theirs = Iterator[tuple[str, Tensor]]
"""The name of a map, and the authors' scores (layer query key), or (source) for an explanation of the output."""


def authors_definitions(path: Path, *names: str, **given: Any) -> SimpleNamespace:
    """Execute the named classes and functions of a file, and nothing else of it."""
    tree = ast.parse(path.read_text())
    tree.body = [node for node in tree.body if getattr(node, "name", None) in names]
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):  # transformers has dropped those that add documentation
            node.decorator_list = [each for each in node.decorator_list if not ast.unparse(each).startswith("add_")]
    libraries = {"torch": torch, "nn": nn, "F": nn.functional, "np": np, "math": math, "ACT2FN": ACT2FN}
    libraries |= {"partial": partial, "collections": collections}
    space: dict[str, Any] = {**libraries, "apply_chunking_to_forward": apply_chunking_to_forward, **given}
    exec(compile(tree, str(path), "exec", flags=__future__.annotations.compiler_flag), space)
    return SimpleNamespace(**{name: space[name] for name in names})


def authors_layers(definitions: SimpleNamespace, model: idf.Model) -> list[nn.Module]:
    """The authors' BertLayer with the weights of each block of a model."""
    absent = {"chunk_size_feed_forward": 0, "is_decoder": False, "add_cross_attention": False}
    config = SimpleNamespace(**{**absent, **model.network.config.to_dict()})
    layers = []
    for block in model.backbone.encoder.layer:
        layer = definitions.BertLayer(config).eval()
        layer.load_state_dict(block.state_dict())
        layers.append(layer)
    return layers


def blocks_of(model: idf.Model, text: str) -> tuple[RecordedBlock, ...]:
    """What we record of each block."""
    return record_blocks(model, model.encode(text, None, False)).blocks


@torch.no_grad()
def kobayashi(folder: Path, model: idf.Model, text: str) -> Theirs:
    """Norm-based attention: heads, layer, with the residual connection, and with the LayerNorm."""
    path = folder / "norm-analysis-of-transformer/emnlp2021/transformers/src/transformers/modeling_bert.py"
    analysis = authors_definitions(path, "BertNormOutput").BertNormOutput(model.network.config)
    norms = []
    layers = (layer.recorded() for layer in model.trace(text).stack().layers)
    for layer, block, module in zip(layers, blocks_of(model, text), model.backbone.encoder.layer, strict=True):
        before_norm = (block.x + block.attention).float()[None]
        output = module.attention.output
        norms.append(
            analysis(block.x.float()[None], layer.weights[None], layer.values[None], output.dense, output.LayerNorm, before_norm)
        )
    heads, *others = (torch.stack(maps)[:, 0] for maps in list(zip(*norms, strict=True))[:4])
    yield "norm_heads", heads.mean(1)
    yield from zip(("norm_layer", "norm_residual", "norm_layernorm"), others, strict=True)


@torch.no_grad()
def globenc(folder: Path, model: idf.Model, text: str) -> Theirs:
    """GlobEnc's layer map, from the authors' layer run on the hidden states of each layer."""
    definitions = authors_definitions(folder / "GlobEnc/src/modeling/modeling_bert.py", *LAYER, "BertNormOutput")
    outputs = [
        layer(block.x.float()[None], output_attentions=True, output_norms=True)
        for layer, block in zip(authors_layers(definitions, model), blocks_of(model, text), strict=True)
    ]
    for name, place in {"norm_layernorm": 5, "globenc": 6}.items():  # after the hidden states and the attention
        yield name, torch.stack([output[place][0] for output in outputs])


@torch.no_grad()
def value_zeroing(folder: Path, model: idf.Model, text: str) -> Theirs:
    """Value zeroing, from the authors' layer run once per token, with their distance and their shares."""
    definitions = authors_definitions(folder / "ValueZeroing/modeling/customized_modeling_bert.py", *LAYER)
    maps = []
    for layer, block in zip(authors_layers(definitions, model), blocks_of(model, text), strict=True):
        hidden = block.x.float()[None]
        zeroed = torch.cat([layer(hidden, zero_value_index=token)[0] for token in range(hidden.shape[1])])
        distances = 1 - nn.functional.cosine_similarity(zeroed.double(), block.output, dim=-1).mT
        maps.append(distances / distances.sum(-1, keepdim=True))
    yield "value_zeroing", torch.stack(maps)


@torch.no_grad()
def alti(folder: Path, model: idf.Model, text: str) -> Theirs:
    """ALTI of a model with norms after its sublayers."""
    source = folder / "transformer-contributions/src"
    config = yaml.safe_load((source / "config.yaml").read_text())
    wrapper = authors_definitions(source / "contributions.py", "get_module", "ModelWrapper", config=config, F=EXACT)
    network = AutoModelForSequenceClassification.from_config(model.network.config, attn_implementation="eager").eval()
    network.bert.load_state_dict(model.backbone.state_dict(), strict=False)
    *_, found = wrapper.ModelWrapper(network)(model.tokenizer(text, return_tensors="pt"))
    utilities = authors_definitions(source / "utils_contributions.py", "normalize_contributions")
    lengths = found["resultants"].norm(p=1, dim=-1)
    yield "alti", utilities.normalize_contributions(found["contributions"], scaling="min_sum", resultant_norm=lengths)


@torch.no_grad()
def alti_before(folder: Path, model: idf.Model, text: str) -> Theirs:
    """ALTI of a model with norms before its sublayers, from the authors' later code."""
    source = folder / "logit-explanations/src"
    config = yaml.safe_load((source / "config.yaml").read_text())
    wrapper = authors_definitions(source / "contributions.py", "get_module", "ModelWrapper", config=config, F=EXACT)
    network = AutoModelForCausalLM.from_config(model.network.config, attn_implementation="eager").eval()
    network.transformer.load_state_dict(model.backbone.state_dict())
    wrapped = wrapper.ModelWrapper(network)
    _, hidden_states, attentions = wrapped(model.tokenizer(text, return_tensors="pt"))
    *_, found = wrapped.get_logit_contributions(hidden_states, attentions, torch.tensor([1]))
    utilities = authors_definitions(source / "utils_contributions.py", "normalize_contributions")
    lengths = found["attn_res_outputs"].norm(p=1, dim=-1)
    yield "alti", utilities.normalize_contributions(found["layerwise_contributions"], scaling="min_sum", resultant_norm=lengths)


def minilm() -> tuple[idf.Model, str]:
    """A BERT with trained weights."""
    return idf.load("minilm"), TEXT


def tiny_gpt2() -> tuple[idf.Model, str]:
    """A GPT-2 with random weights."""
    return idf.load(tiny_model("gpt2"), tiny_tokenizer()), tiny_words(20)


Comparisons = dict[str, tuple[Callable[[Path, idf.Model, str], Theirs], Callable[[], tuple[idf.Model, str]]]]
"""The authors' maps of a model and a text, and that model and text."""

COMPARISONS: Comparisons = {
    "kobayashi": (kobayashi, minilm),
    "globenc": (globenc, minilm),
    "value_zeroing": (value_zeroing, minilm),
    "alti": (alti, minilm),
    "alti_before": (alti_before, tiny_gpt2),
}


def compare(folder: Path, name: str, comparisons: Comparisons = COMPARISONS) -> Iterator[tuple[str, float]]:
    """The maps of one comparison with the largest difference, over the largest score of the authors."""
    theirs_of, case = comparisons[name]
    model, text = case()
    for kind, theirs in theirs_of(folder, model, text):
        result = idf.maps(model, text, kinds=[kind])
        ours = torch.tensor((result.importance if "importance" in result else result.score).values[0])
        yield kind, float((ours - theirs.double()).abs().max() / theirs.abs().max())


def main(comparisons: Comparisons) -> None:
    """Print every comparison, or those that are named."""
    checkouts, *chosen = sys.argv[1:]
    for comparison in chosen or comparisons:
        for kind, difference in compare(Path(checkouts), comparison, comparisons):
            print(f"{comparison:16s} {kind:22s} {difference:.1e}", flush=True)


if __name__ == "__main__":
    main(COMPARISONS)
