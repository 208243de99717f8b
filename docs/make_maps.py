"""Write the tables of maps and explanations into docs/maps.md: python -m docs.make_maps"""

import re
from pathlib import Path

from identiformer.measures.maps import MAPS, MapKind

PAGE = Path(__file__).with_name("maps.md")
TABLES = re.compile(r"(?<=<!-- (layers|output): begin -->\n).*?(?=<!-- \1: end -->)", re.DOTALL)
COLUMNS = ("name", "formula", "paper", "cost", "needs")


def maps_table(explains_output: bool) -> str:
    """One row per registered kind."""
    rows = [COLUMNS, ("---",) * len(COLUMNS)]
    rows += [_row(kind) for kind in MAPS.values() if kind.explains_output == explains_output]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(kind: MapKind) -> tuple[str, ...]:
    formula = f"{kind.formula} (signed)" if kind.signed else kind.formula
    cost = kind.cost if kind.cheap else f"{kind.cost}; not by default"
    return (f"`{kind.name}`", *(cell.replace("|", r"\|") for cell in (formula, kind.paper, cost, kind.needs)))


def with_tables(page: str) -> str:
    """The page with the tables of today's kinds."""
    return TABLES.sub(lambda match: maps_table(match[1] == "output"), page)


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
