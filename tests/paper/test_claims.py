"""What the paper says, held against curves that do it and curves that do not: each claim can hold and can fail."""

from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

import identiformer as idf
from identiformer.errors import InputError
from identiformer.paper.claims import Quoted, Shape
from identiformer.paper.computations.scale import FULL
from identiformer.paper.computations.study import Study
from identiformer.paper.passage import Passage
from identiformer.paper.recipes.registry import RECIPES

LAYERS = np.arange(1, 13)
FALL = np.linspace(1.0, 0.4, 12)
RISE = FALL[::-1]
FLAT = np.full(12, 0.95)
PEAK = np.array([1, 1, 1, 1, 2, 5, 6, 5, 2, 1, 1, 1]) / 20
EARLY, LATE = np.linspace(0.5, 0.1, 12), np.linspace(0.1, 0.5, 12)


def told(results, **given):
    """A study of twelve layers that computes nothing: what it is asked for is what a case says."""

    def answer(found):
        return lambda self, part="MRPC": found[part] if isinstance(found, dict) else found

    answers = {name: answer(found) for name, found in results.items()}
    return object.__new__(type("Told", (Study,), {"layers": 12, "scale": FULL, **given, **answers}))


def claim(figure: str, words: str) -> Shape | Quoted:
    (found,) = [each for recipe in RECIPES if recipe.number == figure for each in recipe.claims if words in each.says]
    return found


def rates(**curves):
    names = [name.replace("_", " ") for name in curves]
    values = np.array(list(curves.values()))
    attrs = {"examples": 408, "tokens": 21_723}
    return xr.Dataset({"rate": (("probe", "layer"), values)}, {"probe": names, "layer": LAYERS}, attrs)


def received(which, kind, curve):
    values = np.zeros((12, 3, 1)) + 0.01
    kinds = ["[CLS]", "[SEP]", "punctuation"]
    values[:, kinds.index(kind), 0] = curve
    return xr.DataArray(values, {"layer": LAYERS, "kind": kinds, "head": [0]}, name=f"{which}_received")


def attention(kind, raw, effective):
    return {"attention": xr.merge([received("raw", kind, raw), received("effective", kind, effective)])}


def transfer(layer, curve):
    trained = [1, 6, 11, 12]
    values = np.zeros((1, 4, 12)) + 0.5
    values[0, trained.index(layer)] = curve
    given = {"probe": ["linear cosine"], "trained": trained, "layer": LAYERS}
    return {"transfer": xr.Dataset({"rate": (("probe", "trained", "layer"), values)}, given)}


def steps(l2, cosine):
    plain, tuned = FLAT.copy(), {"l2": FLAT.copy(), "cosine": FLAT.copy()}
    tuned["l2"][-1] -= l2
    tuned["cosine"][-1] -= cosine
    return {
        "plain_steps": rates(naive_l2=plain, naive_cosine=plain),
        "finetuned_steps": rates(naive_l2=tuned["l2"], naive_cosine=tuned["cosine"]),
    }


def distances(*far):
    """By distance -12 .. 12: what is at 12 grows as given, from the first to the middle and the last layer."""
    places = np.arange(-12, 13)
    values = np.zeros((12, 25))
    values[:, [11, 13]] = 0.2
    values[:, 0] = np.interp(LAYERS, [1, 6, 12], far)
    return xr.Dataset({"by_distance": (("layer", "distance"), values)}, {"layer": LAYERS, "distance": places})


def strangers(*first):
    values = np.array([*first, *np.linspace(0.05, 0.3, 12 - len(first))])
    return xr.Dataset({"certainly_not_own_main": ("layer", values), "not_own_main": ("layer", values)})


def tags(before, now, layers):
    """Medians of kinds in two layers, quartiles around them as wide as the median is high."""
    medians = np.array([list(before.values()), list(now.values())])
    values = np.stack([0.5 * medians, medians, 1.5 * medians])
    given = {"quantile": [0.25, 0.5, 0.75], "layer": layers, "tag": list(before)}
    return {"by_tag": xr.Dataset({"self_contribution_quantiles": (("quantile", "layer", "tag"), values)}, given)}


