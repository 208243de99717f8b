"""python -m studies.authors_code_output FOLDER [NAME …]: our explanations of the output next to those of their authors' code.

As `studies.authors_code`, which compares maps of each layer. The rules of AttnLRP are those of the package lxt, imported from its
checkout.
"""

import copy
import importlib
import sys
import warnings
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MethodType
from typing import Any
from unittest.mock import patch

import networkx as nx
import numpy as np
import torch
import yaml
from torch import nn
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

import identiformer as idf
from identiformer.passage import Passage
from identiformer.support.tiny_models import tiny_config, tiny_tokenizer, tiny_words
from identiformer.texts import Example
from studies.authors_code import EXACT, LAYER, TEXT, Comparisons, Theirs, authors_definitions, authors_layers, main


def subject_of(model: idf.Model, text: str) -> Passage:
    """The text as our explanations read it."""
    return Passage.of(model, Example(text, None))


def raw_attention(model: idf.Model, text: str) -> np.ndarray:
    """The mean over heads, (layer query key)."""
    return idf.maps(model, text, kinds=["raw"]).score.values[0]


def rollout(folder: Path, model: idf.Model, text: str) -> Theirs:
    """Attention rollout and flow of raw attention. Their flow runs on NetworkX."""
    names = ("get_adjmat", "compute_joint_attention", "compute_node_flow")
    theirs = authors_definitions(folder / "attention_flow/attention_graph_util.py", *names, nx=nx)
    weights, (position,) = raw_attention(model, text), subject_of(model, text).target.positions
    yield "rollout:raw", torch.tensor(theirs.compute_joint_attention(weights)[-1, position])
    layers, length, _ = weights.shape
    adjacency, nodes = theirs.get_adjmat((weights + np.eye(length)) / 2, ["token"] * length)
    graph = nx.from_numpy_array(adjacency, create_using=nx.DiGraph)
    nx.set_edge_attributes(graph, nx.get_edge_attributes(graph, "weight"), "capacity")
    inputs = [name for name in nodes if name.endswith("token")]
    flows = theirs.compute_node_flow(graph, nodes, inputs, [f"L{layers}_{position}"], length)
    yield "flow:raw", torch.tensor(flows[layers * length + position, (layers - 1) * length : layers * length])


def chefer(folder: Path, model: idf.Model, text: str) -> Theirs:
    """Gradient × attention by the generic rules 5 and 6, with the attention and gradients that transformers returns."""
    path = folder / "Transformer-MM-Explainability/lxmert/lxmert/src/ExplanationGenerator.py"
    theirs = authors_definitions(path, "avg_heads", "apply_self_attention_rules")
    target = subject_of(model, text).target
    network = copy.deepcopy(model.network)
    network.set_attn_implementation("eager")
    result = network(**model.tokenizer(text, return_tensors="pt"), output_attentions=True)
    gradients = torch.autograd.grad(target.value(result)[0], result.attentions)
    relevance = torch.eye(result.attentions[0].shape[-1], dtype=torch.float64)
    for weights, gradient in zip(result.attentions, gradients, strict=True):
        heads = theirs.avg_heads(weights.double(), gradient.double())
        relevance += theirs.apply_self_attention_rules(relevance, relevance, heads)[0].detach()
    yield "gradient_attention", (relevance - torch.eye(len(relevance)))[list(target.positions)].mean(0)


@torch.no_grad()
def alti_logit(folder: Path, model: idf.Model, text: str) -> Theirs:
    """ALTI-Logit of all tokens, of which ours is that of the predicted token minus the mean."""
    source = folder / "logit-explanations/src"
    config = yaml.safe_load((source / "config.yaml").read_text())
    wrapper = authors_definitions(source / "contributions.py", "get_module", "ModelWrapper", config=config, F=EXACT)
    network = copy.deepcopy(model.network)
    network.set_attn_implementation("eager")
    wrapped = wrapper.ModelWrapper(network)
    _, hidden_states, attentions = wrapped(model.tokenizer(text, return_tensors="pt"))
    tokens = torch.arange(network.config.vocab_size)
    vectors, _, found = wrapped.get_logit_contributions(hidden_states, attentions, tokens)
    names = ("normalize_contributions", "compute_joint_attention", "compute_alti")
    mixed = authors_definitions(source / "utils_contributions.py", *names).compute_alti(found)
    path = folder / "logit-explanations/extract_explanations.py"
    track = authors_definitions(path, "track2input_tokens", defaultdict=defaultdict).track2input_tokens
    traced = torch.stack(track(vectors, ["aff_x_j"], mixed, tokens)["logit_aff_x_j_alti"]).sum(1)
    yield "alti_logit", subject_of(model, text).target.of_logits(traced.mT)


