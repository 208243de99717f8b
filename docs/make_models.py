"""Check every architecture of the installed transformers, and write the record and the page of it: python -m docs.make_models"""

import json
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from identiformer.support.reasons import KINDS, NEEDS_PACKAGE, NOT_BUILT, NOT_FOUND_OUT, READS_MORE
from identiformer.support.verification import RECORD, Support, verify_models

PAGE = Path(__file__).parent / "models.md"
TABLE = "<!-- from here on written by `python -m docs.make_models` -->"
KINDS_IN_WORDS = {
    READS_MORE: "read more than one text, image or sound",
    NEEDS_PACKAGE: "need a package that was not there",
    NOT_BUILT: "are not built by transformers from their default configuration",
    NOT_FOUND_OUT: "are not found out, since the small models that were tried do not run",
}


def models_table(found: list[Support], transformers: str) -> str:
    capabilities = list(found[0].reasons)
    rows = [
        f"| {each.architecture} | {each.reads or '—'} | {_parts(each)} | "
        + " | ".join("no" if each.reasons[name] else "yes" for name in capabilities)
        + f" | {each.why_not.replace('|', '/')} |"
        for each in found
    ]
    verified = [each for each in found if each.verified]
    compared = sum(each.compared for each in verified)
    others = [each.reasons["trace"] for each in found if not each.verified]
    return "\n".join(
        [
            TABLE,
            "",
            f"## All {len(found)} architectures of transformers {transformers}",
            "",
            f"{len(verified)} attend as recorded, by every check; of {compared} of them the weights were also compared with "
            f"those that the model gives out itself. Of the {len(others)} others, {_listed(others)}.",
            "",
            f"| architecture | reads | layers that attend | {' | '.join(capabilities)} | why not |",
            "|---" * (len(capabilities) + 4) + "|",
            *rows,
            "",
        ]
    )


def _listed(reasons: list[str]) -> str:
    """How many of those that are not served for which kind of reason, in words."""
    counts = {kind: sum(kind in reason for reason in reasons) for kind in KINDS}
    rest = len(reasons) - sum(counts.values())
    told = [f"{count} {KINDS_IN_WORDS[kind]}" for kind, count in counts.items() if count]
    return ", ".join([f"{rest} are refused for how they attend or what they read", *told])


def _parts(each: Support) -> str:
    return ", ".join(f"{layers} {kind}" for kind, layers in each.kinds.items()) or "—"


def models_record(found: list[Support], transformers: str) -> str:
    """A line each, with the reasons of each no."""
    rows = [asdict(each) | {"reasons": {name: reason for name, reason in each.reasons.items() if reason}} for each in found]
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    return f'{{"transformers": "{transformers}", "architectures": [\n{lines}\n]}}\n'


def write(found: list[Support], transformers: str) -> None:
    Path(str(RECORD)).write_text(models_record(found, transformers), encoding="utf-8")
    introduction = PAGE.read_text(encoding="utf-8").partition(TABLE)[0]
    PAGE.write_text(introduction + models_table(found, transformers), encoding="utf-8")


if __name__ == "__main__":
    write(verify_models(progress=True), version("transformers"))
