"""Parts of vectors, against what their sums become."""

import torch

from identiformer.equations.maps.decomposition import activated_parts, attended_parts, share_bias


def test_biases_are_shared_by_the_size_of_products():
    parts, bias = torch.randn(3, 5, 4, dtype=torch.float64), torch.randn(4, dtype=torch.float64)
    shared = share_bias(parts, bias)
    for position in range(5):
        products = [abs(float(part @ bias)) for part in parts[:, position]]
        for source in range(3):
            expected = parts[source, position] + bias * products[source] / sum(products)
            torch.testing.assert_close(shared[source, position], expected)
    torch.testing.assert_close(share_bias(torch.zeros(4, 1), torch.ones(1)).sum(), torch.tensor(1.0))


def test_attended_parts_sum_to_the_attention_of_their_sum():
    parts, weights = torch.randn(3, 5, 6, dtype=torch.float64), torch.rand(4, 5, 5, dtype=torch.float64)
    values, projection = torch.randn(6, 2 * 3, dtype=torch.float64), torch.randn(4 * 3, 6, dtype=torch.float64)
    expected = torch.zeros(5, 6, dtype=torch.float64)
    for head in range(4):
        group = head // 2
        value = parts.sum(0) @ values[:, 3 * group : 3 * group + 3]
        expected += weights[head] @ value @ projection[3 * head : 3 * head + 3]
    torch.testing.assert_close(attended_parts(parts, weights, values, projection).sum(0), expected)


def test_activated_parts_sum_to_the_activation():
    parts = torch.randn(3, 5, 6, dtype=torch.float64)
    parts[:, 0, 0] = 0
    x = parts.sum(0)
    activated = activated_parts(parts, x, torch.nn.functional.gelu(x))
    torch.testing.assert_close(activated.sum(0), torch.nn.functional.gelu(x))
    torch.testing.assert_close(activated[1, 2] / activated[0, 2], parts[1, 2] / parts[0, 2])
