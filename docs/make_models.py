"""Check every architecture of the installed transformers and update the record and docs/models.md: python -m docs.make_models"""

import json
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from identiformer.support.record import RECORD
from identiformer.support.verification import INCONCLUSIVE, Support, verify_models

PAGE = Path(__file__).parent / "models.md"
GENERATED = "<!-- `python -m docs.make_models` writes everything below this line -->"
REJECTED = "rejected for how it attends or what it reads"


def models_summary(supports: list[Support], transformers: str) -> str:
    """Count the architectures that work, by input and capability, and those that do not, by reason."""
    capabilities = list(supports[0].reasons)
    by_input = {support.reads: [each for each in supports if each.reads == support.reads] for support in supports}
    verified = [support for support in supports if support.verified]
    reasons = [_kind_of_reason(support.reasons["trace"]) for support in supports if not support.verified]
    rows = [
        f"| {reads or 'no model could be built'} | {len(group)} | "
        + " | ".join(str(sum(not support.reasons[name] for support in group)) for name in capabilities)
        + " |"
        for reads, group in sorted(by_input.items(), key=lambda item: -len(item[1]))
    ]
    return "\n".join(
        [
            GENERATED,
            "",
            f"## The {len(supports)} architectures of transformers {transformers}",
            "",
            f"{len(verified)} architectures pass every check of their attention, as tiny models with random weights. The checks "
            "are of attention; other columns are counted on their own. Of a vision-language model, only the text part is "
            f"checked, on text. For {sum(each.compared for each in verified)} architectures, the recorded weights were also "
            "compared with those that the model itself returns. `identiformer models` prints one entry per architecture, with "
            "the reason for everything that does not work.",
            "",
            f"| input | architectures | {' | '.join(capabilities)} |",
            "|---" * (len(capabilities) + 2) + "|",
            *rows,
            "",
            f"| why {len(reasons)} architectures cannot be traced | architectures |",
            "|---|---|",
            *(f"| {kind} | {reasons.count(kind)} |" for kind in (REJECTED, *INCONCLUSIVE) if kind in reasons),
            "",
        ]
    )


def _kind_of_reason(reason: str) -> str:
    return next((kind for kind in INCONCLUSIVE if kind in reason), REJECTED)


def models_record(supports: list[Support], transformers: str) -> str:
    """JSON with one line per architecture; `reasons` holds only the capabilities that do not work."""
    rows = [asdict(each) | {"reasons": {name: reason for name, reason in each.reasons.items() if reason}} for each in supports]
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    return f'{{"transformers": "{transformers}", "architectures": [\n{lines}\n]}}\n'


def write(supports: list[Support], transformers: str) -> None:
    """Write the record that `identiformer models` reads, and the generated end of the page."""
    Path(str(RECORD)).write_text(models_record(supports, transformers), encoding="utf-8")
    introduction = PAGE.read_text(encoding="utf-8").partition(GENERATED)[0]
    PAGE.write_text(introduction + models_summary(supports, transformers), encoding="utf-8")


if __name__ == "__main__":
    write(verify_models(progress=True), version("transformers"))
