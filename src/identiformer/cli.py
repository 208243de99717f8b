"""The command line: parse, call one function, print."""

import json
import math
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from identiformer.errors import IdentiformerError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="What may a transformer's attention map be taken to mean?",
)
errors = Console(stderr=True)

# What several commands ask for.
TextArgument = Annotated[str | None, typer.Argument(help="The text to run through the model; without it, an embedded passage.")]
PairOption = Annotated[str | None, typer.Option(help="A second text, read together with the first.")]
ModelOption = Annotated[str, typer.Option(help="minilm, smollm2, a folder, a GGUF file or a hub id.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")]
TruncateOption = Annotated[bool, typer.Option(help="Cut texts that are longer than the model takes.")]
DeviceOption = Annotated[str, typer.Option(help="Where to run the model.")]
DtypeOption = Annotated[str, typer.Option(help="The precision to run it in.")]
PickleOption = Annotated[bool, typer.Option(help="Accept weights stored as a Python pickle, which can run any code.")]


@app.callback()
def _commands() -> None:
    """What may a transformer's attention map be taken to mean?"""


@app.command(
    epilog="Example:  identiformer inspect 'He said the pie was his.' --pair 'She did not agree.' --out report.html",
)
def inspect(
    text: TextArgument = None,
    pair: PairOption = None,
    model: ModelOption = "minilm",
    layer: Annotated[int | None, typer.Option(help="Look at this layer, counted from 1.")] = None,
    head: Annotated[int | None, typer.Option(help="Look at this head, counted from 0.")] = None,
    certify: Annotated[
        bool,
        typer.Option(help="Certify how far those heads could attend elsewhere with the same output, and run the model so."),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write a report with heatmaps to this HTML file.")] = None,
    as_json: JsonOption = False,
    truncate: TruncateOption = False,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    allow_pickle: PickleOption = False,
) -> None:
    """Say how much of a text's attention the model's output can see, and where raw attention misleads."""
    with errors.status("loading torch and transformers …") as status:
        import identiformer as idf
        from identiformer.measures import certify as put_to_the_test
        from identiformer.report import write_report
        from identiformer.texts import PASSAGE

        status.update(f"loading {model} …")
        loaded = idf.load(model, device=device, dtype=dtype, allow_pickle=allow_pickle)
        status.update("running the model …")
        trace = loaded.trace(PASSAGE if text is None else text, pair, truncate=truncate, raw_norms=True)
        status.update("measuring …")
        inspection = idf.inspect_text(trace, layer=layer, head=head)
    if certify:
        inspection = put_to_the_test(inspection, loaded, trace, progress=True)
    if out is not None:
        with errors.status("drawing the report …"):
            write_report(inspection, out)
    if as_json:
        print(json.dumps(inspection.as_json(), ensure_ascii=False, indent=2))
        return
    console = Console()
    say = partial(console.print, markup=False, highlight=False)
    say(*inspection.sentences(), sep="\n")
    console.print(_layer_table(inspection.layers))
    say(*(head.sentence() for head in inspection.misleading), sep="\n")
    for certificate in inspection.certificates:
        say("", *certificate.sentences(), sep="\n")
    if out is not None:
        say(f"report: {out}", soft_wrap=True)


def _layer_table(layers) -> Table:  # noqa: ANN001
    table = Table("layer", "heads with a null space", "nullity", "null mass", "correlation", title="means over heads")
    for row in layers:
        numbers = (f"{row.mean_nullity:.1f}", f"{row.mean_null_mass:.0%}", f"{row.mean_correlation:.2f}")
        table.add_row(str(row.layer), str(row.heads_with_null_space), *numbers)
    return table


@app.command(epilog="Example:  identiformer attribute 'He said the pie was his.' --token 3 --out attribution.html")
def attribute(
    text: TextArgument = None,
    pair: PairOption = None,
    model: ModelOption = "minilm",
    token: Annotated[int, typer.Option(help="Look at this token, counted from 0.")] = 0,
    exact: Annotated[bool, typer.Option(help="Take whole Jacobians instead of probes.")] = False,
    tolerance: Annotated[
        float | None, typer.Option(help="Take more probes until shares, as distributions, err by less, such as 0.02.")
    ] = None,
    probes: Annotated[int, typer.Option(help="Random directions for each input token.")] = 16,
    norm: Annotated[str, typer.Option(help="Of a Jacobian: frobenius, spectral or summed.")] = "frobenius",
    input: Annotated[str, typer.Option(help="Input vectors before or after the LayerNorm of the embeddings.")] = "before",
    seed: Annotated[int, typer.Option(help="The same seed gives the same probes.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Write a page (.html), or the picture of the token (.png, .svg, .pdf).")
    ] = None,
    as_json: JsonOption = False,
    truncate: TruncateOption = False,
    device: DeviceOption = "cpu",
    allow_pickle: PickleOption = False,
) -> None:
    """Say where each hidden vector came from: the share of every input token in it, layer by layer."""
    with errors.status("loading torch and transformers …") as status:
        import identiformer as idf
        from identiformer.measures import summarise_attribution
        from identiformer.measures.selection import chosen
        from identiformer.report import attribution_kind, write_attribution
        from identiformer.texts import PASSAGE

        if out is not None:
            attribution_kind(out)
        status.update(f"loading {model} …")
        loaded = idf.load(model, device=device, allow_pickle=allow_pickle)
        text = PASSAGE if text is None else text
        chosen([token], len(loaded.tokens(text, pair, truncate=truncate)), "token")
    result = idf.token_attribution(
        loaded, text, pair, probes=probes, exact=exact, tolerance=tolerance, norm=norm, input=input,
        seed=seed, truncate=truncate, progress=True,
    )  # fmt: skip
    summary = summarise_attribution(result, token)
    if out is not None:
        write_attribution(summary, out)
    if as_json:
        print(json.dumps(summary.as_json(), ensure_ascii=False, indent=2))
        return
    console = Console()
    say = partial(console.print, markup=False, highlight=False)
    say(*summary.sentences(), sep="\n")
    console.print(_mixing_table(summary))
    console.print(_token_table(summary))
    if out is not None:
        say(f"written: {out}", soft_wrap=True)


def _mixing_table(summary) -> Table:  # noqa: ANN001
    table = Table("layer", "self-contribution", "not own main contributor", "undecided", title="all tokens")
    for row in summary.layers:
        table.add_row(str(row.layer), f"{row.median_self_contribution:.1%}", f"{row.not_own_main:.0%}", f"{row.undecided:.0%}")
    return table


def _token_table(summary) -> Table:  # noqa: ANN001
    table = Table("layer", "self-contribution", "largest contributions", "first is certain")
    table.title = Text(f"the token {summary.token} at {summary.position}")
    for row in summary.of_token:
        main = ", ".join(f"{each.token} {each.position} ({each.share:.1%} ± {each.error:.1%})" for each in row.main)
        table.add_row(str(row.layer), f"{row.self_contribution:.1%}", Text(main), "yes" if row.certain else "no")
    return table


@app.command(epilog="Example:  identiformer identify glue/MRPC/dev.tsv --model minilm --out runs/mrpc --also transfer")
def identify(
    corpus: Annotated[Path, typer.Argument(help="A GLUE table, such as MRPC/dev.tsv.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Write results, figures and hidden states to this folder.", show_default=False)],
    model: ModelOption = "minilm",
    beside: Annotated[str | None, typer.Option(help="A second model to measure alike and draw beside, dashed.")] = None,
    probe: Annotated[
        list[str] | None, typer.Option(help="KIND LOSS: naive, linear, procrustes or mlp; cosine or l2. Repeat for more.")
    ] = None,
    fit: Annotated[str, typer.Option(help="How linear maps are fitted: closed (seconds) or adam (as the paper).")] = "closed",
    layer: Annotated[list[int] | None, typer.Option(help="Only this layer, counted from 1. Repeat for more.")] = None,
    resplits: Annotated[int, typer.Option(help="How often examples are dealt anew into training, validation and test.")] = 10,
    also: Annotated[list[str] | None, typer.Option(help="transfer, steps, neighbours or curve. Repeat for more.")] = None,
    vocabulary: Annotated[bool, typer.Option(help="Also look for each token among all word pieces.")] = False,
    first: Annotated[int | None, typer.Option(help="Only so many examples of the corpus.")] = None,
    truncate: TruncateOption = False,
    longest: Annotated[int | None, typer.Option(help="Cut examples to so many tokens.")] = None,
    seed: Annotated[int, typer.Option(help="Where the resplits begin.")] = 0,
    as_json: JsonOption = False,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    allow_pickle: PickleOption = False,
) -> None:
    """Say of which tokens the hidden vectors still tell which token they are, layer by layer."""
    with errors.status("loading torch and transformers …") as status:
        import identiformer as idf

        status.update(f"loading {model} …")
        names = [model] if beside is None else [model, beside]
        loaded = [idf.load(name, device=device, dtype=dtype, allow_pickle=allow_pickle) for name in names]
    options: dict[str, Any] = {"fit": fit, "layers": layer or None, "resplits": resplits, "first": first, "seed": seed}
    options |= {"truncate": longest or truncate, "vocabulary": vocabulary, "also": also or (), "progress": errors.is_terminal}
    options |= {"methods": probe} if probe else {}
    folders = [out, out / "beside"][: len(loaded)]
    found = [idf.identify(each, corpus, folder, **options) for each, folder in zip(loaded, folders, strict=True)]
    figures = idf.figures.save_identifiability_figures(found[0], out, found[1] if beside else None)
    rates = [results["token_identifiability"] for results in found]
    if as_json:
        print(json.dumps([_rates_as_json(one) for one in rates], ensure_ascii=False, indent=2))
        return
    console = Console()
    for one in rates:
        console.print(_rate_table(one))
    console.print(*(f"figure: {path}" for path in figures), sep="\n", markup=False, highlight=False, soft_wrap=True)


def _rate_table(result) -> Table:  # noqa: ANN001
    hit = {"strict": "the very token", "lenient": "its word piece, since inputs have no positions"}[result.attrs["headline"]]
    table = Table(
        "layer",
        *(str(name) for name in result["probe"].values),
        title=f"{result.attrs['model']}: tokens found, % ({hit}), ± half a 95% interval",
        caption=f"{result.attrs['examples']} examples, {result.attrs['tokens']} tokens; guessing finds {result.random_rate:.1%}",
    )
    for layer in result["layer"].values:
        rows = (result.sel(layer=layer, probe=name) for name in result["probe"].values)
        cells = (f"{100 * one.rate:.1f} ±{50 * (one.rate_high - one.rate_low):.1f}".replace("nan ±nan", "—") for one in rows)
        table.add_row(str(layer), *cells)
    return table


def _rates_as_json(result) -> dict[str, Any]:  # noqa: ANN001
    names = ("rate", "rate_sd", "rate_low", "rate_high", "train_rate", "strict", "lenient", "vocabulary", "ties")
    rows = [
        {"probe": str(probe), "layer": int(layer)}
        | {name: None if math.isnan(value) else value for name in names for value in [result[name].sel(place).item()]}
        for probe in result["probe"].values
        for layer in result["layer"].values
        for place in [{"probe": probe, "layer": layer}]
    ]
    about = {name: result.attrs[name] for name in ("model", "revision", "examples", "tokens", "headline")}
    return about | {"random_rate": float(result.random_rate), "rates": rows}


def main() -> NoReturn:
    """Run a command; an error that we know is one sentence and exit status 2."""
    try:
        app()
    except IdentiformerError as error:
        errors.print(f"error: {error}", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)
    sys.exit(0)
