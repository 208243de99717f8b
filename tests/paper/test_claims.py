"""Every kind of claim holds on curves that show it and fails on curves that do not."""

from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

import identiformer as idf
from identiformer.errors import InputError
from identiformer.paper.computations.data import FULL, Passage
from identiformer.paper.computations.study import Study
from identiformer.paper.recipes import RECIPES
from identiformer.paper.recipes.declarations import Claim, Comparison, Paper, decreases, grade_table

LAYERS = np.arange(1, 13)
FALL = np.linspace(1.0, 0.4, 12)
RISE = FALL[::-1]
FLAT = np.full(12, 0.95)
PEAK = np.array([1, 1, 1, 1, 2, 5, 6, 5, 2, 1, 1, 1]) / 20
EARLY, LATE = np.linspace(0.5, 0.1, 12), np.linspace(0.1, 0.5, 12)


def study_with(results, **attributes):
    """A study of twelve layers that computes nothing: its methods return these results, by dataset if there are several."""

    def method(result):
        return lambda self, *arguments, **options: (
            result[arguments[0] if arguments else "MRPC"] if isinstance(result, dict) else result
        )

    methods = {name: result if callable(result) else method(result) for name, result in results.items()}
    return object.__new__(type("StudyWith", (Study,), {"layers": 12, "scale": FULL, **attributes, **methods}))


def find_claim(figure: str, words: str) -> Claim:
    (match,) = [claim for recipe in RECIPES if recipe.number == figure for claim in recipe.claims if words in claim.says]
    return match


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
    coordinates = {"probe": ["linear cosine"], "trained": trained, "layer": LAYERS}
    return {"transfer": xr.Dataset({"rate": (("probe", "trained", "layer"), values)}, coordinates)}


def steps(l2, cosine):
    plain, tuned = FLAT.copy(), {"l2": FLAT.copy(), "cosine": FLAT.copy()}
    tuned["l2"][-1] -= l2
    tuned["cosine"][-1] -= cosine
    before, after = rates(naive_l2=plain, naive_cosine=plain), rates(naive_l2=tuned["l2"], naive_cosine=tuned["cosine"])
    return {"task_steps": lambda self, task, tuned: after if tuned else before}


def distances(*far):
    """By distance from -12 to 12: the share at -12 has these values in the first, the middle and the last layer."""
    offsets = np.arange(-12, 13)
    values = np.zeros((12, 25))
    values[:, [11, 13]] = 0.2
    values[:, 0] = np.interp(LAYERS, [1, 6, 12], far)
    return xr.Dataset({"by_distance": (("layer", "distance"), values)}, {"layer": LAYERS, "distance": offsets})


def not_own_main(*first):
    values = np.array([*first, *np.linspace(0.05, 0.3, 12 - len(first))])
    return xr.Dataset({"certainly_not_own_main": ("layer", values), "not_own_main": ("layer", values)})


def tags(before, now, layers):
    """Medians by tag in two layers, with quartiles at half and one and a half times the median."""
    medians = np.array([list(before.values()), list(now.values())])
    values = np.stack([0.5 * medians, medians, 1.5 * medians])
    coordinates = {"quantile": [0.25, 0.5, 0.75], "layer": layers, "tag": list(before)}
    return {"by_tag": xr.Dataset({"self_contribution_quantiles": (("quantile", "layer", "tag"), values)}, coordinates)}


def two_datasets(dataset, result, mrpc):
    return {"attribution": {dataset: result, "MRPC": mrpc}}


