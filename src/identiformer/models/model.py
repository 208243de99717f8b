"""A loaded model with its tokenizer: trace a text, and run it again with other attention."""

import hashlib
from collections.abc import Mapping
from contextlib import nullcontext
from functools import cache, cached_property
from importlib.metadata import version
from typing import Any, Literal, overload

import torch
from torch import Tensor

from identiformer.errors import IdentiformerError, InputError, UnsupportedModelError
from identiformer.models.attention.call import Call
from identiformer.models.attention.custom_modules import attends_by_itself
from identiformer.models.attention.families import READ_PADDING
from identiformer.models.attention.families.big_bird import keeping_its_blocks
from identiformer.models.attention.interface import FUSED, WEIGHTS, recording
from identiformer.models.attention.layers import check_positions, layer_of
from identiformer.models.attention.sites import Site, attention_kind, backbone_of, discover
from identiformer.models.derivatives.input_function import InputFunction, in_float32
from identiformer.models.derivatives.input_site import find_input_function, first_block
from identiformer.models.encoding.image_audio import encode_audio, encode_image, takes_audio, takes_images
from identiformer.models.encoding.text import Batch, check_ids, encode, encode_one
from identiformer.models.interventions.patching import Patches, Rerun, check_patches, compare, random_change, run_with
from identiformer.models.replica import replica_of
from identiformer.tokens import Tokens
from identiformer.trace import AttentionLayer, AttentionStack, Trace

Form = Literal["weights", "factored"]
Texts = list[str] | tuple[str, ...]

OF_TOKENS = ("input_ids", "attention_mask", "token_type_ids")
"""Inputs that have an entry a token, by the ends of their names."""

WEIGHTS_BUDGET = 2 * 2**30
"""Bytes of recorded attention weights beyond which a trace is made in factored form."""


