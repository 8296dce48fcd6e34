"""Which sampler serves a model: our decoder where it knows the architecture, `generate` elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from autotriton.train.sampling import Answer, Finished, PlainSampler, Sampler, Sampling, end_tokens

if TYPE_CHECKING:
    from autotriton.propose.decoding.decoder import Decoder


def sampler_for(model: Any, tokenizer: Any) -> Sampler:
    """The fastest one that supports the model."""
    from autotriton.propose.decoding.weights import unsupported

    return PlainSampler(model, tokenizer) if unsupported(model) else DecoderSampler(model, tokenizer)


class DecoderSampler:
    """Samples from the weights as they are at each call; between calls the memory is the trainer's."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._model = model
        self._stops = sorted(end_tokens(model, tokenizer))
        self._decoder: Decoder | None = None

    def sample(self, prompts: Sequence[Sequence[int]], how: Sampling, finished: Finished) -> None:
        from autotriton.propose.decoding.records import Request

        requests = [
            Request(tuple(prompt), how.max_tokens, seed=how.seed + index, temperature=how.temperature, top_p=how.top_p)
            for index, prompt in enumerate(prompts)
        ]
        decoder = self._refreshed()
        for result in decoder.decode(requests, self._stops):
            finished(result.index, Answer(list(result.tokens), list(result.logprobs)))
        decoder.release()

    def _refreshed(self) -> Decoder:
        from autotriton.propose.decoding.decoder import Decoder

        if self._decoder is None:
            self._decoder = Decoder(self._model)
        else:
            self._decoder.refresh()
        return self._decoder