CASES = [
    ("1b", "[CLS]", attention("[CLS]", EARLY, EARLY), attention("[CLS]", LATE, EARLY)),
    ("1b", "[SEP]", attention("[SEP]", PEAK, PEAK), attention("[SEP]", EARLY, PEAK)),
    ("1b", "punctuation", attention("punctuation", LATE, LATE), attention("punctuation", PEAK, LATE)),
    ("1c", "peak of [SEP]", attention("[SEP]", PEAK, PEAK / 3), attention("[SEP]", PEAK, PEAK * 0.7)),
    ("2a", "without a probe nearly all", {"identifiability": rates(naive_cosine=FLAT, naive_l2=FLAT)},
     {"identifiability": rates(naive_cosine=FLAT, naive_l2=FALL)}),
    ("2a", "after the first third", {"identifiability": rates(naive_cosine=FALL)}, {"identifiability": rates(naive_cosine=RISE)}),
    ("2b", "almost monotonically", transfer(12, FALL), transfer(12, RISE)),
    ("2b", "a middle-layer probe", transfer(6, np.minimum(0.8, FALL)), transfer(6, RISE)),
    ("2b", "drops most", transfer(11, [*[0.9] * 11, 0.5]), transfer(11, FALL**2)),
    ("3", "first quarter", {"attribution": not_own_main(0, 0, 0.004)}, {"attribution": not_own_main(0, 0, 0.006)}),
    ("3", "share of tokens", {"attribution": not_own_main(0, 0, 0)}, {"attribution": not_own_main(0.4, 0.3)}),
    ("4b", "grows with depth", {"attribution": distances(0, 0.1, 0.2)}, {"attribution": distances(0, 0.2, 0.1)}),
    ("4b", "grows with depth", {"attribution": distances(0, 0.1, 0.2)}, {"attribution": distances(0.1, 0.05, 0.2)}),
    ("12", "fine-tuning costs", steps(0.2, 0.02), steps(0.034, 0.027)),
    ("12", "fine-tuning costs", steps(0.2, 0.02), steps(0.2, 0.15)),
    ("27", "lower than in the previous layer", tags({"NN": 0.4, "IN": 0.2}, {"NN": 0.3, "IN": 0.2}, [1, 2]),
     tags({"NN": 0.3, "IN": 0.2}, {"NN": 0.4, "IN": 0.2}, [1, 2])),
    ("30", "varies less among function words", tags({"DT": 0.3}, {"DT": 0.2}, [4, 5]), tags({"DT": 0.2}, {"DT": 0.3}, [4, 5])),
    ("31", "rank as in", tags({"NN": 0.4, "IN": 0.2, "DT": 0.1}, {"NN": 0.3, "IN": 0.2, "DT": 0.1}, [5, 6]),
     tags({"NN": 0.4, "IN": 0.2, "DT": 0.1}, {"NN": 0.2, "IN": 0.3, "DT": 0.1}, [5, 6])),
    ("41b", "contribute less than", two_datasets("CoLA", distances(0, 0, 0.1), distances(0, 0, 0.2)),
     two_datasets("CoLA", distances(0, 0, 0.2), distances(0, 0, 0.1))),
    ("42", "contributor is as high", two_datasets("MNLI", not_own_main(0), not_own_main(0.04)),
     two_datasets("MNLI", not_own_main(0), not_own_main(0.06))),
]  # fmt: skip


@pytest.mark.parametrize(("figure", "words", "holding", "failing"), CASES)
def test_claim_holds_and_fails(figure, words, holding, failing):
    check = find_claim(figure, words).check
    assert check(study_with(holding))[0] is True
    assert check(study_with(failing))[0] is False


@pytest.mark.parametrize(("correlation", "deficient", "holds"), [(1, 5, True), (1, 7, None), (0.9, 5, False), (0.9, 7, False)])
def test_short_texts_decide_nothing_where_most_heads_are_excluded(correlation, deficient, holds):
    share = np.where(np.arange(12) < deficient, 0.5, 0.0)[:, None]
    variables = {
        "null_space_share": (("layer", "head"), share),
        "correlation": (("layer", "head"), np.full((12, 1), correlation)),
    }
    study = study_with({"attention_of_short": xr.Dataset(variables, {"layer": LAYERS, "head": [0]})}, head_width=32)
    outcome, evidence = find_claim("1a", "full rank").check(study)
    assert outcome is holds
    assert f"in {12 - deficient} of 12 heads" in evidence


@pytest.mark.parametrize(("figure", "words", "results", "ours"), [
    ("2b", "in the second-to-last", transfer(1, FALL), FALL[-2]),
    ("26", "more than 40%", tags({"[CLS]": 0.41, "NN": 0.3, "IN": 0.2}, {"[CLS]": 0, "NN": 0, "IN": 0}, [1, 2]), 0.41),
    ("26", "less than 35%", tags({"[CLS]": 0.41, "NN": 0.3, "IN": 0.2}, {"[CLS]": 0, "NN": 0, "IN": 0}, [1, 2]), 0.3),
    ("2a", "random guessing", {"identifiability": rates(naive_cosine=FLAT)}, 408 / 21_723),
])  # fmt: skip
def test_quoted_number_is_compared_with_ours(figure, words, results, ours):
    assert find_claim(figure, words).check(study_with(results)).value == pytest.approx(ours)


@pytest.mark.parametrize(("sense", "tolerance", "holds"), [
    ("near", 0.01, True), ("near", 0.001, False), ("above", 0.0, True), ("below", 0.0, False),
])  # fmt: skip
def test_quoted_number_is_graded_for_the_papers_model_only(sense, tolerance, holds):
    claim = Claim("1", "a number", lambda _: Comparison(0.509, 0.5, tolerance, sense))
    grade = claim.grade(study_with({}, is_papers_model=True))
    assert (grade.verdict, grade.paper, grade.tolerance, grade.ours) == ("holds" if holds else "fails", 0.5, tolerance, "0.509")
    assert claim.grade(study_with({}, is_papers_model=False)).verdict == "another model"
    unknown = Claim("1", "a number", lambda _: Comparison("2 layers", 0.5)).grade(study_with({}, is_papers_model=True))
    assert (unknown.verdict, unknown.ours) == ("undecided", "2 layers")


