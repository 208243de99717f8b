"""Run the explorer of a tiny random model: prints its address, and ends when standard input is closed."""

import sys

from identiformer.explorer.server import LocalServer
from identiformer.explorer.texts import Texts
from identiformer.models import load
from tests.models.families import SERVED, build, word_tokenizer, words


def main() -> None:
    """Serve until standard input is closed."""
    model = load(build("bert", SERVED["bert"]), word_tokenizer())
    texts = Texts(lambda name: model, [model.name], {model.name: model})
    server = LocalServer(texts, {"text": words(5), "pair": None, "model": model.name})
    print(server.address, model.name, flush=True)
    with server:
        sys.stdin.read()


if __name__ == "__main__":
    main()
