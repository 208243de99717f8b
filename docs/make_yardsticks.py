"""Write the tables of yardsticks into docs/yardsticks.md: python -m docs.make_yardsticks"""

import re
from pathlib import Path

from identiformer.measures.faithfulness import YARDSTICKS

PAGE = Path(__file__).with_name("yardsticks.md")
TABLES = re.compile(r"(<!-- (maps|explanations): begin -->\n).*?(?=<!-- \2: end -->)", re.DOTALL)
COLUMNS = ("name", "question", "paper", "cost")


def yardsticks_table(judges_explanations: bool) -> str:
    """One row per registered yardstick."""
    rows = [COLUMNS, ("---",) * len(COLUMNS)]
    rows += [
        (f"`{one.name}`", one.question, one.paper, one.cost)
        for one in YARDSTICKS.values()
        if one.judges_explanations == judges_explanations
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def with_tables(page: str) -> str:
    """The page with the tables of today's yardsticks."""
    return TABLES.sub(lambda match: match[1] + yardsticks_table(match[2] == "explanations"), page)


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