def test_decrease_may_have_slack():
    assert decreases([3, 2, 2.5], slack=0.1)[0] is False
    assert decreases([0.3, 0.2, 0.25], slack=0.1) == (True, "30.0 20.0 25.0 %")


def test_declarations_for_several_figures():
    paper = Paper("test", "A paper", "Somebody (2020)", "minilm")

    @paper.recipe({"98": "MRPC", "99": "CoLA"}, "{} rates", data="{0}, {0} train", caption=lambda study, dataset, train: train)
    def draw(study, dataset):
        return Figure(label=dataset)

    @paper.claim({"99": [("a", True), ("b", None)]}, "claim {} holds: {}")
    def check(study, letter, holds):
        return holds, letter

    figure = paper.recipes["99"]
    assert (figure.heading, figure.data, figure.caption(study_with({}))) == (
        "Figure 99. CoLA rates", ("CoLA", "CoLA train"), "CoLA train",
    )  # fmt: skip
    assert figure.render(study_with({})).get_label() == "CoLA"
    grades = [claim.grade(study_with({})) for claim in figure.claims]
    rows = [["99", "claim a holds: True", "a", "holds"], ["99", "claim b holds: None", "b", "undecided"]]
    assert grade_table(grades) == (["figure", "claim", "here", "verdict"], rows, [1, 2, 3])
    assert not paper.recipes["98"].claims


TOKENS = ["[CLS]", "them", ".", "[SEP]", "might", "make", "them", "less", "[SEP]"]


def passage(*indices):
    """One head per index of its largest off-diagonal effective weight; weights on the diagonal are larger."""
    effective = np.tile(np.eye(len(TOKENS)), (len(indices), 1, 1))
    for head, (query, key) in enumerate(indices):
        effective[head, query, key] = 0.5
    null = np.zeros_like(effective)
    null[..., [0, 3, 8]] = 0.4
    maps = {name: (("layer", "head", "query", "key"), values[None]) for name, values in
            (("raw", effective + null), ("effective", effective), ("null", null))}  # fmt: skip
    coordinates = {"layer": [4], "query": range(len(TOKENS)), "key": range(len(TOKENS)), "head": range(len(indices)),
                   "query_token": ("query", TOKENS), "key_token": ("key", TOKENS)}  # fmt: skip
    return xr.Dataset({**maps, "correlation": (("layer", "head"), np.linspace(0.5, 0.2, len(indices))[None])}, coordinates)


def study_of(result, shown=None):
    tokenizer = SimpleNamespace(all_special_tokens=["[CLS]", "[SEP]"])
    model = SimpleNamespace(tokenizer=tokenizer, tokens=lambda text: SimpleNamespace(texts=["[CLS]", *text.split(), "[SEP]"]))
    return study_with({"passage_attention": result}, passage=Passage(" ".join(TOKENS), "b", shown), model=model)


def test_far_reference_of_figure_6():
    check = find_claim("6", "off-diagonal").check
    assert check(study_of(passage((4, 2), (5, 1)))) == (True, "in head 1, 4 tokens apart")
    assert check(study_of(passage((4, 2), (5, 6)))) == (False, "4 tokens apart; largest per head: might → ., make → them")
    assert check(study_of(passage((7, 2), (2, 1)), shown="might make them less"))[0] is False
    elsewhere = passage((2, 4))
    elsewhere["effective"][0, 0, 5, 1] = 0.3  # the largest in the rows that are shown, not in all
    assert check(study_of(elsewhere, shown="might make"))[0] is True
    assert check(study_of(elsewhere))[0] is False


def test_figure_6_shows_the_rows_of_a_sentence(tiny, tmp_path):
    (tmp_path / "glue" / "MRPC").mkdir(parents=True)
    (tmp_path / "glue" / "MRPC" / "dev.tsv").write_text("sentence1\tsentence2\nw1\tw2\n")
    lines = ("w1 w2 w3", "w4 w5 w6 w7", "w5 w6")
    done = idf.reproduce(tiny, tmp_path / "glue", tmp_path / "out", figures=["6"], quick=True, passage=lines)
    assert "rows of “w5 w6”" in done.page.read_text(encoding="utf-8")
    with pytest.raises(InputError, match="expected a sentence of the passage"):
        idf.reproduce(tiny, tmp_path / "glue", tmp_path / "other", figures=["6"], quick=True, passage=(*lines[:2], "w6 w5"))
    assert not (tmp_path / "other").exists()