@torch.no_grad()
def decompx(folder: Path, model: idf.Model, text: str) -> Theirs:
    """DecompX of the predicted class: the authors' layers on the embeddings, then their pooler and classifier."""
    source = folder / "DecompX/src"
    records = authors_definitions(source / "decompx_utils.py", "DecompXConfig", "DecompXOutput", dataclass=dataclass)
    config = records.DecompXConfig(aggregation="vector")
    given = {**vars(records), "BertPreTrainedModel": nn.Module}
    heads = ("output_builder", "BertModel", "BertForSequenceClassification")
    theirs = authors_definitions(source / "modeling_bert.py", *LAYER, *heads, **given)
    passage, network = subject_of(model, text), model.network
    hidden, parts = passage.target_function.x[None], None
    for layer in authors_layers(theirs, model):
        hidden, output = layer(hidden, parts, decompx_config=config)
        ((_, parts),) = output.encoder
    before = network.bert.pooler.dense(hidden[:, 0])
    pooler = _instance(theirs.BertModel, pooler=network.bert.pooler)
    parts = pooler.ffn_decomposer(parts[:, 0], before, before.tanh(), tanh_approx_type="ZO")
    parts = _instance(theirs.BertForSequenceClassification, classifier=network.classifier).ffn_decomposer(parts)
    yield "decompx", passage.target.of_logits(parts[0])


def _instance(kind: type[nn.Module], **modules: nn.Module) -> Any:
    """An object of a class, without its other modules."""
    instance = kind.__new__(kind)
    nn.Module.__init__(instance)
    for name, module in modules.items():
        setattr(instance, name, module)
    return instance


def attnlrp(folder: Path, model: idf.Model, text: str) -> Theirs:
    """AttnLRP: x times the gradient of the network, with the functions that lxt puts in place of those of transformers."""
    sys.path.insert(0, str(folder / "LRP-eXplains-Transformers"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of packages for images
        rules = importlib.import_module("lxt.efficient.patches")
    passage = subject_of(model, text)
    x = passage.target_function.x[None].requires_grad_()
    network = copy.deepcopy(model.network).requires_grad_(False)
    network.set_attn_implementation("eager")
    block = next(module for module in network.modules() if isinstance(module, nn.ModuleList))[0]
    block.register_forward_pre_hook(lambda _, arguments: (x, *arguments[1:]))
    forwards = {
        "LayerNorm": rules.layer_norm_forward,
        "LlamaRMSNorm": rules.rms_norm_forward,
        "LlamaMLP": rules.gated_mlp_forward,
    }
    for module in network.modules():
        if type(module).__name__ in forwards:
            module.forward = MethodType(forwards[type(module).__name__], module)
        elif type(module).__name__ in ("GELUActivation", "NewGELUActivation", "Tanh"):
            module.original_forward, module.forward = module.forward, MethodType(rules.non_linear_forward, module)
    library = sys.modules[type(network).__module__]
    with patch.object(library, "eager_attention_forward", rules.wrap_attention_forward(library.eager_attention_forward)):
        value = passage.target.value(network(**passage.batch.inputs))[0]
    (gradient,) = torch.autograd.grad(value, x)
    yield "attnlrp", (x * gradient).sum(-1)[0].detach()


def classifier() -> tuple[idf.Model, str]:
    """A BERT with trained weights and a random classification head."""
    minilm = idf.load("minilm")
    torch.manual_seed(0)
    network = AutoModelForSequenceClassification.from_config(minilm.network.config).eval()
    network.bert.load_state_dict(minilm.backbone.state_dict(), strict=False)
    return idf.load(network, minilm.tokenizer), TEXT


def language_model(family: str) -> tuple[idf.Model, str]:
    """A language model with random weights, as large as trained ones."""
    torch.manual_seed(1)
    config = tiny_config(family)
    config.initializer_range = 0.3
    return idf.load(AutoModelForCausalLM.from_config(config).eval(), tiny_tokenizer()), tiny_words(20)


GPT2, LLAMA = partial(language_model, "gpt2"), partial(language_model, "llama")
COMPARISONS: Comparisons = {
    "rollout": (rollout, classifier),
    "chefer": (chefer, classifier),
    "chefer_gpt2": (chefer, GPT2),
    "alti_logit": (alti_logit, GPT2),
    "decompx": (decompx, classifier),
    "attnlrp": (attnlrp, classifier),
    "attnlrp_gpt2": (attnlrp, GPT2),
    "attnlrp_llama": (attnlrp, LLAMA),
}

if __name__ == "__main__":
    main(COMPARISONS)
