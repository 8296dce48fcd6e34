"""The decoder on a device: kernels against torch in bf16, captured steps against transformers, live weights.

Needs transformers, and no weights: the models are random, of the shapes of real ones. About a minute on an H200.
"""

from __future__ import annotations

import copy

import pytest
import torch

transformers = pytest.importorskip("transformers")

from autotriton.propose.decoding.decoder import Decoder  # noqa: E402
from autotriton.propose.decoding.ops import TorchOps  # noqa: E402
from autotriton.propose.decoding.records import Reason, Request  # noqa: E402
from autotriton.propose.decoding.triton_ops import TritonOps  # noqa: E402

pytestmark = pytest.mark.gpu

PLAIN, OURS = TorchOps(), TritonOps()
WORDS = 5003


def random_model(kind: str = "qwen2", dtype: torch.dtype = torch.float32, width: int = 128):
    """Four layers with the heads of the 1.5B model."""
    config_class, model_class = {
        "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
        "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
    }[kind]
    torch.manual_seed(0)
    config = config_class(
        vocab_size=WORDS,
        hidden_size=12 * width,
        intermediate_size=2048,
        num_hidden_layers=4,
        num_attention_heads=12,
        num_key_value_heads=2,
        max_position_embeddings=8192,
        initializer_range=0.06,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
    )
    return model_class(config).to("cuda", dtype).eval()


def prompts_of(*lengths: int) -> list[tuple[int, ...]]:
    generator = torch.Generator().manual_seed(3)
    return [tuple(torch.randint(WORDS, (length,), generator=generator).tolist()) for length in lengths]


@torch.inference_mode()
def generated(model, prompt: tuple[int, ...], count: int) -> list[int]:
    tokens = torch.tensor([prompt], device="cuda")
    whole = model.generate(
        tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=count, do_sample=False, pad_token_id=0
    )
    return whole[0, len(prompt) :].tolist()


@torch.inference_mode()
def logprobs_of(model, prompt, answer, temperature: float) -> torch.Tensor:
    logits = model(torch.tensor([prompt + answer], device="cuda")).logits[0, len(prompt) - 1 : -1].float()
    chosen = torch.tensor(answer, device="cuda")[:, None]
    return (logits / temperature).log_softmax(-1).gather(-1, chosen)[:, 0].cpu()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_kernels_compute_what_torch_computes(dtype):
    torch.manual_seed(1)
    x, delta = torch.randn(2, 64, 1536, dtype=dtype, device="cuda").unbind(0)
    weight = torch.randn(1536, dtype=dtype, device="cuda")
    torch.testing.assert_close(OURS.norm(x, weight, 1e-6), PLAIN.norm(x, weight, 1e-6))
    mine, plain = x.clone(), x.clone()
    torch.testing.assert_close(OURS.add_norm(mine, delta, weight, 1e-6), PLAIN.add_norm(plain, delta, weight, 1e-6))
    torch.testing.assert_close(mine, plain)
    both = torch.randn(64, 2 * 8960, dtype=dtype, device="cuda")
    # The gate is rounded on its way: two units of a 16-bit type; in fp32 exp differs more than that.
    units = max(2 * torch.finfo(dtype).eps, 1.3e-6)
    torch.testing.assert_close(OURS.gated(both), PLAIN.gated(both), rtol=units, atol=1e-5)
    angles = torch.randn(512, 128, device="cuda")
    cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
    qkv = torch.randn(64, 16 * 128, dtype=dtype, device="cuda")
    positions = torch.randint(512, (64,), device="cuda")
    caches = [torch.zeros(2, 64, 2, 512, 128, dtype=dtype, device="cuda") for _ in range(2)]
    found = [
        ops.rotate_store(qkv, cos, sin, positions, *cache) for ops, cache in zip((OURS, PLAIN), caches, strict=True)
    ]
    torch.testing.assert_close(found[0], found[1])
    torch.testing.assert_close(caches[0], caches[1])


@pytest.mark.parametrize("splits", [1, 2, 32, None])
@pytest.mark.parametrize(("heads", "kv_heads", "width"), [(12, 2, 128), (9, 3, 64), (32, 8, 128), (8, 8, 64)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 2e-2), (torch.float32, 1e-4)])
def test_attention_of_any_length(splits, heads, kv_heads, width, dtype, tolerance):
    torch.manual_seed(2)
    q = torch.randn(5, heads, width, dtype=dtype, device="cuda")
    keys, values = torch.randn(2, 5, kv_heads, 4096, width, dtype=dtype, device="cuda").unbind(0)
    counts = torch.tensor([1, 63, 1000, 4096, 2049], device="cuda")
    mine = TritonOps(splits).attend(q, keys, values, counts, width**-0.5)
    plain = PLAIN.attend(q.double(), keys.double(), values.double(), counts, width**-0.5)
    torch.testing.assert_close(mine.double(), plain, rtol=tolerance, atol=tolerance)


