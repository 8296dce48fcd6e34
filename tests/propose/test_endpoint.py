"""The endpoint proposer against a server that misbehaves in every way servers do. The well-behaved one is real: see
test_endpoint_for_real.py.
"""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from autotriton.errors import ProposerError, UsageError
from autotriton.propose.endpoint import EndpointProposer
from autotriton.types import Attempt, Candidate, Outcome, Policy, Task, Tier, TokenUsage, Verdict

pytest.importorskip("openai", reason="needs the endpoint extra")

TASK = Task(id="double", source="class Model:\n    pass\n")
CODE = "import triton\n\n\nclass ModelNew:\n    pass\n"
KEY = "sk-very-secret"
Reply = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Answers with the next reply of the script; the last one is repeated."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        server: Any = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.requests.append({"path": self.path, "key": self.headers["Authorization"], **body})
            reply = server.script.pop(0) if len(server.script) > 1 else server.script[0]
            server.busy += 1
            server.most_busy = max(server.most_busy, server.busy)
        try:
            reply(self)
        except (BrokenPipeError, ConnectionResetError):
            server.dropped.set()
        finally:
            with server.lock:
                server.busy -= 1

    def do_GET(self) -> None:
        self.send(200, {"object": "list", "data": [{"id": "this-one"}, {"id": "that-one"}]})

    def send(self, status: int, value: object, **headers: str) -> None:
        raw = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), text)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:
        pass


