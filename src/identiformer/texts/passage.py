"""A passage long enough for every head of the embedded model to have a null space."""

PASSAGE = (
    "When the ferry company closed its winter route, the islanders wrote to the minister, and the minister wrote back. "
    "The letter thanked them for their patience, praised the beauty of the coast, and explained that the old boat could not "
    "be repaired before spring. Nobody on the island had asked about the boat. They had asked about the doctor, who lived on "
    "the mainland and came with the ferry every Tuesday, and about the schoolchildren, whose teacher did the same. So the "
    "baker, who owned the only vessel with an engine, began to carry passengers between loaves. By March the company "
    "had repaired its boat and offered to take the route back; the islanders thanked it for its patience, praised the beauty "
    "of its boat, and went on sailing with the baker."
)
