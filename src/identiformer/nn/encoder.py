"""An encoder and a text classifier of identifiable layers, as Hugging Face models; by configuration also of standard ones."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, PreTrainedConfig, PreTrainedModel
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput
from transformers.utils.generic import can_return_tuple
from transformers.utils.output_capturing import capture_outputs

from identiformer.errors import InputError
from identiformer.nn.attention import IdentifiableSelfAttention, check_dropout, check_widths


class IdentifiableConfig(PreTrainedConfig):
    """The configuration of an encoder of `IdentifiableSelfAttention`, and of its classifier.

    Parameters
    ----------
    vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, max_position_embeddings
        As in BERT.
    key_width : int
        Width of each head's queries and keys.
    value_width : int, optional
        Width of each head's values; hidden_size by default. A standard layer has hidden_size / num_attention_heads for both.
    num_labels : int
        Of the classifier.

    Examples
    --------
    >>> config = IdentifiableConfig(vocab_size=100, hidden_size=32, num_attention_heads=4, key_width=4)
    >>> config.value_width
    32
    """

    model_type = "identifiable"

    def __init__(
        self,
        vocab_size: int = 30522,
        hidden_size: int = 128,
        num_hidden_layers: int = 2,
        num_attention_heads: int = 4,
        key_width: int = 8,
        value_width: int | None = None,
        intermediate_size: int = 256,
        max_position_embeddings: int = 512,
        dropout: float = 0.1,
        layer_norm_eps: float = 1e-12,
        initializer_range: float = 0.02,
        pad_token_id: int | None = 0,
        **options: Any,
    ) -> None:
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.key_width = key_width
        self.value_width = hidden_size if value_width is None else value_width
        check_widths(hidden_size, num_attention_heads, key_width, self.value_width)
        check_dropout(dropout)
        self.intermediate_size = intermediate_size
        self.max_position_embeddings = max_position_embeddings
        self.dropout = dropout
        self.layer_norm_eps = layer_norm_eps
        self.initializer_range = initializer_range
        self.pad_token_id = pad_token_id
        super().__init__(**options)


class _Embeddings(nn.Module):
    """Words and positions."""

    def __init__(self, config: IdentifiableConfig) -> None:
        super().__init__()
        self.words = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.positions = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, vectors: Tensor) -> Tensor:
        if vectors.shape[1] > self.positions.num_embeddings:
            raise InputError(
                f"expected at most {self.positions.num_embeddings} tokens, got {vectors.shape[1]}; truncate the text."
            )
        positions = self.positions(torch.arange(vectors.shape[1], device=vectors.device))
        return self.dropout(self.norm(vectors + positions))


class _FeedForward(nn.Module):
    def __init__(self, config: IdentifiableConfig) -> None:
        super().__init__()
        self.up = nn.Linear(config.hidden_size, config.intermediate_size)
        self.activation = nn.GELU()
        self.down = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.down(self.activation(self.up(hidden_states)))


class _Layer(nn.Module):
    """Attention and a feed-forward layer, with a norm after each residual sum."""

    def __init__(self, config: IdentifiableConfig) -> None:
        super().__init__()
        self.attention = IdentifiableSelfAttention(
            config.hidden_size, config.num_attention_heads, config.key_width, config.value_width, config.dropout
        )
        self.attention.config = config
        self.attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.feed_forward = _FeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, hidden_states: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        attended, _ = self.attention(hidden_states, attention_mask)
        hidden_states = self.attention_norm(hidden_states + self.dropout(attended))
        return self.feed_forward_norm(hidden_states + self.dropout(self.feed_forward(hidden_states)))


class _PreTrained(PreTrainedModel):
    config: IdentifiableConfig
    config_class = IdentifiableConfig
    base_model_prefix = "encoder"
    _supports_sdpa = True
    _supports_attention_backend = True
    _can_record_outputs: ClassVar[Any] = {"hidden_states": _Layer, "attentions": IdentifiableSelfAttention}


class IdentifiableModel(_PreTrained):
    """An encoder whose layers attend by `IdentifiableSelfAttention`.

    Parameters
    ----------
    config : IdentifiableConfig

    Examples
    --------
    >>> import torch
    >>> config = IdentifiableConfig(vocab_size=100, hidden_size=32, key_width=4)
    >>> IdentifiableModel(config)(torch.tensor([[2, 7, 3]])).last_hidden_state.shape
    torch.Size([1, 3, 32])
    """

    def __init__(self, config: IdentifiableConfig) -> None:
        super().__init__(config)
        self.embeddings = _Embeddings(config)
        self.layers = nn.ModuleList(_Layer(config) for _ in range(config.num_hidden_layers))
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.embeddings.words

    def set_input_embeddings(self, value: Any) -> None:
        self.embeddings.words = value

    @capture_outputs
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        **_: Any,
    ) -> BaseModelOutput:
        """Encode a batch of token ids, or of their vectors; attention_mask is 1 for tokens and 0 for padding."""
        if (input_ids is None) == (inputs_embeds is None):
            raise InputError("expected either input_ids or inputs_embeds; pass one of them.")
        hidden_states = self.embeddings(self.embeddings.words(input_ids) if inputs_embeds is None else inputs_embeds)
        mask = create_bidirectional_mask(config=self.config, inputs_embeds=hidden_states, attention_mask=attention_mask)
        for layer in self.layers:
            hidden_states = layer(hidden_states, attention_mask=mask)
        return BaseModelOutput(last_hidden_state=hidden_states)


class IdentifiableForSequenceClassification(_PreTrained):
    """The encoder with a linear classifier of the mean of its vectors.

    Parameters
    ----------
    config : IdentifiableConfig
        With num_labels.

    Examples
    --------
    >>> import torch
    >>> config = IdentifiableConfig(vocab_size=100, hidden_size=32, key_width=4, num_labels=6)
    >>> network = IdentifiableForSequenceClassification(config)
    >>> network(torch.tensor([[2, 7, 3]]), labels=torch.tensor([5])).logits.shape
    torch.Size([1, 6])
    """

    def __init__(self, config: IdentifiableConfig) -> None:
        labels = config.num_labels or 0
        if labels < 2:
            raise InputError(f"expected a classifier of at least two labels, got {labels}; set num_labels.")
        super().__init__(config)
        self.encoder = IdentifiableModel(config)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.hidden_size, labels)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        **options: Any,
    ) -> SequenceClassifierOutput:
        """Classify a batch; with labels, also return the cross-entropy."""
        encoded = self.encoder(input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds, **options)
        vectors = encoded.last_hidden_state
        visible = vectors.new_ones(vectors.shape[:2]) if attention_mask is None else attention_mask.to(vectors)
        mean = (vectors * visible[..., None]).sum(1) / visible.sum(1, keepdim=True).clamp(min=1)
        logits = self.classifier(self.dropout(mean))
        loss: Any = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return SequenceClassifierOutput(
            loss=loss, logits=logits, hidden_states=encoded.hidden_states, attentions=encoded.attentions
        )


AutoConfig.register(IdentifiableConfig.model_type, IdentifiableConfig, exist_ok=True)
AutoModel.register(IdentifiableConfig, IdentifiableModel, exist_ok=True)
AutoModelForSequenceClassification.register(IdentifiableConfig, IdentifiableForSequenceClassification, exist_ok=True)
