"""Inputs written by a language model, through the real client against a scripted server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest

from autotriton.data.harvest.asking import EndpointAsker

pytest.importorskip("openai")

GOOD = "def get_init_inputs():\n    return [3]\n\n\ndef get_inputs():\n    return [torch.randn(2, 3)]"


class Handler(BaseHTTPRequestHandler):
    answers: ClassVar[list[str | int]] = []
    asked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(request["messages"][-1]["content"])
        answer = self.answers.pop(0)
        status = answer if isinstance(answer, int) else 200
        message = {"role": "assistant", "content": answer}
        body = json.dumps(
            {"choices": [{"message": message}]} if status == 200 else {"error": {"message": "no"}}
        ).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    Handler.answers, Handler.asked = [], []
    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()


def test_an_answer_in_a_fence_becomes_the_makers(url: str) -> None:
    Handler.answers = [f"Here they are:\n```python\n{GOOD}\n```\nDone."]
    asker = EndpointAsker(url, "small", retries=0)
    assert asker("class Thing: pass", "Thing") == [GOOD]
    assert "class Thing: pass" in Handler.asked[0]
    assert "get_init_inputs()" in Handler.asked[0]


@pytest.mark.parametrize("nonsense", ["I cannot do that.", "```python\ndef get_inputs(:\n```", "```python\nx = 1\n```"])
def test_nonsense_gives_nothing(url: str, nonsense: str) -> None:
    Handler.answers = [nonsense]
    assert EndpointAsker(url, "small", retries=0)("class Thing: pass", "Thing") == []


def test_a_failing_server_costs_one_definition_and_is_counted(url: str) -> None:
    Handler.answers = [500, f"```python\n{GOOD}\n```"]
    asker = EndpointAsker(url, "small", retries=0)
    assert asker("class One: pass", "One") == []
    assert asker.failed == 1
    assert asker("class Two: pass", "Two") == [GOOD]