class Script:
    """A server on 127.0.0.1 that answers as it is told to."""

    def __init__(self, server: Any) -> None:
        self.server = server
        self.url = f"http://127.0.0.1:{server.server_address[1]}/v1"

    def proposer(self, *replies: Reply, **settings: Any) -> EndpointProposer:
        self.server.script = list(replies)
        return EndpointProposer(self.url, "m", **{"samples": 1, "retries": 0, "timeout_s": 10, **settings})

    @property
    def requests(self) -> list[dict[str, Any]]:
        return self.server.requests


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    monkeypatch.setenv("AUTOTRITON_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.script, server.requests, server.lock = [], [], threading.Lock()
    server.busy, server.most_busy, server.dropped = 0, 0, threading.Event()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield Script(server)
    server.shutdown()
    server.server_close()


def says(text: str | None, **message: object) -> Reply:
    usage = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text, **message}}
    return lambda handler: handler.send(
        200, {"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage}
    )


def fails(status: int, message: str = "broken", **more: Any) -> Reply:
    headers = more.pop("headers", {})
    return lambda handler: handler.send(status, {"error": {"message": message, **more}}, **headers)


GOOD = says(f"Sure.\n```python\n{CODE}```\n")


def answers(proposer: EndpointProposer, history: tuple[Attempt, ...] = ()) -> list[Candidate]:
    return list(proposer.propose(TASK, history))


def test_a_good_answer_becomes_a_candidate(script):
    [candidate] = answers(script.proposer(GOOD, seed=3, temperature=0.5, max_tokens=99))
    assert candidate.code == CODE
    assert candidate.completion.startswith("Sure.")
    assert candidate.usage == TokenUsage(prompt=7, completion=5)
    assert candidate.proposer == f"endpoint:{script.url}#m"
    [request] = script.requests
    assert (request["path"], request["model"]) == ("/v1/chat/completions", "m")
    assert (request["seed"], request["temperature"], request["max_tokens"]) == (3, 0.5, 99)
    assert request["key"] == f"Bearer {KEY}"
    assert "n" not in request


def test_the_key_of_openai_is_the_second_choice_and_none_the_third(script, monkeypatch):
    monkeypatch.delenv("AUTOTRITON_API_KEY")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    answers(script.proposer(GOOD))
    monkeypatch.delenv("OPENAI_API_KEY")
    answers(script.proposer(GOOD))
    assert [request["key"] for request in script.requests] == ["Bearer sk-other", "Bearer none"]


def test_a_key_is_trimmed_and_one_that_cannot_be_sent_is_refused_unseen(script, monkeypatch):
    monkeypatch.setenv("AUTOTRITON_API_KEY", f"{KEY}\n")
    answers(script.proposer(GOOD))
    assert script.requests[0]["key"] == f"Bearer {KEY}"
    monkeypatch.setenv("AUTOTRITON_API_KEY", "sk-schl\u00fcssel")
    with pytest.raises(UsageError, match="AUTOTRITON_API_KEY holds characters") as caught:
        answers(script.proposer(GOOD))
    assert "schl" not in str(caught.value)


def test_samples_are_asked_for_one_by_one_with_their_own_seeds(script):
    found = answers(script.proposer(GOOD, samples=3, seed=5))
    assert len(found) == 3
    assert sorted(request["seed"] for request in script.requests) == [5, 6, 7]


def test_candidates_come_in_the_order_they_were_asked_for(script):
    def by_seed(handler: Handler) -> None:
        mine = handler.server.requests[-1]["seed"]
        time.sleep(0.4 if mine == 0 else 0)
        says(f"```python\nclass ModelNew:\n    number = {mine}\n```")(handler)

    found = answers(script.proposer(by_seed, samples=2, seed=0, concurrency=1))
    assert ["number = 0" in found[0].code, "number = 1" in found[1].code] == [True, True]


def test_no_more_requests_are_under_way_than_allowed(script):
    def slow(handler: Handler) -> None:
        time.sleep(0.2)
        GOOD(handler)

    assert len(answers(script.proposer(slow, samples=6, concurrency=2))) == 6
    assert script.server.most_busy == 2


def test_a_failed_attempt_is_refined(script):
    proposer = script.proposer(GOOD, turns=2)
    [first] = answers(proposer)
    verdict = Verdict(outcome=Outcome.WRONG, message="all zeros", policy=Policy.STRICT, tier=Tier.RUN)
    [second] = answers(proposer, (Attempt(run_id="r", task=TASK, candidate=first, verdict=verdict),))
    assert second.parent_id == first.id
    assert "all zeros" in script.requests[1]["messages"][0]["content"]


def test_a_rate_limit_is_waited_out_as_long_as_the_server_says(script):
    started = time.monotonic()
    [candidate] = answers(script.proposer(fails(429, headers={"Retry_After": "2"}), GOOD, retries=1))
    assert candidate.code == CODE
    assert time.monotonic() - started >= 2
    assert len(script.requests) == 2


def test_a_failing_server_is_tried_again(script):
    [candidate] = answers(script.proposer(fails(500), fails(503), GOOD, retries=2))
    assert candidate.code == CODE
    assert len(script.requests) == 3


def test_a_lost_connection_is_tried_again(script):
    def cut(handler: Handler) -> None:
        handler.connection.shutdown(socket.SHUT_RDWR)

    [candidate] = answers(script.proposer(cut, GOOD, retries=1))
    assert candidate.code == CODE


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (fails(500, "out of luck"), r"fails \(HTTP 500, tried 2 times\): out of luck"),
        (fails(429, "slow down"), r"HTTP 429, tried 2 times\): slow down"),
        (fails(400, "context too long"), "refuses the request .*context too long"),
        (lambda handler: handler.send(200, b"<html>welcome</html>"), "no chat completion: '<html>welcome</html>'"),
        (lambda handler: handler.send(200, {"error": "busy"}), "no chat completion"),
        (lambda handler: handler.send(502, b"<html>bad gateway</html>"), "HTTP 502"),
    ],
)
def test_what_does_not_get_better_is_one_clear_line(script, reply, said):
    with pytest.raises(ProposerError, match=said) as caught:
        answers(script.proposer(reply, retries=1))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 700


def test_a_wrong_key_is_said_without_the_key_and_not_tried_again(script):
    with pytest.raises(ProposerError, match="refuses the key") as caught:
        answers(script.proposer(fails(401, f"Incorrect API key provided: {KEY}"), retries=3, samples=1))
    assert "AUTOTRITON_API_KEY" in str(caught.value)
    assert KEY not in str(caught.value)
    assert len(script.requests) == 1