def test_sampling_takes_the_tokens_torch_takes():
    torch.manual_seed(3)
    logits = torch.randn(256, 151936, device="cuda").mul_(4).to(torch.bfloat16)
    draws = torch.rand(256, device="cuda")
    temperature = torch.tensor([0.0, 0.5, 0.7, 1.0], device="cuda").repeat(64)
    top_p = torch.tensor([1.0, 0.95, 0.5, 1.0, 0.9], device="cuda").repeat(52)[:256]
    top_k = torch.tensor([0, 20, 0], device="cuda").repeat(86)[:256]
    settings = (temperature, top_p, top_k)
    mine, plain = OURS.sample(logits, draws, *settings), PLAIN.sample(logits, draws, *settings)
    # Sums of 152,000 weights in another order: a draw on the border of two tokens may fall to the other.
    assert (mine[0] == plain[0]).float().mean() > 0.97
    same = mine[0] == plain[0]
    torch.testing.assert_close(mine[1][same], plain[1][same], rtol=1e-3, atol=1e-3)
    greedy = temperature == 0
    assert (mine[0][greedy] == logits[greedy].float().argmax(-1)).all()


@pytest.mark.parametrize("kind", ["qwen2", "llama"])
def test_captured_steps_say_what_generate_says(kind):
    # In fp32, so that the two differ by rounding only and not by what is near a tie in 16 bits.
    model = random_model(kind)
    prompts = prompts_of(3, 70, 200, 1, 33, 129)
    decoder = Decoder(model, batch=4)
    assert decoder._graphed
    requests = [Request(prompt=prompt, max_tokens=48, temperature=0.0) for prompt in prompts]
    results = decoder.all(requests)
    assert decoder._graphs, "no graph was captured"
    same = [
        list(result.tokens) == generated(model, prompt, 48) for prompt, result in zip(prompts, results, strict=True)
    ]
    assert sum(same) >= 5, same
    again = Decoder(model, batch=4, shrink=True, stride=3).all(requests)
    assert sum(one.tokens == two.tokens for one, two in zip(results, again, strict=True)) >= 5


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_logprobs_are_those_of_a_trainer_within_bf16_noise(temperature):
    model = random_model(dtype=torch.bfloat16)
    exact = copy.deepcopy(model).float()
    prompts = prompts_of(20, 300, 64)
    requests = [Request(prompt=prompt, max_tokens=64, seed=4, temperature=temperature) for prompt in prompts]
    found, plain = [], []
    for prompt, result in zip(prompts, Decoder(model).all(requests), strict=True):
        expected = logprobs_of(exact, prompt, result.tokens, temperature or 1.0)
        found.append((torch.tensor(result.logprobs) - expected).abs())
        plain.append((logprobs_of(model, prompt, result.tokens, temperature or 1.0) - expected).abs())
    # What bf16 costs the model's own forward pass it may cost the decoder, which rounds at other places.
    ours, theirs = torch.cat(found), torch.cat(plain)
    assert ours.mean() < 2 * theirs.mean()
    assert ours.max() < 2 * theirs.max()


def test_answers_do_not_depend_on_their_neighbours():
    model = random_model(dtype=torch.bfloat16)
    prompts = prompts_of(*range(10, 42))
    requests = [
        Request(prompt=prompt, max_tokens=32, seed=seed, temperature=1.0, top_p=0.9)
        for seed, prompt in enumerate(prompts)
    ]
    whole = Decoder(model, batch=8).all(requests)
    # The same batch size with other company: matrix products of one shape round each row alike.
    other = Decoder(model, batch=8).all(requests[::-1])[::-1]
    same = sum(one.tokens == two.tokens for one, two in zip(whole, other, strict=True))
    # Prompts are read in other groups, whose products have other shapes: a rounding may differ there.
    assert same >= 24


def test_weights_in_training_are_taken_over_by_a_captured_step():
    model = random_model()
    [prompt] = prompts_of(30)
    decoder = Decoder(model, batch=1)
    request = Request(prompt=prompt, max_tokens=16, temperature=0.0)
    before = decoder.all([request])[0].tokens
    graphs = dict(decoder._graphs)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    decoder.refresh()
    after = decoder.all([request])[0].tokens
    assert decoder._graphs == graphs, "it was captured again"
    assert after != before
    assert list(after) == generated(model, prompt, 16)


def test_stop_tokens_timeouts_and_memory():
    model = random_model(dtype=torch.bfloat16)
    prompts = prompts_of(16, 16, 16)
    decoder = Decoder(model, batch=4)
    requests = [Request(prompt=prompt, max_tokens=40, temperature=0.0) for prompt in prompts]
    whole = decoder.all(requests)
    stops = (whole[0].tokens[20],)
    stopped = decoder.all(requests, stops)[0]
    assert stopped.reason is Reason.STOP
    assert stopped.tokens == whole[0].tokens[: whole[0].tokens.index(stops[0]) + 1]
    late = list(decoder.decode([Request(prompt=prompts[0], max_tokens=4000, temperature=0.0)], timeout_s=0.05))
    assert late[0].reason is Reason.TIME
    held = torch.cuda.memory_allocated()
    decoder.release()
    assert torch.cuda.memory_allocated() < held


def test_a_cache_that_does_not_fit_gets_fewer_slots(monkeypatch):
    model = random_model(dtype=torch.bfloat16)
    decoder = Decoder(model, batch=64)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device=None: (64 << 20, 1 << 40))
    requests = [Request(prompt=prompt, max_tokens=16, temperature=0.0) for prompt in prompts_of(*[20] * 64)]
    assert len(decoder.all(requests)) == 64
    assert decoder._made()[0].slots < 64
