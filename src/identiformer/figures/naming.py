"""What figures call a model."""


def short_name(model: str) -> str:
    """The name of a model without the folders or the owner it stands under: figures are shown elsewhere."""
    return model.rstrip("/").rsplit("/", 1)[-1]
