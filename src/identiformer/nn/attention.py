"""Self-attention with narrow keys and wide values, whose heads are added (Bhardwaj et al., 2021)."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedConfig

from identiformer.errors import InputError


class IdentifiableSelfAttention(nn.Module):
    """Self-attention whose head outputs determine their weights up to a chosen text length.

    Head h has keys and queries of width d_k, values of width d_v and an output map H_h of its own, and the heads are added:

        o = Σ_h A_h·V_h·H_h,   A_h = softmax(Q_h·K_h^T/√d_k).

    T_h = V_h·H_h has rank at most min(n, d_v), so that the output of a head determines its weights on texts of up to d_v tokens
    if V_h has full rank. A standard layer has d_k = d_v = width/heads; here d_k may be small and d_v as wide as the model.
    This says nothing of the sum over heads, from which no layer can read the weights of all its heads once there are more
    than width of them: see `equations.layer_nullity`.

    Parameters
    ----------
    width : int
        Of the vectors that the layer reads and writes, d.
    heads : int
        The number of heads.
    key_width : int
        d_k of each head.
    value_width : int, optional
        d_v of each head, at most the width, which is the default.
    dropout : float
        Probability of dropping a weight in training.

    Examples
    --------
    >>> import torch
    >>> layer = IdentifiableSelfAttention(width=64, heads=4, key_width=8)
    >>> output, weights = layer(torch.randn(2, 50, 64))
    >>> output.shape, weights.shape
    (torch.Size([2, 50, 64]), torch.Size([2, 4, 50, 50]))
    >>> values = layer.value(torch.randn(50, 64)).unflatten(-1, (4, 64))  # (key head value_width)
    >>> int(torch.linalg.matrix_rank(values[:, 0]))  # 50 tokens, 50 weights, 50 equations
    50
    """

    is_causal = False
    config: PreTrainedConfig | None = None
    """Of the network that the layer is part of, which chooses how attention is computed; eager without one."""

    def __init__(self, width: int, heads: int, key_width: int, value_width: int | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        value_width = width if value_width is None else value_width
        check_widths(width, heads, key_width, value_width)
        check_dropout(dropout)
        self.heads, self.key_width, self.value_width = heads, key_width, value_width
        self.scaling = key_width**-0.5
        self.dropout = dropout
        self.query = nn.Linear(width, heads * key_width)
        self.key = nn.Linear(width, heads * key_width)
        self.value = nn.Linear(width, heads * value_width)
        # One matrix for the output maps of all heads, below one another: its product with all head outputs adds the heads.
        self.output = nn.Linear(heads * value_width, width)

    def forward(
        self, hidden_states: Float[Tensor, "batch position width"], attention_mask: Tensor | None = None
    ) -> tuple[Float[Tensor, "batch position width"], Float[Tensor, "batch head query key"] | None]:
        """Attend, and add the outputs of all heads.

        Parameters
        ----------
        hidden_states : float tensor (batch position width)
            The vectors to attend over.
        attention_mask : tensor, optional
            Of shape (batch position), nonzero where there is a token and zero where there is padding; or a mask of transformers,
            (batch 1 query key), boolean or added to the scores.

        Returns
        -------
        output : float tensor (batch position width)
        weights : float tensor (batch head query key), or None where a fused kernel computes the output
        """
        _check_input(hidden_states, attention_mask, self.query.in_features)
        query, key, value = (
            linear(hidden_states).unflatten(-1, (self.heads, -1)).transpose(1, 2) for linear in (self.query, self.key, self.value)
        )
        if attention_mask is not None and attention_mask.ndim == 2:
            attention_mask = attention_mask.bool()[:, None, None]
        implementation = "eager" if self.config is None else self.config._attn_implementation
        attend = eager_attention_forward if implementation == "eager" else AttentionInterface()[implementation]
        dropout = self.dropout if self.training else 0.0
        head_outputs, weights = attend(self, query, key, value, attention_mask, dropout=dropout, scaling=self.scaling)
        return self.output(head_outputs.flatten(2)), weights


def eager_attention_forward(
    module: nn.Module,
    query: Float[Tensor, "batch head query key_width"],
    key: Float[Tensor, "batch head key key_width"],
    value: Float[Tensor, "batch head key value_width"],
    attention_mask: Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[Float[Tensor, "batch query head value_width"], Float[Tensor, "batch head query key"]]:
    """Attend with all weights in memory. Under this name, transformers' attention interface finds and records it."""
    scores = query @ key.mT * scaling
    if attention_mask is not None:
        hides = attention_mask.dtype == torch.bool
        scores = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min) if hides else scores + attention_mask
    weights = nn.functional.dropout(scores.softmax(-1), dropout, module.training)
    return (weights @ value).transpose(1, 2).contiguous(), weights


def check_widths(width: int, heads: int, key_width: int, value_width: int) -> None:
    """Raise unless a layer of these widths can be built."""
    for name, number in {"width": width, "heads": heads, "key_width": key_width, "value_width": value_width}.items():
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise InputError(f"expected {name} to be an integer of at least 1, got {number!r}.")
    for name, number in {"key_width": key_width, "value_width": value_width}.items():
        if number > width:
            raise InputError(
                f"expected {name} to be at most the width of the model, {width}, got {number}; keys and values are linear in "
                "vectors of that width, so that wider ones have no higher rank."
            )


def check_dropout(dropout: float) -> None:
    """Raise unless a number is a probability of dropping a weight."""
    if not 0 <= dropout < 1:
        raise InputError(f"expected a dropout of at least 0 and below 1, got {dropout!r}.")


def _check_input(hidden_states: Tensor, attention_mask: Tensor | None, width: int) -> None:
    shape = tuple(hidden_states.shape)
    if len(shape) != 3 or shape[-1] != width:
        raise InputError(f"expected hidden states (batch position {width}), as wide as the layer, got {shape}.")
    if attention_mask is not None and attention_mask.ndim == 2 and tuple(attention_mask.shape) != shape[:2]:
        raise InputError(
            f"expected a mask {shape[:2]}, with one entry per position of the hidden states, got {tuple(attention_mask.shape)}."
        )
