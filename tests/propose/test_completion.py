"""A server's bytes as an answer."""

import json

import pytest

from autotriton.propose.completion import NotACompletion, read
from autotriton.types import TokenUsage


def body(message: object, **more: object) -> bytes:
    return json.dumps({"choices": [{"index": 0, "message": message}], **more}).encode()


def test_the_text_and_its_cost_are_read():
    answer = read(
        body({"role": "assistant", "content": "x"}, usage={"prompt_tokens": 3, "completion_tokens": 2, "total": 5})
    )
    assert (answer.text, answer.usage) == ("x", TokenUsage(prompt=3, completion=2))


def test_reasoning_is_kept_before_the_answer():
    assert read(body({"content": "x", "reasoning_content": "hm"})).text == "<think>\nhm\n</think>\n\nx"
    assert read(body({"content": None, "reasoning": "hm"})).text == "<think>\nhm\n</think>\n\n"


@pytest.mark.parametrize(
    "raw",
    [
        body({"content": None}),
        body({}),
        body(None),
        b'{"choices": []}',
        b'{"choices": null}',
        b'{"choices": [{}]}',
        body({"content": ""}, usage=None),
        body({"content": ""}, usage={"prompt_tokens": None}),
    ],
)
def test_an_answer_without_text_is_empty(raw):
    assert read(raw).text == ""
    assert read(raw).usage is None


def test_a_refusal_is_an_answer():
    assert read(body({"content": None, "refusal": "I will not."})).text == "I will not."


def test_parts_are_joined():
    assert read(body({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, 3]})).text == "ab"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"<html>oops</html>",
        b'{"error": {"message": "no"}}',
        b"[]",
        b'"x"',
        b'{"choices": "x"}',
        b'{"choices": [1]}',
        b"\xff",
    ],
)
def test_anything_else_is_no_completion(raw):
    with pytest.raises(NotACompletion):
        read(raw)


def test_what_came_instead_is_quoted_on_one_short_line():
    with pytest.raises(NotACompletion) as caught:
        read(b"<html>\n" + b"x" * 10_000)
    assert len(str(caught.value)) < 250
    assert "\n" not in str(caught.value)
