"""python -m studies NAME [--model M …] [--data GLUE] [--examples N] [--out DIR]: measure, then print the table of all models."""

import argparse
import os
import sys
from importlib import import_module
from pathlib import Path

from studies.tables import read_rows, short_name, write_rows

NAMES = ("agreement", "effects", "validation", "tolerance", "half_precision", "needle", "first_token", "recovery", "related")
EXAMPLES = 100


def main(arguments: list[str] | None = None) -> None:
    """Measure the named models, and print the table of all that were measured."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["snapshot"]:
        from studies.snapshot import main as snapshot

        sys.exit(snapshot(arguments[1:]))
    parser = argparse.ArgumentParser(prog="python -m studies", description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--model", nargs="*", default=[], help="models to measure; without any, only the table is printed")
    parser.add_argument("--data", default=os.environ.get("GLUE_DATA"), help="a GLUE folder with MRPC/dev.tsv; default: GLUE_DATA")
    parser.add_argument("--examples", type=int, help="how many pairs of MRPC, or texts, to use; by default 100, or fewer")
    parser.add_argument("--out", type=Path, default=Path("studies-results"), help="folder for the measurements, as CSV")
    options = parser.parse_args(arguments)
    study = import_module(f"studies.{options.name}")
    plants_texts = hasattr(study, "EXAMPLES")
    examples = options.examples or getattr(study, "EXAMPLES", getattr(study, "PAIRS", EXAMPLES))
    if options.model and not options.data and not plants_texts:
        parser.error("expected a GLUE folder, got none; pass --data or set GLUE_DATA.")
    options.out.mkdir(parents=True, exist_ok=True)
    for model in options.model:
        path = options.out / f"{options.name}-{short_name(model)}.csv"
        write_rows(path, study.measure(model, Path(options.data or "."), examples))
    files = sorted(options.out.glob(f"{options.name}-*.csv"))
    print(study.report({path.stem.split("-", 1)[1]: read_rows(path) for path in files}, options.out))


if __name__ == "__main__":
    main()