def both(part, one, other):
    return {"attribution": {part: one, "MRPC": other}}


CASES = [
    ("1b", "[CLS]", attention("[CLS]", EARLY, EARLY), attention("[CLS]", LATE, EARLY)),
    ("1b", "[SEP]", attention("[SEP]", PEAK, PEAK), attention("[SEP]", EARLY, PEAK)),
    ("1b", "punctuation", attention("punctuation", LATE, LATE), attention("punctuation", PEAK, LATE)),
    ("1c", "peak of [SEP]", attention("[SEP]", PEAK, PEAK / 3), attention("[SEP]", PEAK, PEAK * 0.7)),
    ("2a", "without a map nearly all", {"identifiability": rates(naive_cosine=FLAT, naive_l2=FLAT)},
     {"identifiability": rates(naive_cosine=FLAT, naive_l2=FALL)}),
    ("2a", "from there on", {"identifiability": rates(naive_cosine=FALL)}, {"identifiability": rates(naive_cosine=RISE)}),
    ("2b", "almost monotonically", transfer(12, FALL), transfer(12, RISE)),
    ("2b", "a map of the middle", transfer(6, np.minimum(0.8, FALL)), transfer(6, RISE)),
    ("2b", "drops most", transfer(11, [*[0.9] * 11, 0.5]), transfer(11, FALL**2)),
    ("3", "first quarter", {"attribution": strangers(0, 0, 0.004)}, {"attribution": strangers(0, 0, 0.006)}),
    ("3", "the more tokens", {"attribution": strangers(0, 0, 0)}, {"attribution": strangers(0.4, 0.3)}),
    ("4b", "grows with depth", {"attribution": distances(0, 0.1, 0.2)}, {"attribution": distances(0, 0.2, 0.1)}),
    ("4b", "grows with depth", {"attribution": distances(0, 0.1, 0.2)}, {"attribution": distances(0.1, 0.05, 0.2)}),
    ("12", "fine-tuning costs", steps(0.2, 0.02), steps(0.034, 0.027)),
    ("12", "fine-tuning costs", steps(0.2, 0.02), steps(0.2, 0.15)),
    ("27", "less is left", tags({"NN": 0.4, "IN": 0.2}, {"NN": 0.3, "IN": 0.2}, [1, 2]),
     tags({"NN": 0.3, "IN": 0.2}, {"NN": 0.4, "IN": 0.2}, [1, 2])),
    ("30", "function words differ less", tags({"DT": 0.3}, {"DT": 0.2}, [4, 5]), tags({"DT": 0.2}, {"DT": 0.3}, [4, 5])),
    ("31", "in the order", tags({"NN": 0.4, "IN": 0.2, "DT": 0.1}, {"NN": 0.3, "IN": 0.2, "DT": 0.1}, [5, 6]),
     tags({"NN": 0.4, "IN": 0.2, "DT": 0.1}, {"NN": 0.2, "IN": 0.3, "DT": 0.1}, [5, 6])),
    ("41b", "less comes from", both("CoLA", distances(0, 0, 0.1), distances(0, 0, 0.2)),
     both("CoLA", distances(0, 0, 0.2), distances(0, 0, 0.1))),
    ("42", "as many are not", both("MNLI", strangers(0), strangers(0.04)), both("MNLI", strangers(0), strangers(0.06))),
]  # fmt: skip


@pytest.mark.parametrize(("figure", "words", "holding", "failing"), CASES)
def test_a_shape_holds_and_fails(figure, words, holding, failing):
    shape = claim(figure, words)
    assert shape.holds(told(holding))[0] is True
    assert shape.holds(told(failing))[0] is False