class Model:
    """A transformer and its tokenizer, ready to be traced."""

    def __init__(self, network: Any, tokenizer: Any, name: str, max_length: int | None = None) -> None:
        self.network = network
        self.tokenizer = tokenizer
        self.name = name
        self.max_length = max_length

    def limited(self, max_length: int) -> "Model":
        """The same model, which takes at most so many tokens; with truncate=True texts are cut there."""
        if max_length < 1:
            raise InputError(f"expected a largest length of at least 1 token, got {max_length}.")
        return Model(self.network, self.tokenizer, self.name, max_length)

    def __getstate__(self) -> dict[str, Any]:
        # A network that has run holds hooks of transformers that cannot leave the process; its weights say all there is to say.
        network = (type(self.network), self.network.config, self.network.state_dict(), self.network.device)
        return {"network": network, "tokenizer": self.tokenizer, "name": self.name, "max_length": self.max_length}

    def __setstate__(self, state: dict[str, Any]) -> None:
        kind, config, weights, device = state["network"]
        network = kind(config)
        network.load_state_dict(weights, assign=True)
        self.__init__(network.to(device).eval(), state["tokenizer"], state["name"], state["max_length"])

    def __repr__(self) -> str:
        return f"<identiformer model {self.name}: {type(self.network).__name__}>"

    @property
    def backbone(self) -> Any:
        """The network without a task head, which attention does not depend on."""
        return backbone_of(self.network)

    @property
    def positions(self) -> int | None:
        """How many tokens the model takes at most."""
        limits = [limit for limit in (self._own_positions, self.max_length) if limit is not None]
        return min(limits, default=None)

    @property
    def _own_positions(self) -> int | None:
        # RoBERTa and kin keep the first positions, up to the padding token's, for themselves.
        table = getattr(getattr(self.backbone, "embeddings", None), "position_embeddings", None)
        if isinstance(table, torch.nn.Embedding) and table.padding_idx is not None:
            return table.num_embeddings - table.padding_idx - 1
        config = self.backbone.config
        limit = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
        return limit if isinstance(limit, int) and limit > 0 else None

    @cached_property
    def revision(self) -> str:
        """The hub's commit, or else a hash of the weights."""
        commit = getattr(self.network.config, "_commit_hash", None)
        if commit:
            return str(commit)
        digest = hashlib.sha256()
        for name, parameter in self.network.state_dict().items():
            digest.update(name.encode())
            digest.update(parameter.detach().cpu().flatten().view(torch.uint8).numpy())
        return f"sha256:{digest.hexdigest()}"

    @overload
    def trace(
        self, text: str | Tensor, pair: str | None = None, *, truncate: bool = ..., form: Form | None = ..., raw_norms: bool = ...
    ) -> Trace: ...
    @overload
    def trace(
        self, text: Texts, pair: Texts | None = None, *, truncate: bool = ..., form: Form | None = ..., raw_norms: bool = ...
    ) -> list[Trace]: ...
    def trace(
        self,
        text: str | Tensor | Texts,
        pair: str | Texts | None = None,
        *,
        truncate: bool = False,
        form: Form | None = None,
        raw_norms: bool = False,
    ) -> Trace | list[Trace]:
        """Run the model once and record its attention.

        text, pair: one text with an optional second one, or a list of each, which is run as one padded batch and
            split back into single traces. In an encoder-decoder the pair is what the decoder reads; without it only the
            encoder runs. A vision model takes one image instead: pixels (channel height width), or what its processor takes; a
            model of sounds the tensor that its feature extractor makes of one sound, and as pair the text that a decoder reads.
        truncate: cut what is longer than the model's positions, which is refused otherwise.
        form: "weights" records every attention weight; "factored" runs a fused kernel and keeps effective attention in
            factored form, for long texts. Without it, weights where they fit in 2 GiB.
        raw_norms: in factored form, also ‖a‖² of every row, which null mass and correlation need.
        """
        single = isinstance(text, str) or takes_images(self.network) or takes_audio(self.network)
        batches = [self._encode(text, pair, truncate)]
        if self.backbone.config.model_type in READ_PADDING and not single:
            pairs = [None] * len(text) if pair is None else pair
            batches = [self._encode(*each, truncate) for each in zip(text, pairs, strict=True)]
        traces = [trace for batch in batches for trace in self._run(batch, form or self._form_that_fits(batch), raw_norms)]
        return traces[0] if single else traces

    def _encode(self, text: Any, pair: Any, truncate: bool) -> Batch:
        if takes_images(self.network):
            if pair is not None:
                raise InputError("expected one image, got a pair; look at them one after the other.")
            return encode_image(text, self.tokenizer, self.replica())
        if takes_audio(self.network):
            return encode_audio(text, pair, self.tokenizer, self.replica(), truncate)
        if isinstance(text, Tensor):
            raise InputError(f"expected a text, which is what {type(self.network).__name__} reads, got a tensor.")
        texts = [text] if isinstance(text, str) else list(text)
        pairs = [pair] if isinstance(pair, str) else None if pair is None else list(pair)
        batch = encode(self.tokenizer, texts, pairs, self.positions, truncate, self.network.config.is_encoder_decoder)
        return check_ids(batch, self.backbone, self.tokenizer)

    def _form_that_fits(self, batch: Batch) -> Form:
        config = self.backbone.config
        named = (getattr(config, name, 1) for name in ("num_attention_heads", "num_hidden_layers"))
        heads, layers = (count if isinstance(count, int) else 1 for count in named)  # a list where they differ by stage
        size = batch.examples * layers * heads * batch.longest**2 * self.network.dtype.itemsize
        return "weights" if size <= WEIGHTS_BUDGET else "factored"

    @cached_property
    def _sites(self) -> dict[bool, list[Site]]:
        return {}

    def sites(self, batch: Batch) -> list[Site]:
        """The attention sites that such inputs pass through."""
        decoding = batch.decoder is not None
        if decoding not in self._sites:
            inputs = {name: tensor[:1, :4] if name.endswith(OF_TOKENS) else tensor for name, tensor in batch.inputs.items()}
            replica = self.replica()
            self._sites[decoding] = discover(self.backbone, replica, lambda: self._tried(replica, inputs, decoding))
        return self._sites[decoding]

    def replica(self) -> Any:
        """The backbone of a replica: what is looked into or changed while it runs, so that the network never is."""
        return backbone_of(replica_of(self.network))

    def _tried(self, replica: Any, inputs: dict[str, Tensor], decoding: bool) -> Any:
        """Run the model for the first time, and say in a sentence that it wants other inputs."""
        try:
            return self._forward(replica, inputs, decoding)
        except IdentiformerError:
            raise
        except (TypeError, ValueError, AttributeError, IndexError, RuntimeError) as error:
            given = ", ".join(inputs)
            raise UnsupportedModelError(
                f"{type(self.backbone).__name__} cannot be run on {given} alone: {(str(error).splitlines() or [''])[0]}"
            ) from error

    def _forward(self, replica: Any, inputs: dict[str, Tensor], decoding: bool, **options: Any) -> Any:
        """Run a replica of the network, or of its backbone; of an encoder-decoder without a second text the encoder alone."""
        encoder_only = self.network.config.is_encoder_decoder and not decoding
        network = backbone_of(replica).get_encoder() if encoder_only else replica
        options |= {"use_cache": False} if decoding or ("input_ids" in inputs and not encoder_only) else {}
        moved = {name: tensor.to(self.network.device) for name, tensor in inputs.items()}
        with keeping_its_blocks(network) if hasattr(self.backbone.config, "num_random_blocks") else nullcontext():
            return network(**moved, **options)

    def _run(self, batch: Batch, form: Form, raw_norms: bool) -> list[Trace]:
        if form == "factored" and (not self.backbone._supports_sdpa or attends_by_itself(self.backbone)):
            family = self.backbone.config.model_type
            raise UnsupportedModelError(f"the {family} family has no fused attention; use form='weights' and a shorter text.")
        sites = self.sites(batch)
        kinds = [attention_kind(site.path, self.network.config.is_encoder_decoder) for site in sites]
        layers: list[dict[str, list[AttentionLayer]]] = [
            {kind: [] for kind in dict.fromkeys(kinds)} for _ in range(batch.examples)
        ]
        stacks: dict[str, Tensor] = {}
        uneven: set[str] = set()  # kinds whose layers differ in their number of heads
        found = 0

        def on_call(call: Call) -> None:
            nonlocal found
            if found == len(sites):
                raise UnsupportedModelError(f"{self.name} makes more attention calls on a long text than on a short one.")
            site, kind = sites[found], kinds[found]
            lengths = [batch.lengths(kind, example) for example in range(batch.examples)]
            check_positions(call, lengths, self.backbone.config.model_type)
            weights = call.weights
            if weights is not None:
                # One array per attention type, so that the forward pass can use its own memory again and again.
                number = kinds[:found].count(kind)
                if kind not in stacks:
                    stacks[kind] = torch.empty(kinds.count(kind), *weights.shape, dtype=weights.dtype)
                if stacks[kind].shape[1:] == weights.shape:
                    weights = stacks[kind][number].copy_(weights)
                else:
                    uneven.add(kind)
                    weights = weights.cpu()
            for example, by_kind in enumerate(layers):
                queries, keys = batch.lengths(kind, example)
                by_kind[kind].append(layer_of(call, weights, site, len(by_kind[kind]) + 1, example, queries, keys, raw_norms))
            found += 1

        replica = self.replica()
        with recording(replica, WEIGHTS if form == "weights" else FUSED, on_call):
            self._forward(replica, batch.inputs, batch.decoder is not None)
        if found != len(sites):
            raise UnsupportedModelError(f"{self.name} makes fewer attention calls on a long text than on a short one.")
        stacks = {kind: stack for kind, stack in stacks.items() if kind not in uneven}
        return [
            Trace(
                tuple(
                    AttentionStack(
                        kind, *batch.tokens(kind, example), tuple(records), _example(stacks.get(kind), batch, kind, example)
                    )
                    for kind, records in by_kind.items()
                ),
                self._source(batch, example, form),
            )
            for example, by_kind in enumerate(layers)
        ]

    def rerun(
        self,
        trace: Trace,
        patches: Patches,
        *,
        kind: str | None = None,
        allow_non_simplex: bool = False,
        seed: int = 0,
        given: Tensor | None = None,
    ) -> Rerun:
        """Run the model on the text of a trace with other attention in some heads, and compare with the run as it was.

        patches: {(layer, head): weights (query key)}, rows that are attention: not negative, summing to one (or less, where a
            learned sink takes the rest), nothing on keys that a query cannot see. allow_non_simplex lifts that, as effective
            attention itself needs.
        given: the image or the sound that the trace was made from, which is not kept with it.
        Returns the largest change of each later hidden state and of the output, beside that of a control and of a run in which
        the model's own weights are put back. Four runs in all.
        """
        stack = trace.stack(kind)
        checked = check_patches(patches, stack.layers, allow_non_simplex)
        batch = self._batch_of(trace, given)
        kinds = [attention_kind(site.path, self.network.config.is_encoder_decoder) for site in self.sites(batch)]
        calls = [call for call, name in enumerate(kinds) if name == stack.kind]
        own = {place: self._own_weights(stack, place) for place in checked}
        generator = torch.Generator().manual_seed(seed)
        control = {
            (layer, head): random_change(weights, own[layer, head], stack.layers[layer - 1], generator)
            for (layer, head), weights in checked.items()
        }

        def run(weights: Mapping[tuple[int, int], Tensor]) -> dict[str, Tensor]:
            numbered = {layer: calls[layer - 1] for layer, _ in weights}
            decoding = batch.decoder is not None
            replica = replica_of(self.network)
            return run_with(
                replica,
                lambda: self._forward(replica, batch.inputs, decoding, output_hidden_states=True),
                numbered,
                weights,
            )

        before = run({})
        prefix = "layer" if stack.kind == "self" else f"{stack.kind.replace('cross', 'decoder')} layer"
        prefix = prefix if f"{prefix} 0" in before else "layer"  # an encoder run alone names its states plainly
        names, own_layer = list(before), f"{prefix} {min(layer for layer, _ in checked)}"
        first = names.index(own_layer) if own_layer in names else -1  # some give out no hidden states, only their output
        later = dict(list(before.items())[first:])
        return compare(later, [run(weights) for weights in (checked, control, own)])

    def tokens(self, text: str | Tensor, pair: str | None = None, *, truncate: bool = False) -> Tokens:
        """The tokens of a text as the model gets them; of an encoder-decoder those of its encoder."""
        return self._encode(text, pair, truncate).encoder[0]

    def length(self, text: str, pair: str | None = None) -> int:
        """How many tokens a text has before any is cut; of an encoder-decoder the longer of the two sides."""
        sides = [(text, None), (pair, None)] if self.network.config.is_encoder_decoder and pair is not None else [(text, pair)]
        return max(len(encode_one(self.tokenizer, *side)["input_ids"]) for side in sides)

    def input_function(
        self,
        text: str | Tensor,
        pair: str | None = None,
        *,
        input_site: str = "before",
        truncate: bool = False,
        task_head: bool = False,
    ) -> tuple[InputFunction, Tokens, dict[str, str]]:
        """Return the model at a text as a function of its input vectors x, the tokens of the text, and their provenance.

        input_site: x "before" or "after" the LayerNorm of the embeddings, for models that have one.
        task_head: use the whole network with its head instead of the backbone. An encoder-decoder is used as its encoder.
        """
        encoder_decoder = self.network.config.is_encoder_decoder
        if encoder_decoder and (pair is not None or task_head):
            raise UnsupportedModelError(
                f"derivatives of {self.name}, an encoder-decoder, are taken of its encoder only; give one text, and no output."
            )
        batch = self._encode(text, pair, truncate)
        site = self.sites(batch)[0].path
        network = in_float32(replica_of(self.network))
        backbone = backbone_of(network)
        if encoder_decoder:
            network = backbone.get_encoder()
        elif not task_head:
            network = backbone
        inputs = {name: tensor.to(self.network.device) for name, tensor in batch.inputs.items()}
        # A mask of ones, and running without a cache, lead to checks of numbers that torch cannot trace. But without it some
        # families (XLM, FlauBERT) take a token for padding that the tokenizer pads with.
        if getattr(backbone.config, "pad_token_id", None) not in batch.encoder[0].ids:
            inputs.pop("attention_mask", None)
        config = getattr(network, "config", backbone.config)  # FSMT's encoder has none
        function = find_input_function(network, config, inputs, first_block(backbone, site), input_site)
        tokens = batch.encoder[0]
        if len(function.x) != len(tokens):
            raise UnsupportedModelError(
                f"the {config.model_type} family pools its {len(tokens)} positions to {len(function.x)} for its layers; it "
                "cannot be attributed."
            )
        return function, tokens, self._source(batch, 0, "weights")

    @staticmethod
    def _own_weights(stack: AttentionStack, place: tuple[int, int]) -> Tensor:
        return stack.layers[place[0] - 1].recorded().weights[place[1]].double()

    def _batch_of(self, trace: Trace, given: Tensor | None = None) -> Batch:
        """The inputs that a trace was made from."""
        source = trace.source
        if source.get("revision") != self.revision:
            raise InputError(f"expected a trace of this model ({self.name}), got one of {source.get('model')}; trace it anew.")
        if takes_images(self.network) or takes_audio(self.network):
            if given is None:
                raise InputError("expected the image or sound of the trace, which is not kept with it; hand it over as given=.")
            batch = self._encode(given, source.get("pair"), True)
            if batch.source(0)["text_hash"] != source["text_hash"]:
                raise InputError("expected the image or sound that the trace was made from, got another one.")
            return batch
        pairs = [source["pair"]] if "pair" in source else None
        encoder_decoder = self.network.config.is_encoder_decoder
        return encode(self.tokenizer, [source["text"]], pairs, self.positions, True, encoder_decoder)

    def _source(self, batch: Batch, example: int, form: Form) -> dict[str, str]:
        versions = {f"{package}_version": _version(package) for package in ("identiformer", "torch", "transformers")}
        return {
            "model": self.name,
            "revision": self.revision,
            "architecture": type(self.network).__name__,
            "dtype": str(self.network.dtype).removeprefix("torch."),
            "form": form,
            **batch.source(example),
            **versions,
        }


@cache
def _version(package: str) -> str:
    """Reading a package's metadata takes milliseconds, and traces are made by the thousand."""
    return version(package)


def _example(stack: Tensor | None, batch: Batch, kind: str, example: int) -> Tensor | None:
    """The weights of one example in every layer, without padding."""
    queries, keys = batch.lengths(kind, example)
    return None if stack is None else stack[:, example, :, :queries, :keys]
