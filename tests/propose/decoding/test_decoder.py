"""The decoder on a CPU against transformers itself: tokens, log-probabilities, refilled slots, seeds."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers", reason="needs the train extra")
sys.path.insert(0, str(Path(__file__).parent))

from tiny import WORDS, generated, logprobs_of, model_of, prompts_of  # noqa: E402

from autotriton import machine  # noqa: E402
from autotriton.propose.decoding import forward  # noqa: E402
from autotriton.propose.decoding.decoder import Decoder  # noqa: E402
from autotriton.propose.decoding.records import Reason, Request  # noqa: E402

pytestmark = pytest.mark.interp

KINDS = ["qwen2", "llama"]


@pytest.fixture(scope="module", params=KINDS)
def model(request):
    return model_of(request.param)


@pytest.fixture(scope="module")
def qwen():
    return model_of("qwen2")


def greedy(prompts, count) -> list[Request]:
    return [Request(prompt=prompt, max_tokens=count, temperature=0.0) for prompt in prompts]


def test_greedy_tokens_are_those_of_generate_for_prompts_of_any_length(model):
    prompts = prompts_of(1, 2, 17, 40, 5)
    results = Decoder(model, batch=8).all(greedy(prompts, 24))
    for prompt, result in zip(prompts, results, strict=True):
        assert list(result.tokens) == generated(model, prompt, 24)
        assert result.reason is Reason.LENGTH
    assert len({result.tokens for result in results}) == 5, "the model says the same to every prompt"


@pytest.mark.parametrize("settings", [{"stride": 1}, {"stride": 5}, {"shrink": False}, {"prefill_tokens": 16}])
def test_freed_slots_are_refilled_and_answers_keep_their_order(model, settings):
    prompts = prompts_of(3, 9, 4, 30, 7, 11, 2)
    counts = [3, 20, 1, 8, 13, 2, 9]
    requests = [
        Request(prompt=prompt, max_tokens=count, temperature=0.0) for prompt, count in zip(prompts, counts, strict=True)
    ]
    decoder = Decoder(model, batch=3, **settings)
    streamed = list(decoder.decode(requests))
    assert sorted(result.index for result in streamed) == list(range(7))
    assert [result.index for result in streamed] != list(range(7)), "short answers come first"
    for result in streamed:
        assert list(result.tokens) == generated(model, prompts[result.index], counts[result.index])


def test_no_more_slots_are_used_than_the_host_has_memory_for(qwen, monkeypatch):
    requests = greedy(prompts_of(*range(3, 11)), 8)
    whole = Decoder(qwen, batch=8).all(requests)
    narrow = Decoder(qwen, batch=8)
    two_slots = forward.cache_bytes(narrow.weights, 2, 512)
    monkeypatch.setattr(machine, "available_bytes", lambda: two_slots * 3 // 2)
    assert [result.tokens for result in narrow.all(requests)] == [result.tokens for result in whole]
    assert narrow._cache.slots == 2


def test_a_stop_token_ends_the_answer_and_is_part_of_it(model):
    prompts = prompts_of(6, 12, 3)
    whole = [generated(model, prompt, 30) for prompt in prompts]
    stops = (whole[0][4], whole[1][9])
    for prompt, expected, result in zip(
        prompts, whole, Decoder(model, batch=4, stride=3).all(greedy(prompts, 30), stops), strict=True
    ):
        end = next((place for place, token in enumerate(expected) if token in stops), None)
        assert list(result.tokens) == (expected if end is None else expected[: end + 1]), prompt
        assert result.reason is (Reason.LENGTH if end is None else Reason.STOP)


def test_answers_longer_than_a_bucket_get_a_longer_cache(qwen):
    prompts = prompts_of(500, 20)
    decoder = Decoder(qwen, batch=2)
    first = decoder.all(greedy(prompts[1:], 10))
    assert decoder._made()[0].capacity == 512
    results = decoder.all(greedy(prompts, 40))
    assert decoder._made()[0].capacity == 1024
    assert [list(result.tokens) for result in results] == [generated(qwen, prompt, 40) for prompt in prompts]
    assert first[0].tokens == results[1].tokens[:10]
    decoder.release()
    assert decoder.all(greedy(prompts[1:], 10)) == first


@pytest.mark.parametrize("temperature", [0.0, 0.6, 1.0])
def test_logprobs_are_those_of_a_forward_pass(model, temperature):
    prompts = prompts_of(4, 21, 9)
    requests = [Request(prompt=prompt, max_tokens=25, seed=5, temperature=temperature) for prompt in prompts]
    for prompt, result in zip(prompts, Decoder(model, batch=2).all(requests), strict=True):
        expected = logprobs_of(model, prompt, result.tokens, temperature or 1.0)
        torch.testing.assert_close(torch.tensor(result.logprobs), expected, rtol=1e-4, atol=1e-4)


def test_an_answer_depends_on_its_seed_and_not_on_its_neighbours(qwen):
    prompts = prompts_of(8, 15, 3, 27)
    requests = [
        Request(prompt=prompt, max_tokens=20, seed=seed, temperature=1.0, top_p=0.9)
        for seed, prompt in enumerate(prompts)
    ]
    together = Decoder(qwen, batch=4).all(requests)
    few = Decoder(qwen, batch=2, stride=3).all(list(reversed(requests)))
    alone = [Decoder(qwen, batch=1).all([request])[0] for request in requests]
    tokens = [result.tokens for result in together]
    assert tokens == [result.tokens for result in reversed(few)] == [result.tokens for result in alone]
    other = Decoder(qwen, batch=4).all([Request(prompt=prompts[0], max_tokens=20, seed=9)])
    assert other[0].tokens != tokens[0]


def test_equal_prompts_are_read_once_and_still_differ_by_seed(qwen, monkeypatch):
    from autotriton.propose.decoding import forward

    seen = []
    real = forward.prefill
    monkeypatch.setattr(forward, "prefill", lambda *args: seen.append(args[3].shape) or real(*args))
    [prompt] = prompts_of(12)
    results = Decoder(qwen, batch=8).all([Request(prompt=prompt, max_tokens=16, seed=seed) for seed in range(8)])
    assert [tuple(shape) for shape in seen] == [(1, 12)]
    assert len({result.tokens for result in results}) == 8


def test_first_tokens_are_drawn_as_often_as_they_are_likely(qwen):
    [prompt] = prompts_of(10)
    with torch.no_grad():
        chances = (qwen(torch.tensor([prompt])).logits[0, -1] / 1.5).softmax(-1)
    drawn = Counter(
        result.tokens[0]
        for result in Decoder(qwen, batch=4096).all(
            [Request(prompt=prompt, max_tokens=1, seed=seed, temperature=1.5) for seed in range(4096)]
        )
    )
    counts = torch.tensor([drawn[word] for word in range(WORDS)], dtype=torch.float64)
    # Five standard deviations for each word, and one count for those hardly ever drawn.
    allowed = 5 * (4096 * chances * (1 - chances)).sqrt() + 1
    assert ((counts - 4096 * chances).abs() <= allowed).all()
    assert len(drawn) > 10


def test_an_answer_that_takes_too_long_ends_with_what_there_is(qwen):
    prompts = prompts_of(4, 6)
    results = list(Decoder(qwen, batch=2).decode(greedy(prompts, 2000), timeout_s=0.05))
    assert {result.reason for result in results} == {Reason.TIME}
    for result in results:
        assert 0 < len(result.tokens) < 2000
        assert len(result.logprobs) == len(result.tokens)


def test_a_consumer_that_leaves_early_does_no_harm(qwen):
    prompts = prompts_of(5, 8, 3)
    decoder = Decoder(qwen, batch=2)
    answers = decoder.decode(greedy(prompts, 10))
    next(answers)
    answers.close()
    assert [list(result.tokens) for result in decoder.all(greedy(prompts, 10))] == [
        generated(qwen, prompt, 10) for prompt in prompts
    ]


@pytest.mark.parametrize(
    "wrong", [{"prompt": ()}, {"max_tokens": 0}, {"temperature": -1.0}, {"top_p": 0.0}, {"top_k": -1}]
)
def test_a_request_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError, match=r"request needs|no such sampling"):
        Request(**{"prompt": (1,), "max_tokens": 1, **wrong})


def test_answers_of_a_group_differ_and_do_not_depend_on_the_batch(qwen):
    prompts = [prompt for prompt in prompts_of(7, 12) for _ in range(3)]
    requests = [Request(tuple(prompt), 30, seed=100 + number) for number, prompt in enumerate(prompts)]
    made = Decoder(qwen, batch=4).all(requests, stops=(5,))
    assert [result.index for result in made] == list(range(6))
    assert len({result.tokens for result in made}) == 6
    for result in made:
        assert len(result.tokens) == len(result.logprobs)
        assert (result.reason is Reason.STOP) == (result.tokens[-1] == 5)
    assert [r.tokens for r in Decoder(qwen, batch=2).all(requests, stops=(5,))] == [r.tokens for r in made]
