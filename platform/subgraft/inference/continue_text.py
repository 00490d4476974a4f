"""Text that goes on: what a decoder alone writes after a prompt, by greedy or beam search through transformers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from transformers import StoppingCriteriaList

from subgraft.inference.length_limit import LengthLimit, piece_bytes
from subgraft.inference.search import searched
from subgraft.vocabulary.tokenizer import Tokenizer

Progress = Callable[[int, int, str], None]


class Continuer:
    """Continues prompts; the output is in their order, and prompt and output are the whole text together.

    start: the token that stands before every text.  max_length_ratio: bytes of output for each byte of its prompt at
    which it is ended.  max_tokens: likewise, in tokens; None for no such limit.  A prompt that leaves no room for so
    many, or for as many as half of what the model takes, is cut at its beginning.
    cut: how many outputs of the last call did not end of themselves.  seconds: that its search took.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Tokenizer,
        start: int,
        *,
        beam: int,
        max_length_ratio: float,
        max_positions: int,
        max_tokens: int | None = None,
    ) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._start = start
        self._beam = beam
        self._ratio = max_length_ratio
        self._max_positions = max_positions
        self._max_tokens = max_tokens
        self._end = tokenizer.special["eos"]
        self._padding = tokenizer.special.get("pad", self._end)
        self._lengths = piece_bytes(tokenizer)
        self._begin()

    def __call__(self, prompts: Sequence[str], batch_size: int = 32, progress: Progress | None = None) -> list[str]:
        """What follows each prompt. The model is left in evaluation mode."""
        self._model.eval()
        bodies = prompt_bodies(self._tokenizer, prompts, self._max_positions, self._max_tokens)
        order = sorted(range(len(prompts)), key=lambda place: -len(bodies[place]))
        outputs = [""] * len(prompts)
        self._begin()
        for begin in range(0, len(order), batch_size):
            chosen = order[begin : begin + batch_size]
            started = time.perf_counter()
            written = self._generate([bodies[place] for place in chosen], [prompts[place] for place in chosen])
            self.seconds += time.perf_counter() - started
            self.cut += int((written != self._end).all(1).sum())
            for place, tokens in zip(chosen, written.tolist(), strict=True):
                outputs[place] = added_text(self._tokenizer, bodies[place], tokens)
            if progress is not None:
                progress(min(begin + batch_size, len(order)), len(order), "sentences")
        return outputs

    def _begin(self) -> None:
        """What a call counts, before it counts anything."""
        self.cut = 0
        self.seconds = 0.0

    @torch.inference_mode()
    def _generate(self, bodies: Sequence[list[int]], prompts: Sequence[str]) -> Tensor:
        """The tokens behind each prompt [B, T], padded at their end; prompts are padded at their beginning."""
        device = next(self._model.parameters()).device
        self._lengths = self._lengths.to(device)
        longest = 1 + max(map(len, bodies))
        padding = [longest - 1 - len(body) for body in bodies]
        input_ids = torch.tensor(
            [[self._padding] * missing + [self._start, *body] for missing, body in zip(padding, bodies, strict=True)],
            device=device,
        )
        mask = (torch.arange(longest, device=device) >= torch.tensor(padding, device=device)[:, None]).long()
        limit = LengthLimit(self._lengths, prompts, self._ratio, given=longest)
        written = searched(
            self._model,
            input_ids=input_ids,
            attention_mask=mask,
            num_beams=self._beam,
            do_sample=False,
            early_stopping=self._beam > 1,  # greedy search warns that it knows no such thing
            eos_token_id=self._end,
            pad_token_id=self._padding,
            forced_bos_token_id=None,
            forced_eos_token_id=None,
            max_length=min(self._max_positions, longest + (self._max_tokens or self._max_positions)),
            stopping_criteria=StoppingCriteriaList([limit]),
        )
        return written[:, longest:]


def prompt_bodies(
    tokenizer: Tokenizer, prompts: Sequence[str], max_positions: int, max_tokens: int | None
) -> list[list[int]]:
    """Ids of prompts without the token before them, cut at their beginning where they leave too little room."""
    half = max_positions // 2
    room = max_positions - 1 - min(max_tokens or half, half)
    return [tokens[max(0, len(tokens) - room) :] for tokens in tokenizer.encode_batch(prompts)]


def added_text(tokenizer: Tokenizer, given: Sequence[int], written: Sequence[int]) -> str:
    """One line: what the written tokens add to the text of the given ones, the space before a word included."""
    ending = (tokenizer.special["eos"], tokenizer.special.get("pad"))
    ends = (place for place, token in enumerate(written) if token in ending)
    body = written[: next(ends, len(written))]
    prompt, whole = tokenizer.decode(given), tokenizer.decode([*given, *body])
    added = whole[len(prompt) :] if whole.startswith(prompt) else tokenizer.decode(body)
    return "".join(" " if character in "\n\r\v\f\x85\u2028\u2029" else character for character in added)
