"""Analytic derivatives against torch's forward mode on the plain formulas."""

import pytest
import torch
from torch import Tensor
from torch.func import jvp
from torch.nn import functional

from identiformer.equations.attribution.tangents import AttentionTangent, BlockTangent, FeedForwardTangent, NormTangent

POSITIONS, WIDTH, GROUPS, REPEAT, HEAD = 5, 12, 2, 3, 4


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def pushed_by_torch(function, point: Tensor, tangents: Tensor) -> Tensor:
    return torch.stack([jvp(function, (point,), (tangent,))[1] for tangent in tangents])


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * weight


@pytest.mark.parametrize("centered", [True, False])
def test_norms(centered):
    weight, bias, point, tangents = normal(WIDTH), normal(WIDTH), normal(POSITIONS, WIDTH), normal(3, POSITIONS, WIDTH)
    plain = (lambda x: functional.layer_norm(x, (WIDTH,), weight, bias, 1e-5)) if centered else lambda x: rms_norm(x, weight)
    moved = NormTangent.at(point, weight, 1e-5, centered).push(tangents, 0)
    torch.testing.assert_close(moved, pushed_by_torch(plain, point, tangents))
    late = NormTangent.at(point, weight, 1e-5, centered).push(tangents[:, 2:], 2)
    torch.testing.assert_close(late, moved[:, 2:])


def attend(queries: Tensor, keys: Tensor, values: Tensor, hidden: Tensor, sink: float) -> tuple[Tensor, Tensor]:
    """Plain grouped attention: (group repeat position width) on (group position width)."""
    scores = (0.3 * queries @ keys[:, None].mT).masked_fill(hidden, -torch.inf)
    scores = torch.cat([scores, scores.new_full((*scores.shape[:-1], 1), sink)], -1)
    weights = torch.softmax(scores, -1)[..., :-1]
    return weights @ values[:, None], weights


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("sink", [-torch.inf, 0.5])
def test_attention(causal, sink):
    shapes = (GROUPS, REPEAT, POSITIONS, HEAD), (GROUPS, POSITIONS, HEAD), (GROUPS, POSITIONS, 3)
    hidden = torch.ones(POSITIONS, POSITIONS, dtype=torch.bool).triu(1) & causal
    points = [normal(*shape) for shape in shapes]
    first = 2 if causal else 0
    tangents = [normal(2, *shape) for shape in shapes]
    for tangent in tangents:
        tangent[..., :first, :] = 0
    expected = torch.stack(
        [
            jvp(lambda *at: attend(*at, hidden, sink)[0], tuple(points), tuple(tangent[number] for tangent in tangents))[1]
            for number in range(2)
        ],
        1,
    )
    attention = AttentionTangent(*points, attend(*points, hidden, sink)[1], 0.3)
    queries, keys, values = (tangent[..., first:, :].transpose(0, 1) for tangent in tangents)
    torch.testing.assert_close(attention.push(queries, keys, values, first), expected[..., first:, :])
    assert not expected[..., :first, :].any()


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    left, right = x.chunk(2, -1)
    return x * cosine + torch.cat([-right, left], -1) * sine


@pytest.mark.parametrize(("norms_follow", "gated", "rotary", "causal"), [(True, False, False, False), (False, True, True, True)])
def test_whole_blocks(norms_follow, gated, rotary, causal):
    heads = GROUPS * REPEAT
    sizes = (heads * HEAD, GROUPS * HEAD, GROUPS * HEAD)
    into_heads, out_of_heads = normal(WIDTH, sum(sizes)), normal(heads * HEAD, WIDTH)
    into, out_of = normal(WIDTH, 14 if gated else 7) / 4, normal(7, WIDTH)
    angles = normal(POSITIONS, HEAD // 2).repeat(1, 2)
    rotation = (angles.cos(), angles.sin()) if rotary else None
    weights = normal(2, WIDTH)
    hidden = torch.ones(POSITIONS, POSITIONS, dtype=torch.bool).triu(1) & causal

    def norm(x: Tensor, number: int) -> Tensor:
        return functional.layer_norm(x, (WIDTH,), weights[number], None, 1e-5) if norms_follow else rms_norm(x, weights[number])

    def heads_of(x: Tensor) -> list[Tensor]:
        parts = (x @ into_heads).split(sizes, -1)
        queries = parts[0].unflatten(-1, (GROUPS, REPEAT, HEAD)).permute(1, 2, 0, 3)
        keys, values = (part.unflatten(-1, (GROUPS, HEAD)).transpose(0, 1) for part in parts[1:])
        return [rotate(queries, *rotation), rotate(keys, *rotation), values] if rotation else [queries, keys, values]

    def attention(x: Tensor) -> Tensor:
        return attend(*heads_of(x), hidden, -torch.inf)[0].permute(2, 0, 1, 3).flatten(1) @ out_of_heads

    def feed_forward(x: Tensor) -> Tensor:
        features = (x @ into).unflatten(-1, (-1, 7))
        return (functional.silu(features[:, 0]) * (features[:, 1] if gated else 1)) @ out_of

    def block(x: Tensor) -> Tensor:
        if norms_follow:
            middle = norm(x + attention(x), 0)
            return norm(middle + feed_forward(middle), 1)
        middle = x + attention(norm(x, 0))
        return middle + feed_forward(norm(middle, 1))

    point, tangents = normal(POSITIONS, WIDTH), normal(3, POSITIONS, WIDTH)
    first = 1 if causal else 0
    tangents[:, :first] = 0
    read = point if norms_follow else norm(point, 0)
    summed = point + attention(read)
    fed = norm(summed, 0 if norms_follow else 1)
    features = (fed @ into).unflatten(-1, (-1, 7)).unbind(1)
    value, slope = jvp(functional.silu, (features[0],), (torch.ones_like(features[0]),))
    slopes = torch.stack([slope * features[1], value] if gated else [slope])
    behind = (fed + feed_forward(fed)) if norms_follow else summed
    written = BlockTangent(
        NormTangent.at(summed if norms_follow else point, weights[0], 1e-5, norms_follow),
        NormTangent.at(behind, weights[1], 1e-5, norms_follow),
        norms_follow,
        into_heads,
        rotation,
        AttentionTangent(*heads_of(read), attend(*heads_of(read), hidden, -torch.inf)[1], 0.3),
        out_of_heads,
        FeedForwardTangent(into, slopes, out_of),
    )
    moved = written.push(tangents[:, first:], first)
    torch.testing.assert_close(moved.hidden, pushed_by_torch(block, point, tangents)[:, first:])
    expected = pushed_by_torch(
        lambda x: attend(*heads_of(x if norms_follow else norm(x, 0)), hidden, -torch.inf)[0].flatten(0, 1), point, tangents
    )
    torch.testing.assert_close(moved.head_outputs, expected[:, :, first:])
