"""The inputs of a network for whatever it reads: texts, an answer, an image, audio, or what a trace was made from."""

from typing import Any

from torch import Tensor

from identiformer.errors import InputError
from identiformer.models.encoding.image_audio import encode_audio, encode_image, takes_audio, takes_images
from identiformer.models.encoding.text import Batch, check_ids, encode
from identiformer.models.generation.answer import Answer, batch_of
from identiformer.models.loaded import LoadedModel
from identiformer.trace import Trace


def encode_inputs(model: LoadedModel, text: Any, pair: Any, truncate: bool) -> Batch:
    """The inputs for one text, answer, image or audio, or for several texts."""
    if isinstance(text, Answer):
        if text.model.revision != model.revision:
            raise InputError(f"expected an answer of this model ({model.name}), got one of {text.model.name}.")
        return text.batch
    if takes_images(model.network):
        if pair is not None:
            raise InputError("expected one image, got a pair; trace them one after the other.")
        return encode_image(text, model.tokenizer, model.replica())
    if takes_audio(model.network):
        return encode_audio(text, pair, model.tokenizer, model.replica(), truncate)
    if isinstance(text, Tensor):
        raise InputError(f"expected a text, which is what {type(model.network).__name__} reads, got a tensor.")
    texts = [text] if isinstance(text, str) else list(text)
    pairs = [pair] if isinstance(pair, str) else None if pair is None else list(pair)
    batch = encode(model.tokenizer, texts, pairs, model.positions, truncate, model.network.config.is_encoder_decoder)
    return check_ids(batch, model.backbone, model.tokenizer)


def inputs_of_trace(model: LoadedModel, trace: Trace, tensor: Tensor | None = None) -> Batch:
    """The inputs that a trace was made from; `tensor` is its image or audio, which it does not keep."""
    source = trace.source
    if source.get("revision") != model.revision:
        raise InputError(f"expected a trace of this model ({model.name}), got one of {source.get('model')}; trace it again.")
    reads_text = not takes_images(model.network) and not takes_audio(model.network)
    if not reads_text and tensor is None:
        raise InputError("expected the image or audio of the trace, which the trace does not keep; pass it as tensor=.")
    if "token_ids" in source:
        return batch_of(trace.stacks[0].queries, source["text"], source["decoding"])
    batch = encode_inputs(model, source["text"] if reads_text else tensor, source.get("pair"), True)
    if batch.source(0)["text_hash"] != source["text_hash"]:
        raise InputError("expected the image or audio from which the trace was made, got another one.")
    return batch
