"""Requests to the explorer that no page sends."""

import asyncio
import json

from tests.explorer import malformed

PORT, SECRET = 4711, "secret"
VALID = {
    "texts": {"text": "w1 w2 w3 w4 w5", "model": "tiny", "pair": None, "before": None},
    "jobs": {"task": "patch", "layer": 1, "head": 0, "query": 0, "row": [0.5, 0.5, 0, 0, 0, 0, 0]},
}


class Page:
    """The explorer's application in this process, with an open text."""

    def __init__(self, model):
        from identiformer.explorer.guard import Guard
        from identiformer.explorer.jobs import Jobs
        from identiformer.explorer.server import application
        from identiformer.explorer.texts import Texts

        texts = Texts(lambda name: model, ["tiny"], {"tiny": model}, None)
        first = {"text": "w1", "pair": None, "model": "tiny"}
        self.app = Guard(application(texts, Jobs(), SECRET, first), SECRET, PORT)
        status, reply = self.ask("POST", "texts", json.dumps(VALID["texts"]).encode())
        assert status == 200, reply
        self.text = json.loads(reply)["id"]

    def ask(self, method, path, body=b""):
        return asyncio.run(self._ask(method, f"/{SECRET}/{path}", body))

    async def _ask(self, method, path, body):
        scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http"}
        scope |= {"path": path, "raw_path": path.encode(errors="replace"), "query_string": b"", "root_path": ""}
        scope |= {"headers": [(b"host", f"127.0.0.1:{PORT}".encode())], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", PORT)}
        sent = [{"type": "http.request", "body": body, "more_body": False}, {"type": "http.disconnect"}]
        reply = []

        async def receive():
            return sent.pop(0) if len(sent) > 1 else sent[0]

        async def send(message):
            reply.append(message)

        await self.app(scope, receive, send)
        return reply[0]["status"], b"".join(message.get("body", b"") for message in reply[1:]).decode(errors="replace")

    def finished(self, status, reply):
        """The result of a job, if one was started, with a status for its state."""
        while status == 202 and (state := json.loads(reply))["state"] in ("waiting", "running"):
            _, reply = self.ask("GET", f"jobs/{state['job']}")
        if status == 202 and state["state"] == "failed":
            return 422, state["result"]
        return status, reply


def request(chance, text):
    """A request: method, path, body and a description."""
    kind = chance.choice(("text", "job", "address", "body of a text", "body of a job"))
    if kind == "text":
        name, body = chance.choice(list(malformed.bodies("tiny")))
        return "POST", "texts", body, name
    if kind == "job":
        name, body = chance.choice(list(malformed.jobs()))
        return "POST", f"texts/{text}/jobs", body, name
    if kind == "address":
        number = chance.choice(("1", "-1", "3", "9" * 30, "9" * 5000, "x", "%00", "é", "1\n", "\u0663", ""))
        layers = f"texts/{text}/layers"
        path = chance.choice(
            (f"{layers}/{number}", f"{layers}/1/rows/{number}", f"jobs/{number}", f"texts/{number}/kinds/self", number)
        )
        return chance.choice(("GET", "POST", "DELETE", "BREW")), path, b"{}", ascii(path)[:60]
    body = bytearray(json.dumps(_changed(chance, VALID["texts" if kind.endswith("text") else "jobs"])).encode())
    if chance.random() < 0.3:
        body[chance.randrange(len(body))] ^= chance.randrange(1, 256)
    path = "texts" if kind.endswith("text") else f"texts/{text}/jobs"
    return "POST", path, bytes(body), f"{kind}: {ascii(bytes(body))[:120]}"


def _changed(chance, valid):
    from tests.fuzz.mutators import ABSURD

    changed = dict(valid)
    name = chance.choice(list(changed))
    if chance.random() < 0.2:
        del changed[name]
    else:
        changed[name] = chance.choice(ABSURD)
    return changed
