"""A loaded model with its tokenizer: trace a text, and run it again with patched attention."""

from collections.abc import Sequence
from contextlib import nullcontext
from functools import cached_property, partial
from typing import Any, overload

from torch import Tensor

from identiformer.errors import IdentiformerError, InputError, UnsupportedModelError, first_line
from identiformer.models.attention.families import READ_PADDING, preserved_blocks
from identiformer.models.attention.sites import Site, backbone_of, discover
from identiformer.models.derivatives.input_function import InputFunction
from identiformer.models.derivatives.input_site import find_input_function
from identiformer.models.encoding.image_audio import takes_audio, takes_images
from identiformer.models.encoding.text import Batch, encode_one
from identiformer.models.generation.answer import Answer, Text
from identiformer.models.generation.generate import generate
from identiformer.models.generation.prompts import Messages, Spans
from identiformer.models.inputs import encode_inputs, inputs_of_trace
from identiformer.models.interventions.patching import Patches, Rerun, Weights, compare, patched_states, weights_to_run
from identiformer.models.library_output import library_versions
from identiformer.models.loading.sending import SentNetwork
from identiformer.models.network_properties import most_positions, revision_of, weights_size
from identiformer.models.offloaded import device_of
from identiformer.models.replica import replica_of
from identiformer.models.tracing import Form, trace_batch
from identiformer.tokens import Tokens
from identiformer.trace import Trace

Texts = list[str] | tuple[str, ...]

PER_TOKEN = ("input_ids", "attention_mask", "token_type_ids")
"""Endings of the names of inputs that have one entry per token."""


