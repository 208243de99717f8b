"""What others give to [CLS] over a corpus: totals of all texts as shares, as Fig. 18 shows them."""

import numpy as np

import identiformer as idf

PAIRS = [("w1 w2 w3", "w4 w5 w6 w7"), ("w1 w2 w3 w4 w5 w6", "w7"), ("w3", "w1 w1")]


def test_totals_over_all_texts(tiny, tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("\n".join("\t".join(row) for row in [("sentence1", "sentence2"), *PAIRS]))
    width = tiny.network.config.hidden_size  # so many directions are exact, whatever their seed
    found = idf.run(path, tiny, ["token_attribution"], out=tmp_path / "run", directions=width)["token_attribution"]
    by_position, from_separator = np.zeros(200), np.zeros(400)
    for text, pair in PAIRS:
        one = idf.token_attribution(tiny, text, pair, exact=True)
        separator = list(one.source_token.values).index("[SEP]")
        for position, share in enumerate(one.contribution.sel(layer=2, target=0).values[1:], start=1):
            by_position[position] += share
            from_separator[200 + position - separator] += share
    told = found.cls_by_position.sel(layer=2)
    np.testing.assert_allclose(told.values, (by_position / by_position.sum())[: len(told)], atol=1e-6)
    told = found.cls_from_separator.sel(layer=2)
    wanted = from_separator[200 + told["distance"].values] / from_separator.sum()
    np.testing.assert_allclose(told.values, wanted, atol=1e-6)
