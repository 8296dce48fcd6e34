"""The decoder: requests in, answers out as they end; a slot whose answer has ended is given the next request.

    decoder = Decoder(model)
    for result in decoder.decode([Request(prompt=..., max_tokens=512)], stops=(2,)): ...

On a GPU a step is one CUDA graph, replayed several times between looks at which slots are done. One `decode` at a time.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from autotriton import machine
from autotriton.propose.decoding import forward
from autotriton.propose.decoding.ops import Ops, TorchOps
from autotriton.propose.decoding.records import Reason, Request, Result
from autotriton.propose.decoding.state import State
from autotriton.propose.decoding.weights import Weights

_BUCKET = 512
"""Cache lengths are multiples of it, so that calls of similar length share a cache and its graphs."""
_MEMORY_SHARE = 0.85
"""Of the free memory, for the cache."""
_LEAST_PADDING = 64


@dataclass
class _Slot:
    """The request a slot works on."""

    index: int
    started: float


class Decoder:
    """Holds the joined weights, the cache and the graphs of one model. `release` gives cache and graphs back."""

    def __init__(
        self,
        model: Any,
        *,
        batch: int = 256,
        dtype: torch.dtype | None = None,
        share: bool = False,
        ops: Ops | None = None,
        stride: int | None = None,
        shrink: bool | None = None,
        prefill_tokens: int | None = None,
    ) -> None:
        self.weights = Weights(model, dtype, share=share)
        on_gpu = self.weights.device.type == "cuda"
        self.batch = batch
        self.ops = ops or _ops(self.weights)
        self.stride = stride or (8 if on_gpu else 1)
        """Steps between two looks. A slot that ends in between idles for at most so many."""
        self.shrink = not on_gpu if shrink is None else shrink
        """Halve the batch when half of it is idle and nothing waits. In 16 bits another size rounds differently."""
        self.prefill_tokens = prefill_tokens or (32768 if on_gpu else 4096)
        """Of prompts read at once."""
        self._graphed = on_gpu and not isinstance(self.ops, TorchOps)
        self._graphs: dict[int, Any] = {}
        self._limits: dict[int, int] = {}
        """Slots that fit into memory, by capacity, where fewer did than were wanted."""
        self._cache: forward.Cache | None = None
        self._state: State | None = None

    def refresh(self) -> None:
        """Takes over the weights of a module that was trained since."""
        self.weights.refresh()

    def release(self) -> None:
        """Frees the cache and the graphs; the next call makes them again."""
        self._graphs.clear()
        self._cache = self._state = None
        if self.weights.device.type == "cuda":
            torch.cuda.empty_cache()

    def decode(
        self, requests: Sequence[Request], stops: Sequence[int] = (), timeout_s: float | None = None
    ) -> Iterator[Result]:
        """Results in the order they end. `timeout_s` is for each answer, from the reading of its prompt on."""
        if not requests:
            return
        rows = self._prepare(requests, stops)
        waiting = deque(range(len(requests)))
        busy: dict[int, _Slot] = {}
        while waiting or busy:
            free = [slot for slot in range(rows) if slot not in busy]
            # Reading prompts holds up everyone else: on a GPU wait until a few slots are free.
            if waiting and (len(free) >= max(1, rows // 16 if self._graphed else 1) or not busy):
                self._admit(requests, waiting, free, busy)
            elif self.shrink and not waiting and 0 < len(busy) <= rows // 2:
                rows = self._compact(rows, busy)
            self._steps(rows)
            yield from self._ended(busy, timeout_s)

    def all(self, requests: Sequence[Request], stops: Sequence[int] = ()) -> list[Result]:
        """Results in the order of the requests."""
        return sorted(self.decode(requests, stops), key=lambda result: result.index)

    @torch.no_grad()
    def _prepare(self, requests: Sequence[Request], stops: Sequence[int]) -> int:
        """Cache, state and graph for these requests; returns how many slots are used."""
        length = max(len(request.prompt) + request.max_tokens for request in requests)
        capacity = -(-length // _BUCKET) * _BUCKET
        tokens = -(-max(request.max_tokens for request in requests) // _BUCKET) * _BUCKET
        rows = min(self.batch, 1 << (len(requests) - 1).bit_length(), self._limits.get(capacity, self.batch))
        cache, state = self._cache, self._state
        if cache is None or state is None or cache.slots < rows or cache.capacity < capacity:
            self.release()
            fitting = self._fitting(rows, capacity)
            if fitting < rows:
                rows = self._limits[capacity] = fitting
            self._cache = cache = forward.make_cache(self.weights, rows, capacity)
            self._state = state = State(rows, tokens, self.weights.device)
        elif state.most_tokens < tokens:
            self._graphs.clear()
            self._state = state = State(cache.slots, tokens, self.weights.device)
        state.begin(stops)
        return rows

    def _made(self) -> tuple[forward.Cache, State]:
        assert self._cache is not None, "nothing was prepared"
        assert self._state is not None
        return self._cache, self._state

    def _fitting(self, rows: int, capacity: int) -> int:
        """Fewer slots where the memory does not hold the cache of as many."""
        on_gpu = self.weights.device.type == "cuda"
        free = torch.cuda.mem_get_info(self.weights.device)[0] if on_gpu else machine.available_bytes()
        room = math.inf if free is None else _MEMORY_SHARE * free
        while rows > 1 and forward.cache_bytes(self.weights, rows, capacity) > room:
            rows //= 2
        return rows

    @torch.no_grad()
    def _admit(self, requests: Sequence[Request], waiting: deque[int], free: list[int], busy: dict[int, _Slot]) -> None:
        """Reads the next prompts into free slots, equal prompts once, and draws their first tokens."""
        by_prompt: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        now = time.monotonic()
        for slot in free[: len(waiting)]:
            index = waiting.popleft()
            busy[slot] = _Slot(index, now)
            by_prompt.setdefault(requests[index].prompt, []).append((slot, index))
        group: list[tuple[int, ...]] = []
        for prompt in sorted(by_prompt, key=len):
            # Sorted: the newest is the longest, and the others are padded to it.
            if group and (len(group) + 1) * len(prompt) > self.prefill_tokens:
                self._read(requests, group, by_prompt)
                group = []
            group.append(prompt)
        self._read(requests, group, by_prompt)

    def _read(
        self,
        requests: Sequence[Request],
        prompts: list[tuple[int, ...]],
        by_prompt: dict[tuple[int, ...], list[tuple[int, int]]],
    ) -> None:
        cache, state = self._made()
        device = self.weights.device
        padding = _LEAST_PADDING if self._graphed else 1
        longest = -(-len(prompts[-1]) // padding) * padding
        tokens = torch.zeros((len(prompts), longest), dtype=torch.int64)
        for row, prompt in enumerate(prompts):
            tokens[row, : len(prompt)] = torch.tensor(prompt)
        lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
        places = [(row, *place) for row, prompt in enumerate(prompts) for place in by_prompt[prompt]]
        rows = torch.tensor([row for row, _, _ in places], device=device)
        slots = torch.tensor([slot for _, slot, _ in places], device=device)
        logits = forward.prefill(self.weights, self.ops, cache, tokens.to(device), lengths, rows, slots)
        state.admit(slots, [requests[index] for _, _, index in places])
        state.draw(self.ops, slots, logits)

    def _compact(self, rows: int, busy: dict[int, _Slot]) -> int:
        """Moves the busy slots to the front and returns the smallest batch that holds them."""
        cache, state = self._made()
        old = sorted(busy)
        order = torch.tensor(old, device=self.weights.device)
        with torch.no_grad():
            for tensor in (cache.keys, cache.values):
                for layer in tensor:
                    layer[: len(old)] = layer[order]
            state.gather(order)
        moved = [busy.pop(slot) for slot in old]
        busy.update(enumerate(moved))
        return 1 << (len(old) - 1).bit_length()

    @torch.no_grad()
    def _steps(self, rows: int) -> None:
        if self._graphed and rows not in self._graphs:
            self._graphs[rows] = self._captured(rows)
        for _ in range(self.stride):
            if self._graphed:
                self._graphs[rows].replay()
            else:
                self._step(rows)

    def _step(self, rows: int) -> None:
        cache, state = self._made()
        all_rows = slice(0, rows)
        # A sequence's last token is never put into the cache, so its last entry is nobody's.
        positions, counts = state.positions(all_rows, cache.capacity - 1)
        logits = forward.step(self.weights, self.ops, cache, state.token[all_rows], positions, counts)
        state.consumed(all_rows)
        state.draw(self.ops, all_rows, logits)

    def _captured(self, rows: int) -> Any:
        """The step as a CUDA graph. With every slot said to be done, trying it out changes nothing of them."""
        _, state = self._made()
        done = state.done.clone()
        state.done.fill_(True)
        cuda: Any = torch.cuda
        aside = cuda.Stream(self.weights.device)
        aside.wait_stream(torch.cuda.current_stream(self.weights.device))
        with torch.cuda.stream(aside):
            for _ in range(3):
                self._step(rows)
        torch.cuda.current_stream(self.weights.device).wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step(rows)
        state.done.copy_(done)
        return graph

    def _ended(self, busy: dict[int, _Slot], timeout_s: float | None) -> list[Result]:
        """The answers that are done or have had their time; their slots are free again."""
        _, state = self._made()
        now = time.monotonic()
        done = state.done.tolist()
        late = {slot for slot, one in busy.items() if timeout_s is not None and now - one.started > timeout_s}
        ended = [slot for slot in busy if done[slot] or slot in late]
        if not ended:
            return []
        slots = torch.tensor(ended, device=self.weights.device)
        state.done[slots] = True
        counts = state.count[slots].tolist()
        most = max(counts)
        tokens, logprobs = state.tokens[slots, :most].tolist(), state.logprobs[slots, :most].tolist()
        stops = set(state.stops.tolist())
        results = []
        for slot, count, words, chances in zip(ended, counts, tokens, logprobs, strict=True):
            reason = Reason.STOP if words[count - 1] in stops else Reason.LENGTH if done[slot] else Reason.TIME
            results.append(Result(busy.pop(slot).index, tuple(words[:count]), tuple(chances[:count]), reason))
        return results


def _ops(weights: Weights) -> Ops:
    width = weights.geometry.width
    # The kernels take heads of these widths; others run in torch, without graphs.
    if weights.device.type == "cuda" and width in (32, 64, 128, 256):
        from autotriton.propose.decoding.triton_ops import TritonOps

        return TritonOps()
    return TorchOps()
