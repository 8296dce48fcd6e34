"""What is known about each slot, on the device: a step reads and writes it without asking the host."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from autotriton.propose.decoding.ops import Ops, uniforms
from autotriton.propose.decoding.records import Request

STOPS = 16
"""Stop tokens there is room for: a captured step reads all of them, unused ones are -1."""


class State:
    """One entry per slot. A slot that is done stays as it is until it is given another request."""

    def __init__(self, slots: int, most_tokens: int, device: torch.device) -> None:
        def whole(value: int = 0) -> Tensor:
            return torch.full((slots,), value, dtype=torch.int64, device=device)

        self.token, self.length, self.count, self.limit, self.seed = (whole() for _ in range(5))
        self.top_k = whole()
        self.temperature, self.top_p = (torch.ones(slots, device=device) for _ in range(2))
        self.done = torch.ones(slots, dtype=torch.bool, device=device)
        self.tokens = torch.zeros((slots, most_tokens), dtype=torch.int64, device=device)
        self.logprobs = torch.zeros((slots, most_tokens), device=device)
        self.stops = torch.full((STOPS,), -1, dtype=torch.int64, device=device)
        self._slots = torch.arange(slots, device=device)

    @property
    def most_tokens(self) -> int:
        return self.tokens.shape[1]

    def begin(self, stops: Sequence[int]) -> None:
        """Every slot is free."""
        if len(stops) > STOPS:
            raise ValueError(f"{len(stops)} stop tokens, at most {STOPS} are possible")
        self.done.fill_(True)
        self.stops.fill_(-1)
        self.stops[: len(stops)] = torch.tensor(list(stops), dtype=torch.int64)

    def admit(self, slots: Tensor, requests: Sequence[Request]) -> None:
        """The prompts of these requests are in the cache; no token has been drawn yet."""

        def put(target: Tensor, values: list[float]) -> None:
            target[slots] = torch.tensor(values, dtype=target.dtype).to(target.device)

        put(self.length, [len(request.prompt) for request in requests])
        put(self.limit, [request.max_tokens for request in requests])
        self.seed[slots] = torch.tensor([_signed(one.seed) for one in requests], dtype=torch.int64).to(slots.device)
        put(self.temperature, [request.temperature for request in requests])
        put(self.top_p, [request.top_p for request in requests])
        put(self.top_k, [request.top_k for request in requests])
        self.count[slots] = 0
        self.done[slots] = False

    def positions(self, rows: slice, aside: int) -> tuple[Tensor, Tensor]:
        """Where the present tokens go, and how many entries their queries see. Slots that are done write to the entry
        `aside` and see one: whatever a slot holds, running it while it is done changes nothing of it."""
        done, length = self.done[rows], self.length[rows]
        return torch.where(done, aside, length), torch.where(done, 1, length + 1)

    def consumed(self, rows: slice) -> None:
        """The present tokens are in the cache."""
        self.length[rows] += (~self.done[rows]).long()

    def draw(self, ops: Ops, rows: slice | Tensor, logits: Tensor) -> None:
        """The next token of every row that is not done."""
        done, count = self.done[rows], self.count[rows]
        drawn, logprob = ops.sample(
            logits, uniforms(self.seed[rows], count), self.temperature[rows], self.top_p[rows], self.top_k[rows]
        )
        token = torch.where(done, self.token[rows], drawn)
        place = (self._slots[rows], count.clamp(max=self.most_tokens - 1))
        self.tokens[place] = torch.where(done, self.tokens[place], token)
        self.logprobs[place] = torch.where(done, self.logprobs[place], logprob)
        count = count + (~done).long()
        self.token[rows] = token
        self.count[rows] = count
        self.done[rows] = done | (token[:, None] == self.stops).any(-1) | (count >= self.limit[rows])

    def gather(self, order: Tensor) -> None:
        """Slot i becomes what slot `order[i]` was; those behind are done."""
        count = len(order)
        for tensor in (self.token, self.length, self.count, self.limit, self.seed, self.top_k, self.temperature):
            tensor[:count] = tensor[order]
        for tensor in (self.top_p, self.tokens, self.logprobs, self.done):
            tensor[:count] = tensor[order]
        self.done[count:] = True


def _signed(seed: int) -> int:
    """Any whole number as one of 64 bits."""
    return (seed + (1 << 63)) % (1 << 64) - (1 << 63)
