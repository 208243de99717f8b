"""Token identifiability: by layer, of other layers and of neighbors. Figures 2, 7 to 17, 38 and 39."""

from functools import partial

import numpy as np
from matplotlib.axes import Axes

from identiformer import figures
from identiformer.paper.computations.study import LEARNING_RATE, LINEAR, PLAIN, Study
from identiformer.paper.recipes.declarations import Comparison, Outcome, claim, decreases, mlp_probes, percentages, recipe

DATASETS = {"2a": "MRPC", "38": "CoLA", "39": "MNLI"}
"""D.1 claims for the other datasets what §4 claims for MRPC."""
TASKS = {"12": "MRPC", "13": "CoLA"}
SLACK = 0.01
"""By how much a falling curve may rise from one layer to the next: about a standard deviation over resplits."""
NEARLY_ALL = 0.9
SIMILAR = 0.05
LARGE_LOSS = 0.1
BERT_VOCABULARY = 30522


def probe_caption(study: Study, dataset: str, purpose: str | None = None) -> str:
    """Describe data and probes; purpose: what MLP probes are trained for, if not for the dataset's tokens."""
    scale = study.scale
    few = scale.perceptron_examples.get(purpose or dataset)
    examples = "the same examples" if few is None else f"only the first {few} examples"
    resplits = "one resplit" if scale.perceptrons == 1 else f"{scale.perceptrons} resplits"
    trained = f"MLP probes by Adam with learning rate {LEARNING_RATE:g}, {examples}, {resplits}"
    return (
        f"{study.model_name}; {scale.examples(dataset, scale.identified)}; linear probes in closed form, "
        f"{scale.resplits_for(purpose or dataset)} resplits; {trained if scale.perceptrons else 'no MLP probes'} "
        "(paper: Adam, ten resplits)."
    )


def recovery_rates(study: Study, probe: str, dataset: str = "MRPC") -> np.ndarray:
    """The recovery rate in each layer."""
    return study.identifiability(dataset).rate.sel(probe=probe).values


@recipe(DATASETS, "Token identifiability, {}", data="{}", caption=probe_caption)
def draw_identifiability(study: Study, dataset: str) -> Axes:
    return figures.draw_token_identifiability(study.identifiability(dataset))


@claim("2a", "linear cosine probes recover 93% of tokens in the last layer")
def rate_in_last_layer(study: Study) -> Comparison:
    return Comparison(float(recovery_rates(study, LINEAR[0])[-1]), 0.93, tolerance=0.01)


