"""A passage long enough for every head of the embedded model to have a null space."""

from pathlib import Path

from identiformer.errors import InputError

PASSAGE = (
    "When the ferry company closed its winter route, the islanders wrote to the minister, and the minister wrote back. "
    "The letter thanked them for their patience, praised the beauty of the coast, and explained that the old boat could not "
    "be repaired before spring. Nobody on the island had asked about the boat. They had asked about the doctor, who lived on "
    "the mainland and came with the ferry every Tuesday, and about the schoolchildren, whose teacher did the same. So the "
    "baker, who owned the only vessel with an engine, began to carry passengers between loaves. By March the company "
    "had repaired its boat and offered to take the route back; the islanders thanked it for its patience, praised the beauty "
    "of its boat, and went on sailing with the baker."
)


def read_texts(path: Path, least: int, most: int) -> tuple[str, ...]:
    """Read a file of one text per line; the number of texts is limited."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"expected a text file, but {path} cannot be read ({error}).") from None
    if not least <= len(lines) <= most:
        expected = f"{least}" if least == most else f"{least} to {most}"
        raise InputError(f"expected {expected} texts in {path}, one per line, got {len(lines)}.")
    return tuple(lines)
