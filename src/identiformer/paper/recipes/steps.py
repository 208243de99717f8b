"""What a single layer changes, of a model as it is and fine-tuned: Figures 11 to 13."""

from identiformer import figures
from identiformer.paper.claims import Shape, listed
from identiformer.paper.computations.study import PLAIN, Study
from identiformer.paper.recipes.identifiability import NEARLY_ALL, identified_caption
from identiformer.paper.recipes.recipe import Recipe, whole

REMARKABLE = 0.1
"""A loss of so much is said to be remarkable."""


def _are_easy(study: Study) -> tuple[bool, str]:
    rates = study.steps().rate.sel(probe="naive cosine").values
    return bool(rates.min() > NEARLY_ALL), listed(rates)


def _easier_by_cosine(study: Study) -> tuple[bool, str]:
    cosine, l2 = (float(study.steps().rate.sel(probe=f"naive {loss}").mean()) for loss in ("cosine", "l2"))
    return cosine >= l2, f"without a map {100 * cosine:.1f} % and {100 * l2:.1f} % on average"


def _harder_later(study: Study) -> tuple[bool, str]:
    rates = study.steps().rate.sel(probe=list(PLAIN)).mean("probe")
    early, late = (float(rates.isel(layer=half).mean()) for half in _halves(study.layers))
    return late < early, f"{100 * early:.1f} % in the first half of the layers, {100 * late:.1f} % in the second"


def _halves(layers: int) -> tuple[slice, slice]:
    return slice(None, max(1, layers // 2)), slice(layers // 2, None)


def _finetuned_figure(number: str, task: str) -> Recipe:
    def draw(study: Study):  # noqa: ANN202
        return whole(figures.draw_token_identifiability(study.finetuned_steps(task), study.plain_steps(task)))

    def caption(study: Study) -> str:
        count = study.scale.trained
        trained = "all training examples" if count is None else f"{count:,} training examples (the paper: all)"
        tested = study.scale.sentence(task, "identified")
        return f"{study.model_name} fine-tuned for {task} on {trained}, and as it is, dashed; {tested}."

    def lost(study: Study, probe: str) -> float:
        rates = (study.plain_steps(task).rate, study.finetuned_steps(task).rate)
        before, after = (float(each.sel(probe=probe).isel(layer=-1)) for each in rates)
        return before - after

    def l2_collapses(study: Study) -> tuple[bool, str]:
        l2, cosine = lost(study, "naive l2"), lost(study, "naive cosine")
        told = f"in the last layer L2 loses {100 * l2:.1f} points, cosine {100 * cosine:.1f}"
        return l2 > REMARKABLE and cosine < l2 / 2, told

    says = "fine-tuning costs L2 more than 10 points in the last layer, and cosine less than half as much"
    title = f"A single layer's step, fine-tuned for {task}"
    return Recipe(number, title, (task, f"{task} train"), draw, caption, (Shape(says, l2_collapses),))


STEP_RECIPES = (
    Recipe("11", "A single layer's step", ("MRPC",),
           lambda study: whole(figures.draw_token_identifiability(study.steps())), identified_caption("MRPC", "steps"),
           (Shape("one layer changes little: without a map nearly all are found", _are_easy),
            Shape("cosine finds more than L2", _easier_by_cosine),
            Shape("later layers change more", _harder_later))),
    _finetuned_figure("12", "MRPC"),
    _finetuned_figure("13", "CoLA"),
)  # fmt: skip