@claim(DATASETS, "without a probe nearly all tokens are recovered in the first third of the layers, by cosine and by L2")
def naive_rate_starts_high(study: Study, dataset: str) -> Outcome:
    early = max(1, study.layers // 3)
    rates = {loss: recovery_rates(study, f"naive {loss}", dataset)[:early] for loss in ("cosine", "l2")}
    evidence = "; ".join(f"{loss} {percentages(early_rates)}" for loss, early_rates in rates.items())
    return all(bool(early_rates.min() > NEARLY_ALL) for early_rates in rates.values()), evidence


@claim(DATASETS, "after the first third of the layers the recovery rate without a probe falls")
def naive_rate_falls(study: Study, dataset: str) -> Outcome:
    return decreases(recovery_rates(study, "naive cosine", dataset)[max(1, study.layers // 3) - 1 :], SLACK)


@claim(DATASETS, "the recovery rate of linear cosine probes falls with depth")
def rate_falls(study: Study, dataset: str) -> Outcome:
    return decreases(recovery_rates(study, LINEAR[0], dataset), SLACK)


def _is_higher(study: Study, dataset: str, probe: str, other: str) -> Outcome:
    rate, other_rate = (recovery_rates(study, name, dataset).mean() for name in (probe, other))
    return bool(rate >= other_rate), f"on average {100 * rate:.1f} % and {100 * other_rate:.1f} %"


@claim(DATASETS, "linear probes recover more tokens than no probe")
def probe_helps(study: Study, dataset: str) -> Outcome:
    return _is_higher(study, dataset, "linear cosine", "naive cosine")


@claim(DATASETS, "cosine recovers more tokens than L2")
def cosine_is_better(study: Study, dataset: str) -> Outcome:
    return _is_higher(study, dataset, "linear cosine", "linear l2")


@claim(
    {
        "2a": ("MRPC", "408 examples and 21,723 BERT tokens", 408, 21_723, None),
        "38": ("CoLA", "1,043 examples", 1043, None, None),
        "39": ("MNLI", "500 examples and 19,839 BERT tokens", 500, 19_839, 500),
    },
    "{} has {}",
)
def has_papers_size(study: Study, dataset: str, _: str, examples: int, tokens: int | None, limit: int | None) -> Outcome:
    """Tokens are compared only if the model has BERT's vocabulary."""
    if study.scale.identified[dataset] != limit:
        return None, study.scale.examples(dataset, study.scale.identified)
    size = study.identifiability(dataset).attrs
    as_bert = study.model.tokenizer.vocab_size == BERT_VOCABULARY
    same = size["examples"] == examples and (tokens is None or not as_bert or size["tokens"] == tokens)
    return bool(same), f"{size['examples']:,} examples, {size['tokens']:,} tokens"


@claim({"2a": (0.017, "MRPC"), "38": (0.09, "CoLA"), "39": (0.026, "MNLI")}, "random guessing recovers {:.1%}")
def random_rate(study: Study, quoted: float, dataset: str) -> Comparison:
    """D.1: one over the mean length."""
    size = study.identifiability(dataset).attrs
    return Comparison(size["examples"] / size["tokens"], quoted, tolerance=0.001)


@recipe("7", "Recovery rate on training and test examples", data="MRPC", caption=probe_caption)
def draw_train_and_test(study: Study) -> Axes:
    return figures.draw_train_and_test(study.identifiability())


def _overfitting(study: Study, probe: str) -> np.ndarray:
    result = study.identifiability().sel(probe=probe)
    return (result.train_rate - result.rate).values


@claim("7", "the recovery rate on training examples is at least that on test examples")
def training_rate_is_higher(study: Study) -> Outcome:
    gap = _overfitting(study, "linear l2")
    return bool((gap > -SLACK).all()), f"training minus test {percentages(gap)}"


@claim("7", "linear and MLP probes overfit equally, within 5 points")
def overfit_equally(study: Study) -> Outcome:
    if not study.scale.perceptrons:
        return None, "no MLP probes"
    linear, mlp = (_overfitting(study, f"{kind} l2").mean() for kind in ("linear", "mlp"))
    evidence = f"training minus test, on average: linear {100 * linear:.1f}, MLP {100 * mlp:.1f} points"
    return bool(abs(linear - mlp) < SIMILAR), evidence


@claim(
    {"7": [(0.5, 0.74), (0.8, 0.8), (0.9, 0.81), (1.0, 0.82)]},
    "an MLP L2 probe of the second-to-last layer, with {:.0%} of the training data: {}",
)
def rate_by_training_data(study: Study, share: float, quoted: float) -> Comparison:
    """B.2."""
    if not study.scale.perceptrons:
        return Comparison("no MLP probes", quoted, tolerance=0.02)
    return Comparison(float(study.learning_curve().rate.sel(probe="mlp l2", share=share).item()), quoted, tolerance=0.02)


@claim("7", "the recovery rate rises with the training data")
def more_data_help(study: Study) -> Outcome:
    if not study.scale.perceptrons:
        return None, "no MLP probes"
    rates = study.learning_curve().rate.sel(probe="mlp l2").squeeze("layer").values
    return bool(rates[-1] > rates[0]), percentages(rates)


@recipe("11", "Token identifiability across single layers", data="MRPC", caption=partial(probe_caption, purpose="steps"))
def draw_steps(study: Study) -> Axes:
    return figures.draw_token_identifiability(study.steps())


@claim("11", "a single layer changes little: without a probe nearly all tokens are recovered")
def single_layers_change_little(study: Study) -> Outcome:
    rates = study.steps().rate.sel(probe="naive cosine").values
    return bool(rates.min() > NEARLY_ALL), percentages(rates)


@claim("11", "cosine recovers more tokens than L2")
def cosine_is_better_across_layers(study: Study) -> Outcome:
    cosine, l2 = (float(study.steps().rate.sel(probe=f"naive {loss}").mean()) for loss in ("cosine", "l2"))
    return cosine >= l2, f"without a probe {100 * cosine:.1f} % and {100 * l2:.1f} % on average"


@claim("11", "later layers change tokens more")
def later_layers_change_more(study: Study) -> Outcome:
    rates = study.steps().rate.sel(probe=list(PLAIN)).mean("probe")
    halves = slice(None, max(1, study.layers // 2)), slice(study.layers // 2, None)
    early, late = (float(rates.isel(layer=half).mean()) for half in halves)
    return late < early, f"{100 * early:.1f} % in the first half of the layers, {100 * late:.1f} % in the second"


def _finetuned_caption(study: Study, task: str, _: str) -> str:
    count = study.scale.trained
    trained = "all training examples" if count is None else f"{count:,} training examples (paper: all)"
    tested = study.scale.examples(task, study.scale.identified)
    return f"{study.model_name} fine-tuned for {task} on {trained}, and before fine-tuning, dashed; {tested}."


@recipe(TASKS, "Token identifiability across single layers, fine-tuned for {}", data="{0}, {0} train", caption=_finetuned_caption)
def draw_finetuned_steps(study: Study, task: str) -> Axes:
    return figures.draw_token_identifiability(study.task_steps(task, tuned=True), study.task_steps(task, tuned=False))


@claim(TASKS, "fine-tuning costs L2 more than 10 points in the last layer, and cosine less than half as much")
def finetuning_costs_l2(study: Study, task: str) -> Outcome:
    def loss(probe: str) -> float:
        rates = (study.task_steps(task, tuned).rate for tuned in (False, True))
        before, after = (float(rate.sel(probe=probe).isel(layer=-1)) for rate in rates)
        return before - after

    l2, cosine = loss("naive l2"), loss("naive cosine")
    evidence = f"in the last layer L2 loses {100 * l2:.1f} points, cosine {100 * cosine:.1f}"
    return l2 > LARGE_LOSS and cosine < l2 / 2, evidence


PROBES = {"2b": "linear cosine", "8": "linear l2", "9": "mlp l2", "10": "mlp cosine"}
ALMOST_ALWAYS = 0.75
"""The share of steps in which an almost monotonic curve does not fall."""


@recipe(PROBES, "Probes trained on one layer, tested on all: {}", data="MRPC", caption=probe_caption, requires=(mlp_probes,))
def draw_transfer(study: Study, probe: str) -> Axes:
    return figures.draw_token_transfer(study.transfer(), probe)


def _trained_on(study: Study, layer: int) -> np.ndarray:
    return study.transfer().rate.sel(probe=LINEAR[0], trained=layer).values


@claim("2b", "a last-layer probe recovers 94% in its own layer")
def last_layer_probe(study: Study) -> Comparison:
    return Comparison(float(_trained_on(study, study.layers)[-1]), 0.94, tolerance=0.01)


@claim({"2b": [("second-to-last", -2), ("last", -1)]}, "a first-layer probe recovers less than 70% in the {} layer")
def first_layer_probe(study: Study, _: str, index: int) -> Comparison:
    few = study.layers < -index
    return Comparison(f"{study.layers} layers" if few else float(_trained_on(study, 1)[index]), 0.70, sense="below")


@claim("2b", "the earlier the layer, the more a last-layer probe recovers there, almost monotonically")
def rises_toward_early_layers(study: Study) -> Outcome:
    rates = _trained_on(study, study.layers)
    kept = np.diff(rates[::-1]) >= -SLACK
    return bool(kept.mean() >= ALMOST_ALWAYS), f"{percentages(rates)}; no decrease in {kept.sum()} of {kept.size} steps back"


@claim("2b", "a middle-layer probe recovers as much before its layer, and less after it")
def middle_layer_probe(study: Study) -> Outcome:
    middle = study.middle_layer
    rates = _trained_on(study, middle)
    no_less_before = rates[:middle].min() >= rates[middle - 1] - SLACK
    return bool(no_less_before and rates[-1] < rates[middle - 1]), percentages(rates)


@claim("2b", "a second-to-last-layer probe drops most from its layer to the last")
def drops_in_last_layer(study: Study) -> Outcome:
    if study.layers < 3:
        return None, f"{study.layers} layers"
    rates = _trained_on(study, study.layers - 1)
    return bool(np.diff(rates).argmin() == study.layers - 2), percentages(rates)


@claim(PROBES, "probes transfer better from late to early layers than from early to late")
def transfers_back(study: Study, probe: str) -> Outcome:
    rates = study.transfer().rate.sel(probe=probe)
    back = float(rates.sel(trained=study.layers, layer=1))
    forth = float(rates.sel(trained=1, layer=study.layers))
    return back > forth, f"last to first {100 * back:.1f} %, first to last {100 * forth:.1f} %"


@claim({"9": "l2", "10": "cosine"}, "linear probes transfer better than MLP probes")
def linear_transfers_better(study: Study, loss: str) -> Outcome:
    rates = study.transfer().rate
    in_other_layers = rates.where(rates["trained"] != rates["layer"]).mean(("trained", "layer"))
    linear, mlp = (float(in_other_layers.sel(probe=f"{kind} {loss}")) for kind in ("linear", "mlp"))
    return linear > mlp, f"in layers other than the probe's: linear {100 * linear:.1f} %, MLP {100 * mlp:.1f} %"


NEIGHBOR_PROBES = {"14": "linear cosine", "15": "mlp cosine", "16": "mlp l2", "17": "linear l2"}
FAR_BELOW = 0.1


@recipe(
    NEIGHBOR_PROBES,
    "Recovery of neighbors: {}",
    data="MRPC",
    caption=partial(probe_caption, purpose="neighbors"),
    requires=(mlp_probes,),
)
def draw_neighbors(study: Study, probe: str) -> Axes:
    return figures.draw_token_neighbors(study.neighbors(), probe)


@claim(NEIGHBOR_PROBES, "the recovery rate falls with the neighbor's distance")
def falls_with_distance(study: Study, probe: str) -> Outcome:
    rates = study.neighbors().rate.sel(probe=probe).mean("layer")
    return decreases([float(rates.sel(offset=[-distance, distance]).mean()) for distance in (1, 2, 3)])


@claim(NEIGHBOR_PROBES, "the recovery rate of neighbors falls with depth")
def falls_with_depth(study: Study, probe: str) -> Outcome:
    rates = study.neighbors().rate.sel(probe=probe).mean("offset").values
    return bool(rates[-1] < rates[0]), percentages(rates)


@claim(NEIGHBOR_PROBES, "previous and next neighbors have different recovery rates")
def sides_differ(study: Study, probe: str) -> Outcome:
    """By layer: a mean over layers would hide that one side leads early and the other late."""
    rates = study.neighbors().rate.sel(probe=probe)
    difference = (rates.sel(offset=1) - rates.sel(offset=-1)).values
    by_layer = " ".join(f"{100 * points:+.1f}" for points in difference)
    return bool(np.abs(difference).mean() > SLACK), f"next minus previous, by layer: {by_layer} points"


# Not of MLP probes, which are trained on fewer examples here than for the token itself.
@claim({"14": "linear cosine", "17": "linear l2"}, "neighbors are recovered far less than the token itself")
def token_is_recovered_more(study: Study, probe: str) -> Outcome:
    neighbors = float(study.neighbors().rate.sel(probe=probe, offset=[-1, 1]).mean())
    token = float(recovery_rates(study, probe).mean())
    return neighbors < token - FAR_BELOW, f"{100 * neighbors:.1f} % of neighbors, {100 * token:.1f} % of tokens themselves"