@pytest.mark.parametrize(("figure", "words", "results", "ours"), [
    ("2b", "in the last but one", transfer(1, FALL), FALL[-2]),
    ("26", "more than 40%", tags({"[CLS]": 0.41, "NN": 0.3, "IN": 0.2}, {"[CLS]": 0, "NN": 0, "IN": 0}, [1, 2]), 0.41),
    ("26", "less than 35%", tags({"[CLS]": 0.41, "NN": 0.3, "IN": 0.2}, {"[CLS]": 0, "NN": 0, "IN": 0}, [1, 2]), 0.3),
    ("2a", "guessing", {"identifiability": rates(naive_cosine=FLAT)}, 408 / 21_723),
])  # fmt: skip
def test_a_bound_of_the_paper_is_a_number(figure, words, results, ours):
    quoted = claim(figure, words)
    assert quoted.ours(told(results)) == pytest.approx(ours)


TOKENS = ["[CLS]", "them", ".", "[SEP]", "might", "make", "them", "less", "[SEP]"]


def passage(*places):
    """Heads whose largest effective weight off the diagonal is at these places; what is on the diagonal is larger still."""
    effective = np.tile(np.eye(len(TOKENS)), (len(places), 1, 1))
    for head, (query, key) in enumerate(places):
        effective[head, query, key] = 0.5
    null = np.zeros_like(effective)
    null[..., [0, 3, 8]] = 0.4
    maps = {name: (("layer", "head", "query", "key"), values[None]) for name, values in
            (("raw", effective + null), ("effective", effective), ("null", null))}  # fmt: skip
    given = {"layer": [4], "query": range(len(TOKENS)), "key": range(len(TOKENS)), "head": range(len(places)),
             "query_token": ("query", TOKENS), "key_token": ("key", TOKENS)}  # fmt: skip
    return xr.Dataset({**maps, "correlation": (("layer", "head"), np.linspace(0.5, 0.2, len(places))[None])}, given)


def study_of(result, shown=None):
    tokenizer = SimpleNamespace(all_special_tokens=["[CLS]", "[SEP]"])
    model = SimpleNamespace(tokenizer=tokenizer, tokens=lambda text: SimpleNamespace(texts=["[CLS]", *text.split(), "[SEP]"]))
    return told({"passage": result}, read=Passage(" ".join(TOKENS), "b", shown), model=model)


def test_the_far_reference_of_figure_6():
    shape = claim("6", "off the diagonal")
    assert shape.holds(study_of(passage((4, 2), (5, 1)))) == (True, "in head 1, 4 apart")
    assert shape.holds(study_of(passage((4, 2), (5, 6)))) == (False, "4 apart; the largest of each head: might → ., make → them")
    assert shape.holds(study_of(passage((7, 2), (2, 1)), shown="might make them less"))[0] is False
    elsewhere = passage((2, 4))
    elsewhere["effective"][0, 0, 5, 1] = 0.3  # the largest of the rows that are shown, not of all
    assert shape.holds(study_of(elsewhere, shown="might make"))[0] is True
    assert shape.holds(study_of(elsewhere))[0] is False


def test_figure_6_is_of_the_rows_that_are_shown(tiny, tmp_path):
    (tmp_path / "glue" / "MRPC").mkdir(parents=True)
    (tmp_path / "glue" / "MRPC" / "dev.tsv").write_text("sentence1\tsentence2\nw1\tw2\n")
    lines = ("w1 w2 w3", "w4 w5 w6 w7", "w5 w6")
    done = idf.reproduce(tiny, tmp_path / "glue", tmp_path / "out", figures=["6"], quick=True, passage=lines)
    assert "rows of “w5 w6”" in done.page.read_text(encoding="utf-8")
    with pytest.raises(InputError, match="expected a sentence of the passage"):
        idf.reproduce(tiny, tmp_path / "glue", tmp_path / "other", figures=["6"], quick=True, passage=(*lines[:2], "w6 w5"))
    assert not (tmp_path / "other").exists()
