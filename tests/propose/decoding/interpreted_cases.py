"""The decoder's kernels in Triton's interpreter, held against the same arithmetic in torch.

16 bits are fp16 here: the interpreter multiplies bf16 matrices as if they were whole numbers. bf16 runs in tests/gpu.

Run by `test_interpreted.py`, or directly: TRITON_INTERPRET=1 pytest tests/propose/decoding/interpreted_cases.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from triton import knobs

sys.path.insert(0, str(Path(__file__).parent))

from tiny import generated, logprobs_of, model_of, prompts_of

from autotriton.propose.decoding.decoder import Decoder
from autotriton.propose.decoding.ops import TorchOps, uniforms
from autotriton.propose.decoding.records import Request
from autotriton.propose.decoding.triton_ops import TritonOps, _splits

assert knobs.runtime.interpret, "set TRITON_INTERPRET=1"

PLAIN, OURS = TorchOps(), TritonOps()


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(11)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("width", [128, 96])
def test_norm_and_gate(dtype, width):
    x, delta = torch.randn(3, width, dtype=dtype), torch.randn(3, width, dtype=dtype)
    weight = torch.randn(width, dtype=dtype)
    torch.testing.assert_close(OURS.norm(x, weight, 1e-6), PLAIN.norm(x, weight, 1e-6))
    mine, plain = x.clone(), x.clone()
    torch.testing.assert_close(OURS.add_norm(mine, delta, weight, 1e-6), PLAIN.add_norm(plain, delta, weight, 1e-6))
    torch.testing.assert_close(mine, plain, rtol=0, atol=0)
    both = torch.randn(3, 2 * width, dtype=dtype)
    torch.testing.assert_close(OURS.gated(both), PLAIN.gated(both))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_rotation_writes_one_entry_of_each_slot(dtype):
    angles = torch.randn(40, 32)
    cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
    qkv = torch.randn(3, (6 + 2 * 2) * 32, dtype=dtype)
    positions = torch.tensor([0, 39, 7])
    caches = [torch.zeros(2, 5, 2, 40, 32, dtype=dtype) for _ in range(2)]  # more slots than rows
    q, expected = (
        ops.rotate_store(qkv, cos, sin, positions, cache[0, :3], cache[1, :3])
        for ops, cache in zip((OURS, PLAIN), caches, strict=True)
    )
    torch.testing.assert_close(q, expected, rtol=0, atol=0)
    torch.testing.assert_close(caches[0], caches[1], rtol=0, atol=0)
    assert (caches[0] != 0).any(-1).sum() == 2 * 3 * 2


@pytest.mark.parametrize("splits", [1, 2, 8])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float16, 2e-2)])
def test_attention_reads_each_sequence_to_its_own_end(splits, dtype, tolerance):
    q = torch.randn(4, 6, 32, dtype=dtype)
    keys, values = torch.randn(2, 4, 2, 256, 32, dtype=dtype).unbind(0)
    counts = torch.tensor([1, 33, 256, 130])
    for row, count in enumerate(counts.tolist()):  # whatever lies behind the end is never used
        keys[row, :, count:] = values[row, :, count:] = 1e3
    mine = TritonOps(splits).attend(q, keys, values, counts, 0.2)
    plain = PLAIN.attend(q.float(), keys.float(), values.float(), counts, 0.2)
    torch.testing.assert_close(mine.float(), plain, rtol=tolerance, atol=tolerance)


def test_few_sequences_are_split_and_many_are_not():
    device = torch.device("cpu")
    assert _splits(2, 4096, device) == 32
    assert _splits(2, 512, device) == 4
    assert _splits(512, 4096, device) == 2
    assert _splits(1024, 4096, device) == 1


@pytest.mark.parametrize(
    ("temperature", "top_p", "top_k"), [(0, 1, 0), (0.7, 1, 0), (1, 0.9, 0), (1, 1, 5), (1.3, 0.8, 9)]
)
def test_sampling_takes_the_same_tokens(temperature, top_p, top_k):
    logits = (torch.randn(4, 5000) * 3)[:, :4500].contiguous()
    draws = torch.tensor([0.0, 0.37, 0.81, 0.999999])
    settings = (
        torch.full((4,), float(temperature)),
        torch.full((4,), float(top_p)),
        torch.full((4,), top_k, dtype=torch.int64),
    )
    mine, plain = OURS.sample(logits, draws, *settings), PLAIN.sample(logits, draws, *settings)
    assert mine[0].tolist() == plain[0].tolist()
    torch.testing.assert_close(mine[1], plain[1], rtol=1e-4, atol=1e-4)


def test_sampling_keeps_to_the_tokens_that_are_allowed():
    chances = torch.tensor([0.05, 0.4, 0.02, 0.3, 0.03, 0.2])
    logits = chances.log()[None].repeat(6, 1)
    draws = torch.linspace(0, 0.9999, 6)
    for top_p, top_k, allowed in ((0.65, 0, {1, 3}), (0.9, 0, {1, 3, 5}), (1.0, 1, {1}), (0.5, 3, {1, 3})):
        settings = (torch.ones(6), torch.full((6,), top_p), torch.full((6,), top_k, dtype=torch.int64))
        for ops in (OURS, PLAIN):
            assert set(ops.sample(logits, draws, *settings)[0].tolist()) == allowed, (top_p, top_k, ops)


def test_rows_of_one_batch_have_their_own_settings():
    logits = torch.randn(4, 300)
    settings = (torch.tensor([0.0, 1.0, 0.5, 0.0]), torch.tensor([1.0, 0.5, 1.0, 0.3]), torch.tensor([0, 0, 3, 7]))
    draws = uniforms(torch.arange(4), torch.arange(4))
    mine, plain = OURS.sample(logits, draws, *settings), PLAIN.sample(logits, draws, *settings)
    assert mine[0].tolist() == plain[0].tolist()
    assert mine[0][[0, 3]].tolist() == logits.argmax(-1)[[0, 3]].tolist()


def test_logits_that_are_not_numbers_still_give_a_token_of_the_vocabulary():
    logits = torch.full((2, 100), torch.nan)
    token, _ = OURS.sample(
        logits, torch.tensor([0.5, 0.5]), torch.tensor([0.0, 1.0]), torch.ones(2), torch.zeros(2).long()
    )
    assert ((token >= 0) & (token < 100)).all()


@pytest.mark.parametrize("kind", ["qwen2", "llama"])
def test_the_whole_decoder_by_kernels(kind):
    model = model_of(kind, width=32, layers=1)
    prompts = prompts_of(3, 11)
    requests = [Request(prompt=prompt, max_tokens=4, temperature=0.0) for prompt in prompts]
    for prompt, result in zip(prompts, Decoder(model, ops=OURS, batch=2).all(requests), strict=True):
        assert list(result.tokens) == generated(model, prompt, 4)
        expected = logprobs_of(model, prompt, result.tokens)
        torch.testing.assert_close(torch.tensor(result.logprobs), expected, rtol=1e-4, atol=1e-4)
