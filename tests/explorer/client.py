"""What a page asks of the server, without a browser."""

import http.client
import json
import time


class Client:
    def __init__(self, server, model):
        self.server, self.model = server, model

    def ask(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection.request(method, path, content, headers)
        response = connection.getresponse()
        reply = response.read()
        connection.close()
        return response.status, reply, response.headers

    def __call__(self, method, path, body=None, **headers):
        return self.ask(method, f"/{self.server.secret}/{path}", body, **headers)

    def open(self, text):
        status, reply, _ = self("POST", "texts", {"text": text, "pair": None, "model": self.model.name})
        assert status == 200, reply
        return json.loads(reply)

    def wait(self, job):
        for _ in range(600):
            reply = json.loads(self("GET", f"jobs/{job}")[1])
            if reply["state"] not in ("waiting", "running"):
                return reply
            time.sleep(0.05)
        raise AssertionError("the job does not end in time")


def endless(bar):
    """A job that ends when it is canceled."""
    bar.expect(1000)
    while True:
        time.sleep(0.01)
        bar.advance(0)
