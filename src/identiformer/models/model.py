"""A loaded model with its tokenizer: trace a text, and run it again with patched attention."""

from collections.abc import Sequence
from typing import Any, overload

from torch import Tensor

from identiformer.errors import UnsupportedModelError
from identiformer.models.attention.families import READ_PADDING
from identiformer.models.derivatives.input_function import InputFunction
from identiformer.models.derivatives.input_site import find_input_function
from identiformer.models.encoding.image_audio import takes_audio, takes_images
from identiformer.models.encoding.text import Batch
from identiformer.models.generation.answer import Answer, Text
from identiformer.models.generation.chat_template import Messages
from identiformer.models.generation.generate import generate
from identiformer.models.generation.prompts import Spans
from identiformer.models.inputs import encode_inputs, inputs_of_trace
from identiformer.models.interventions.patching import Patches, Rerun, rerun
from identiformer.models.loaded import LoadedModel
from identiformer.models.tracing import Form, trace_batch
from identiformer.tokens import Tokens
from identiformer.trace import Trace

Texts = list[str] | tuple[str, ...]


class Model(LoadedModel):
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
    memory : int
        Bytes that the query × key arrays of a trace or a result may take, as in `load`.

    Examples
    --------
    >>> import identiformer as idf
    >>> model = idf.load("minilm")
    >>> model.trace("He said hello.").tokens
    ('[CLS]', 'he', 'said', 'hello', '.', '[SEP]')
    >>> model.positions
    512
    """

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
            form, for long texts. By default, weights if they fit into `memory`, 2 GiB unless `load` was given another.
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

    def encode(self, text: Any, pair: Any, truncate: bool) -> Batch:
        """The inputs of the network for one text, answer, image or audio, or for several texts."""
        return encode_inputs(self, text, pair, truncate)

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
        batch = inputs_of_trace(self, trace, tensor)
        return rerun(self, batch, trace.stack(kind), patches, allow_non_simplex=allow_non_simplex, seed=seed)

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
        generation_config: str | None = None,
        spans: Spans | None = None,
        keep_partial: bool = False,
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
            0 chooses the token with the largest logit at each step; larger values sample from the softmax of the logits divided
            by the temperature.
        seed : int
            Of the sampling.
        num_beams : int
            Only 1: an answer of a beam search was not written token by token.
        generation_config : {"model"}, optional
            Also apply the settings that the model was published with, such as a repetition penalty or top_p; `decoding` of the
            answer names each that had an effect. By default, only the model's stop tokens are used.
        spans : mapping, optional
            Names for spans of the prompt, ``{"question": (0, 24)}`` by character, in addition to the roles of a chat.
        keep_partial : bool
            Whether Ctrl-C returns the tokens written so far, as an answer with `interrupted` true, instead of raising
            KeyboardInterrupt.

        Returns
        -------
        Answer
            Text, tokens, the names of their spans, probabilities, settings, and the trace of prompt and answer. `trace` and
            all functions of a text accept an answer.

        Examples
        --------
        >>> import identiformer as idf
        >>> answer = idf.load("smollm2").generate("The capital of France is", max_new_tokens=1)  # doctest: +SKIP
        >>> answer.text, round(answer.probabilities[0], 1)  # doctest: +SKIP
        (' Paris', 0.8)
        """
        return generate(
            self, prompt, chat=chat, system=system, max_new_tokens=max_new_tokens, temperature=temperature, seed=seed,
            num_beams=num_beams, generation_config=generation_config, spans=spans, keep_partial=keep_partial,
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
