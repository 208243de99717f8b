"""What a page has run through a model: a text or pair of texts, an image, or an answer that the model wrote."""

from dataclasses import dataclass

from torch import Tensor

from identiformer.errors import InputError
from identiformer.models import Answer, Model, Picture
from identiformer.models.encoding.image_audio import takes_images
from identiformer.models.generation.answer import Text
from identiformer.models.generation.settings import Generation


@dataclass(frozen=True, eq=False)
class Content:
    """What was run, in the form that measures take."""

    text: Text
    pair: str | None = None
    picture: Picture | None = None
    prompt: str | None = None
    """What the user typed, if the text is an answer to it."""

    @property
    def tensor(self) -> Tensor | None:
        """The image, which a patched run needs again."""
        return None if self.picture is None else self.picture.pixels

    @property
    def answer(self) -> Answer | None:
        """The answer, if there is one."""
        return self.text if isinstance(self.text, Answer) else None


def content_for(model: Model, text: str, pair: str | None, picture: Picture | None, generation: Generation | None) -> Content:
    """What a model reads when a page requests a text: the image that the explorer was started with, an answer, or the text."""
    if takes_images(model.network):
        if picture is None:
            raise InputError(f"expected an image for {model.name}; start the explorer with --image FILE.")
        return Content(picture.pixels, picture=picture)
    if generation is None:
        return Content(text, pair)
    if pair is not None:
        raise InputError("expected one prompt, got a pair of texts; remove the second text, or start without --generate.")
    return Content(generation.answer(model, text), prompt=text)
