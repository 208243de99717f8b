"""The explorer of a tiny random model in a process of its own: prints its address, and ends with its standard input."""

import sys
import threading

from identiformer.explorer.server import LocalServer
from identiformer.explorer.texts import Texts
from identiformer.models import load
from tests.models.families import SERVED, build, word_tokenizer, words


def main() -> None:
    """Serve until nobody holds the other end of standard input."""
    model = load(build("bert", SERVED["bert"]), word_tokenizer())
    texts = Texts(lambda name: model, [model.name], {model.name: model})
    server = LocalServer(texts, {"text": words(5), "pair": None, "model": model.name})
    print(server.address, model.name, flush=True)

    def wait_for_the_end() -> None:
        sys.stdin.read()
        server.stop()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    server.run()


if __name__ == "__main__":
    main()
