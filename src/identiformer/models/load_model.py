"""Load a model by name, hub id, folder or GGUF file, or wrap one that is in memory."""

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils.peft_utils import ADAPTER_CONFIG_NAME

from identiformer.errors import InputError, ModelError, UnsupportedModelError
from identiformer.models.encoding.image_audio import takes_audio, takes_images
from identiformer.models.library_output import model_errors
from identiformer.models.linear_maps import PLAIN_DTYPES
from identiformer.models.loading.adapters import adapted, base_of
from identiformer.models.loading.checks import check_dtype
from identiformer.models.loading.devices import Device, check_device, check_device_map
from identiformer.models.loading.gguf_files import single_reads
from identiformer.models.loading.named import locate, why_unreachable
from identiformer.models.loading.pretrained import TASKS, Request, read_image_processor, read_network, read_tokenizer
from identiformer.models.loading.weight_files import optional_file
from identiformer.models.model import Model
from identiformer.models.offloaded import is_offloaded, stored_tensors
from identiformer.options import WEIGHTS_BUDGET, check_memory


def load(
    model: str | os.PathLike[str] | nn.Module,
    tokenizer: Any = None,
    *,
    device: str | torch.device = "cpu",
    device_map: str | Mapping[str, Device] | None = None,
    dtype: str | torch.dtype = "auto",
    task: str | None = None,
    revision: str | None = None,
    allow_pickle: bool = False,
    allow_code: bool = False,
    memory: int | str = WEIGHTS_BUDGET,
) -> Model:
    """Load a model whose attention is to be studied.

    Parameters
    ----------
    model : str, path or torch.nn.Module
        One of

        - ``"minilm"`` (all-MiniLM-L6-v2, a BERT) from a Python package that contains its files, or else the same files from
          the hub, downloaded once; or ``"smollm2"`` (SmolLM2-135M-Instruct, a Llama) with weights of 4 bits, from a package
          only. The hub's ``"HuggingFaceTB/SmolLM2-135M-Instruct"`` has other weights, in bfloat16;
        - a Hugging Face hub id, such as ``"google-bert/bert-base-uncased"``, from the local cache or else from the hub;
        - a folder as ``save_pretrained`` writes it: ``config.json``, weights in safetensors, in one file or several, tokenizer;
        - a folder with adapters of peft, which are applied to the model that they name;
        - a GGUF file, whose weights are dequantized;
        - a Hugging Face model in memory, with or without a task head, compiled or not. It is not changed, and `device`,
          `dtype` and the options below, except `memory`, do not apply.
    tokenizer : optional
        The model's tokenizer, or image processor. Required for a language model in memory; otherwise read from its files.
    device : str or torch.device
        Where to run the model.
    device_map : str or mapping, optional
        Where to keep the weights of a model that does not fit on one device: "auto" fills GPUs, then memory, then disk; "disk"
        keeps all weights on disk; or ``{"model.layers": "disk", "": "cpu"}`` by module, "" for all others. Weights that are not
        on a device are loaded while their module runs. A GPU, if there is one, runs modules kept in memory. Needs accelerate.
    dtype : str or torch.dtype
        The precision to run in: "auto" for that of the stored weights, or float32, float64, bfloat16 or float16. Equations are
        computed in float64, and derivatives in at least float32, whatever the model runs in.
    task : {"causal-lm", "masked-lm", "classification", "none"}, optional
        The head to load the model with, for explanations and changes of its output; attention and hidden states do not depend
        on it. By default the head that is stored with the model, if it is one of these.
    revision : str, optional
        A branch, tag or commit of the model on the hub.
    allow_pickle : bool
        Accept weights stored as a Python pickle, which can run any code when it is read.
    allow_code : bool
        Run Python code that comes with a model, which can do anything.
    memory : int or str
        What the attention weights of a trace, or the query × key arrays of a result, may take: bytes, or a text such as "4GiB".
        Of a text that needs more, a trace keeps effective attention in factored form, and `read` reads as many rows as fit.

    Returns
    -------
    Model

    Examples
    --------
    >>> import identiformer as idf
    >>> idf.load("minilm")
    <identiformer model minilm: BertModel>
    >>> idf.load("smollm2")  # doctest: +SKIP
    <identiformer model smollm2: LlamaForCausalLM>
    """
    memory = check_memory(memory)
    if not isinstance(model, (str, os.PathLike)):
        network = unwrapped(model)
        if tokenizer is None and not takes_images(network) and not takes_audio(network):
            raise InputError("expected a tokenizer with the model; call load(model, tokenizer).")
        name = network.config._name_or_path or type(network).__name__
        return Model(_require_finite(network, name), tokenizer, name, memory=memory)
    if task is not None and task not in TASKS:
        raise InputError(f"expected a task of {', '.join(TASKS)}, got {task!r}.")
    chosen = check_device(device)
    if device_map is not None:
        if chosen.type != "cpu":
            raise InputError("expected a device or a device map, got both; leave one out.")
        device_map = check_device_map(device_map)
    if dtype not in PLAIN_DTYPES:
        check_dtype(dtype)
        dtype = dtype if dtype == "auto" else getattr(torch, str(dtype))
    request = Request(os.fspath(model), dtype, task, device_map, allow_pickle, allow_code)
    with model_errors(f"{request.name} cannot be loaded as a Hugging Face model"):
        network, tokenizer = _located(request, tokenizer, revision)
        network = unwrapped(network).eval()
        if device_map is None and network.device != chosen:  # quantized weights are where they are
            network.to(chosen)  # pyright: ignore[reportArgumentType]
    return Model(_require_finite(network, request.name), tokenizer, request.name, memory=memory)