class Model:
    """A transformer with its tokenizer, as `identiformer.load` returns it.

    Parameters
    ----------
    network : transformers.PreTrainedModel
        The model, with or without a task head. It is never changed.
    tokenizer : optional
        Its tokenizer or image processor.
    name : str
        The name that results carry.
    max_length : int, optional
        Limit on the number of tokens, if lower than the model's own.

    Examples
    --------
    >>> import identiformer as idf
    >>> model = idf.load("minilm")
    >>> model.trace("He said hello.").tokens
    ('[CLS]', 'he', 'said', 'hello', '.', '[SEP]')
    >>> model.positions
    512
    """

    def __init__(self, network: Any, tokenizer: Any, name: str, max_length: int | None = None) -> None:
        self.network = network
        self.tokenizer = tokenizer
        self.name = name
        self.max_length = max_length
        self._sites: dict[bool, list[Site]] = {}

    def limited(self, max_length: int) -> "Model":
        """The same model with a limit on the number of tokens, to which truncate=True cuts texts."""
        if max_length < 1:
            raise InputError(f"expected a largest length of at least 1 token, got {max_length}.")
        return Model(self.network, self.tokenizer, self.name, max_length)

    def __getstate__(self) -> dict[str, Any]:
        network = SentNetwork.of(self.network, self.name)
        return {"network": network, "tokenizer": self.tokenizer, "name": self.name, "max_length": self.max_length}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["network"].built(), state["tokenizer"], state["name"], state["max_length"])

    def __repr__(self) -> str:
        return f"<identiformer model {self.name}: {type(self.network).__name__}>"

    @property
    def backbone(self) -> Any:
        """The network without its task head, on which attention does not depend."""
        return backbone_of(self.network)

    @property
    def positions(self) -> int | None:
        """The largest number of tokens that the model takes."""
        limits = (most_positions(self.backbone), self.max_length)
        return min((limit for limit in limits if limit is not None), default=None)

    @cached_property
    def revision(self) -> str:
        """The commit on the hub, or a hash of the weights."""
        return revision_of(self.network)

    @overload
    def trace(
        self,
        text: Text,
        pair: str | None = None,
        *,
        truncate: bool = ...,
        form: Form | None = ...,
        raw_norms: bool = ...,
        rows: Sequence[int] = ...,
    ) -> Trace: ...
    @overload
    def trace(
        self,
        text: Texts,
        pair: Texts | None = None,
        *,
        truncate: bool = ...,
        form: Form | None = ...,
        raw_norms: bool = ...,
        rows: Sequence[int] = ...,
    ) -> list[Trace]: ...
    def trace(
        self,
        text: str | Answer | Tensor | Texts,
        pair: str | Texts | None = None,
        *,
        truncate: bool = False,
        form: Form | None = None,
        raw_norms: bool = False,
        rows: Sequence[int] = (),
    ) -> Trace | list[Trace]:
        """Run the model once and record its attention.

        Parameters
        ----------
        text : str, Answer, list of str or torch.Tensor
            One text, what the model has generated, or several texts, which are run as one padded batch. A vision model takes
            one image: pixels (channel height width), or whatever its processor takes. An audio model takes the tensor that its
            feature extractor returns for one recording.
        pair : str or list of str, optional
            A second text for each text. The decoder of an encoder-decoder reads it; without it only the encoder runs.
        truncate : bool
            Truncate texts that are longer than the model takes, instead of raising an error.
        form : {"weights", "factored"}, optional
            "weights" records all attention weights; "factored" runs a fused kernel and keeps effective attention in factored
            form, for long texts. By default, weights if they take at most 2 GiB.
        raw_norms : bool
            In factored form, also compute ‖a‖² of every row, which null mass and correlation need.
        rows : sequence of int
            In factored form, also keep the weights of these rows, and the values, which `read` and `attention_reading` need.

        Returns
        -------
        Trace or list of Trace
            One trace per text.

        Examples
        --------
        >>> import identiformer as idf
        >>> trace = idf.load("minilm").trace("He said hello.")
        >>> trace.layer(1).weights.shape  # (head query key)
        torch.Size([12, 6, 6])
        """
        single = isinstance(text, str | Answer) or takes_images(self.network) or takes_audio(self.network)
        batches = [self.encode(text, pair, truncate)]
        if self.backbone.config.model_type in READ_PADDING and isinstance(text, list | tuple):
            pairs = [None] * len(text) if pair is None else pair
            batches = [self.encode(*texts, truncate) for texts in zip(text, pairs, strict=True)]
        traces = [trace for batch in batches for trace in trace_batch(self, batch, form, raw_norms, rows)]
        return traces[0] if single else traces

    def weights_size(self, length: int) -> int:
        """Bytes of the attention weights of all layers and heads for a text of this many tokens."""
        return weights_size(self.backbone, length, self.network.dtype.itemsize)

    def encode(self, text: Any, pair: Any, truncate: bool) -> Batch:
        """The inputs of the network for one text, answer, image or audio, or for several texts."""
        return encode_inputs(self, text, pair, truncate)

    def sites(self, batch: Batch) -> list[Site]:
        """The attention sites that such inputs pass through, found by a first run on a few tokens."""
        decoding = batch.decoder is not None
        if decoding not in self._sites:
            inputs = {name: tensor[:1, :4] if name.endswith(PER_TOKEN) else tensor for name, tensor in batch.inputs.items()}
            replica = self.replica()
            first_run = partial(self._first_run, replica, inputs)
            self._sites[decoding] = discover(self.backbone, replica, first_run, self.network.config.is_encoder_decoder)
        return self._sites[decoding]

    def replica(self) -> Any:
        """The backbone of a replica, which can be hooked and changed without changing the network."""
        return backbone_of(replica_of(self.network))

    def _first_run(self, replica: Any, inputs: dict[str, Tensor]) -> Any:
        """Run the model, and report in one sentence if it needs other inputs."""
        try:
            return self.forward(replica, inputs)
        except IdentiformerError:
            raise
        except (TypeError, ValueError, AttributeError, IndexError, RuntimeError) as error:
            kind, names = type(self.backbone).__name__, ", ".join(inputs)
            raise UnsupportedModelError(f"{kind} cannot be run on {names} alone: {first_line(error)}") from error

    def forward(self, replica: Any, inputs: dict[str, Tensor], **options: Any) -> Any:
        """Run a replica of the network or of its backbone; without inputs of the decoder, only the encoder."""
        decoding = "decoder_input_ids" in inputs
        encoder_only = self.network.config.is_encoder_decoder and not decoding
        network = backbone_of(replica).get_encoder() if encoder_only else replica
        options |= {"use_cache": False} if decoding or ("input_ids" in inputs and not encoder_only) else {}
        moved = {name: tensor.to(device_of(self.network)) for name, tensor in inputs.items()}
        with preserved_blocks(network) if hasattr(self.backbone.config, "num_random_blocks") else nullcontext():
            return network(**moved, **options)

    def rerun(
        self,
        trace: Trace,
        patches: Patches,
        *,
        kind: str | None = None,
        allow_non_simplex: bool = False,
        seed: int = 0,
        tensor: Tensor | None = None,
    ) -> Rerun:
        """Run the model on the text of a trace with patched attention in some heads, and compare with the unpatched run.

        Parameters
        ----------
        trace : Trace
            A trace of this model with recorded weights.
        patches : mapping
            ``{(layer, head): weights}`` with weights (query key). Rows must be attention: nonnegative, summing to one (or less,
            where a learned sink takes the rest), and zero on keys that a query cannot see.
        kind : str, optional
            The attention type; the first one of the trace by default.
        allow_non_simplex : bool
            Accept any finite weights, such as effective attention.
        seed : int
            Of the random change in the control run.
        tensor : torch.Tensor, optional
            The image or audio of the trace, which the trace does not keep.

        Returns
        -------
        Rerun
            The largest change of each later hidden state and of the output, with that of a control (a random change of the same
            size) and of a run with the model's own weights. Four runs in all.

        Examples
        --------
        >>> import torch, identiformer as idf
        >>> model = idf.load("minilm")
        >>> trace = model.trace("He said hello.")
        >>> uniform = torch.full((6, 6), 1 / 6)
        >>> model.rerun(trace, {(6, 0): uniform}).output.patched > 0.01
        True
        """
        stack = trace.stack(kind)
        patched, control, original = weights_to_run(patches, stack, allow_non_simplex, seed)
        batch = inputs_of_trace(self, trace, tensor)
        calls = [call for call, site in enumerate(self.sites(batch)) if site.kind == stack.kind]

        def run(weights: Weights) -> dict[str, Tensor]:
            replica = replica_of(self.network)
            forward = partial(self.forward, replica, batch.inputs, output_hidden_states=True)
            return patched_states(replica, forward, calls, weights)

        return compare(list(map(run, ({}, patched, control, original))), stack.kind, min(layer for layer, _ in patched))

    def generate(
        self,
        prompt: str | Messages,
        *,
        chat: bool = False,
        system: str | None = None,
        max_new_tokens: int = 60,
        temperature: float = 0.0,
        seed: int = 0,
        num_beams: int = 1,
        spans: Spans | None = None,
    ) -> Answer:
        """Let a causal language model answer a prompt, and keep the tokens that it read and wrote.

        Parameters
        ----------
        prompt : str or sequence of dict
            A text to continue; or a chat, as messages with the keys role and content.
        chat : bool
            Put the prompt into the model's chat template, as the message of a user.
        system : str, optional
            The system message of a chat.
        max_new_tokens : int
            The largest number of tokens to write.
        temperature : float
            0 chooses the most probable token at each step; larger values sample.
        seed : int
            Of the sampling.
        num_beams : int
            Only 1: an answer of a beam search was not written token by token.
        spans : mapping, optional
            Names for spans of the prompt, ``{"question": (0, 24)}`` by character, in addition to the roles of a chat.

        Returns
        -------
        Answer
            Text, tokens, the names of their spans, probabilities, and the trace of prompt and answer. `trace` and
            all functions of a text accept an answer. If you interrupt the generation, it holds the tokens so far.

        Examples
        --------
        >>> import identiformer as idf
        >>> answer = idf.load("smollm2").generate("The capital of France is", max_new_tokens=1)  # doctest: +SKIP
        >>> answer.text, round(answer.probabilities[0], 1)  # doctest: +SKIP
        (' Paris', 0.8)
        """
        return generate(
            self, prompt, chat=chat, system=system, max_new_tokens=max_new_tokens, temperature=temperature, seed=seed,
            num_beams=num_beams, spans=spans,
        )  # fmt: skip

    def tokens(self, text: Text, pair: str | None = None, *, truncate: bool = False) -> Tokens:
        """The tokens of a text, as the model (or the encoder of an encoder-decoder) reads them.

        Parameters
        ----------
        text, pair, truncate
            As for `trace`.

        Returns
        -------
        Tokens

        Examples
        --------
        >>> import identiformer as idf
        >>> idf.load("minilm").tokens("He said hello.").texts
        ('[CLS]', 'he', 'said', 'hello', '.', '[SEP]')
        """
        return self.encode(text, pair, truncate).encoder[0]

    def length(self, text: str, pair: str | None = None) -> int:
        """The number of tokens of a text without truncation; of the longer of the two texts in an encoder-decoder."""
        sides = [(text, None), (pair, None)] if self.network.config.is_encoder_decoder and pair is not None else [(text, pair)]
        return max(len(encode_one(self.tokenizer, *side)["input_ids"]) for side in sides)

    def input_function(
        self,
        text: Text,
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
        if self.network.config.is_encoder_decoder and (pair is not None or task_head):
            raise UnsupportedModelError(
                f"derivatives of {self.name}, an encoder-decoder, are taken of its encoder only; pass one text and no output."
            )
        batch = self.encode(text, pair, truncate)
        function = find_input_function(self.network, batch, self.sites(batch)[0].path, input_site, task_head)
        return function, batch.encoder[0], self.source(batch, 0, "weights")

    @property
    def identity(self) -> dict[str, str]:
        """What identifies the model in the provenance of results."""
        return {
            "model": self.name,
            "revision": self.revision,
            "architecture": type(self.network).__name__,
            "dtype": str(self.network.dtype).removeprefix("torch."),
        }

    def source(self, batch: Batch, example: int, form: Form) -> dict[str, str]:
        """The provenance of a trace."""
        return {**self.identity, "form": form, **batch.source(example), **library_versions()}
