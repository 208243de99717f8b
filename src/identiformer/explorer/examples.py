"""Texts that a page offers to begin with."""

from identiformer.texts import PASSAGE

EXAMPLES = [
    {"title": "A story: some weights are certain, some are not", "text": PASSAGE, "pair": None},
    {"title": "A short sentence: every weight is determined", "text": "He said that the pie was his.", "pair": None},
    {
        "title": "A pair of sentences: what crosses from one to the other",
        "text": "The company that runs the ferry closed its winter route last week, and the islanders wrote to the minister.",
        "pair": "Because the route is closed in winter, people on the island complained to the government about the ferry.",
    },
]
"""Three texts: longer than a head is wide, shorter, and a pair."""