def _located(request: Request, tokenizer: Any, revision: str | None, adapters: bool = True) -> tuple[Any, Any]:
    """Read a model and its tokenizer by name: from a folder, a GGUF file, the hub's local cache, or else the hub.

    adapters: whether it may consist of adapters.
    """
    path = locate(request.name, revision)
    read = partial(_read, request=request, tokenizer=tokenizer, adapters=adapters)
    if path is not None and path.is_dir():
        return read(str(path), local_files_only=True)
    if path is not None:
        with single_reads():
            return read(str(path.parent), local_files_only=True, gguf_file=path.name)
    where: dict[str, Any] = {} if revision is None else {"revision": revision}
    try:
        return read(request.name, local_files_only=True, **where)
    except ModelError:
        if why_unreachable():
            raise
    return read(request.name, local_files_only=False, **where)


def _read(source: str, request: Request, tokenizer: Any, adapters: bool, **where: Any) -> tuple[Any, Any]:
    """Read a model and, unless there is one, its tokenizer; of adapters, with the model that they name."""
    config = None if "gguf_file" in where else optional_file(source, ADAPTER_CONFIG_NAME, **where)
    if config is not None:
        if not adapters:
            raise ModelError(f"expected a whole model under adapters, but {request.name} holds adapters itself.")
        base, task = base_of(config, request.name)
        network, its_tokenizer = _located(replace(request, name=base, task=request.task or task), tokenizer, None, adapters=False)
        if tokenizer is None and (config.parent / "tokenizer_config.json").is_file():
            its_tokenizer = read_tokenizer(source, request, **where)
        return adapted(network, config, request.name, base), its_tokenizer
    network = read_network(source, request, **where)
    if tokenizer is None and takes_images(network):
        tokenizer = read_image_processor(source, request, **where)
    elif tokenizer is None:
        try:
            tokenizer = read_tokenizer(source, request, **where)
        except ModelError:
            if not takes_audio(network):
                raise
    return network, tokenizer


def unwrapped(model: nn.Module) -> PreTrainedModel:
    """The Hugging Face model in a user's object; rejected where its weights do not determine all that it computes."""
    network: nn.Module = getattr(model, "_orig_mod", model)  # torch.compile keeps the model itself unchanged
    kind = type(network).__name__
    if hasattr(network, "prompt_encoder") and hasattr(network, "get_base_model"):
        raise UnsupportedModelError(
            f"{kind} inserts learned vectors of peft before the text, which are not tokens; study the model without them: "
            "load(model.get_base_model(), tokenizer)."
        )
    if hasattr(network, "get_base_model"):  # adapters of peft, inside the modules of the model
        adapters: Any = network.peft_config
        if any(getattr(settings, "alora_invocation_tokens", None) for settings in adapters.values()):
            raise UnsupportedModelError(
                f"{kind} applies its adapters only after certain tokens of each text (aLoRA), which cannot be recorded; study "
                "the model without them: load(model.unload(), tokenizer)."
            )
        network = network.get_base_model()  # pyright: ignore[reportCallIssue]
    if not isinstance(network, PreTrainedModel):
        raise InputError(f"expected a Hugging Face model, got {kind}; wrap it as docs/models.md shows: 'A model of your own'.")
    for path, module in network.named_modules():
        for key, parameter in module.named_parameters(recurse=False):
            if parameter.is_meta and not is_offloaded(module):
                raise UnsupportedModelError(
                    f"{kind} has no data for {path}.{key}, which is on torch's meta device; load the model from its files."
                )
            # A module of torch computes with its weights as they are; quantized ones are of other classes.
            if type(module).__module__.startswith("torch.nn") and parameter.dtype not in PLAIN_DTYPES:
                raise ModelError(
                    f"expected weights that torch computes with, got {str(parameter.dtype).removeprefix('torch.')} in "
                    f"{path}.{key}; load the model in another precision, such as dtype='float32'."
                )
    if towers := towers_of(network):
        calls = " and ".join(f"load(model.{name}, …)" for name in towers)
        raise UnsupportedModelError(f"{kind} holds {len(towers)} towers that attend separately; load them one by one: {calls}.")
    return network


def towers_of(network: nn.Module) -> list[str]:
    """The names of a model's towers, if it encodes its inputs separately and compares the results, as CLIP does."""
    names = [f"{kind}_model" for kind in ("text", "vision", "audio")]
    towers = [name for name in names if isinstance(getattr(network, name, None), PreTrainedModel)]
    return towers if len(towers) > 1 and hasattr(network, "get_text_features") else []


def _require_finite(network: PreTrainedModel, name: str) -> PreTrainedModel:
    parameters = {key for key, _ in network.named_parameters()}
    for key, weights in stored_tensors(network):
        if key not in parameters or type(weights) is not Tensor or weights.dtype not in PLAIN_DTYPES:
            continue  # quantized
        # The sum is quick and nearly always decides; it may overflow, though.
        if not bool(torch.isfinite(weights.sum())) and not bool(torch.isfinite(weights).all()):
            raise ModelError(f"{name} has NaN or infinite weights in {key}; get an intact copy of the model.")
    return network