@pytest.mark.parametrize("status", [200, 400, 500])
def test_the_key_is_in_no_other_message_either(script, status):
    with pytest.raises(ProposerError, match="of user me") as caught:
        answers(script.proposer(fails(status, f"key {KEY} of user me")))
    assert KEY not in str(caught.value)


def test_a_wrong_model_lists_the_ones_there_are(script):
    with pytest.raises(ProposerError, match=r"no model 'm'.*this-one, that-one"):
        answers(script.proposer(fails(404, "model not found")))


def test_a_server_that_is_not_there_is_one_clear_line():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    proposer = EndpointProposer(f"http://127.0.0.1:{port}", "m", samples=2, retries=0, timeout_s=5)
    with pytest.raises(ProposerError, match=r"cannot reach http://127.0.0.1:\d+/v1.*check the URL"):
        answers(proposer)


def test_a_server_that_hangs_is_given_up(script):
    def hang(handler: Handler) -> None:
        time.sleep(5)

    started = time.monotonic()
    with pytest.raises(ProposerError, match=r"did not answer in time .*timeout_s"):
        answers(script.proposer(hang, timeout_s=0.5))
    assert time.monotonic() - started < 4


def test_an_answer_that_trickles_in_ends_too(script):
    def trickle(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        for _ in range(100):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.1)

    with pytest.raises(ProposerError, match="did not finish its answer"):
        answers(script.proposer(trickle, timeout_s=1))


@pytest.mark.parametrize(
    "reply",
    [
        says(None),
        says(""),
        says("I can't help with that."),
        says(None, refusal="No."),
        lambda handler: handler.send(200, {"choices": []}),
        says(None, reasoning_content="Let me think about ```python\nx = 1\n```"),
    ],
)
def test_an_answer_without_code_is_a_candidate_without_code(script, reply):
    [candidate] = answers(script.proposer(reply))
    assert candidate.code == ""


def test_the_answers_that_came_are_kept_when_others_did_not(script):
    coming = script.proposer(GOOD, fails(500, "out of luck"), samples=3, concurrency=1).propose(TASK, ())
    assert next(coming).code == CODE
    with pytest.raises(ProposerError, match=r"2 of 3 answers did not come: .*out of luck"):
        next(coming)


def test_a_question_that_is_refused_does_not_cost_the_others(script):
    coming = script.proposer(fails(400, "too long"), GOOD, samples=2, concurrency=1).propose(TASK, ())
    assert next(coming).code == CODE
    with pytest.raises(ProposerError, match=r"1 of 2 answers did not come: .*too long"):
        next(coming)


def test_who_stops_listening_cancels_the_rest(script):
    def endless(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        for _ in range(200):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.05)

    coming = script.proposer(GOOD, endless, samples=2, concurrency=1).propose(TASK, ())
    next(coming)
    while len(script.requests) < 2:
        time.sleep(0.01)
    started = time.monotonic()
    coming.close()
    assert time.monotonic() - started < 3
    assert script.server.dropped.wait(5), "the server still writes to us"


def test_a_server_that_renamed_max_tokens_is_asked_its_way(script):
    text = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    proposer = script.proposer(fails(400, text, param="max_tokens", code="unsupported_parameter"), GOOD, max_tokens=99)
    [candidate] = answers(proposer)
    assert candidate.code == CODE
    assert script.requests[1]["max_completion_tokens"] == 99
    assert "max_tokens" not in script.requests[1]


def test_a_server_without_temperature_and_seed_is_asked_without_and_it_is_said(script, caplog):
    proposer = script.proposer(
        fails(400, "Unsupported value: 'temperature' does not support 0.7", param="temperature"),
        lambda handler: handler.send(422, {"detail": "Unexpected fields in the request: {'seed'}"}),
        GOOD,
        seed=1,
    )
    [candidate] = answers(proposer)
    assert candidate.code == CODE
    assert not {"temperature", "seed"} & set(script.requests[2])
    assert "`temperature`" in caplog.text
    assert "`seed`" in caplog.text


def test_a_running_event_loop_is_no_obstacle(script):
    import asyncio

    async def inside() -> list[Candidate]:
        return answers(script.proposer(GOOD))

    assert len(asyncio.run(inside())) == 1
