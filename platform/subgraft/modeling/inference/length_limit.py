"""When an output has grown too long for its source: a limit in bytes of text, the same for every vocabulary.

A limit in tokens would let long subwords write three times as much as short ones before a repeating output is stopped,
and would so make the better vocabulary look slower.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from transformers import StoppingCriteria

from subgraft.subwords.vocabulary.tokenizer import Tokenizer

# Short sources may be followed by this much more, in bytes.
MARGIN = 30


def piece_bytes(tokenizer: Tokenizer) -> Tensor:
    """UTF-8 bytes that each piece adds to a text [V], the space before a word included; at least one."""
    return torch.tensor(
        [len(entry.surface.encode()) + entry.word_initial if entry is not None else 1 for entry in tokenizer.entries]
    )


def output_limit(source: str, ratio: float) -> float:
    """The bytes at which an output is ended."""
    return ratio * len(source.encode()) + MARGIN


class LengthLimit(StoppingCriteria):
    """Ends outputs of more than `ratio` times the bytes of their source, and a margin.

    lengths: bytes of each piece [V].  sources: the texts of the batch, in order.  given: how many tokens at the
    beginning are no output, as where a prompt is continued.
    """

    def __init__(self, lengths: Tensor, sources: Sequence[str], ratio: float, given: int = 0) -> None:
        self._lengths = lengths
        self._given = given
        self._limits = torch.tensor([output_limit(source, ratio) for source in sources], device=lengths.device)

    def __call__(self, input_ids: Tensor, scores: object, **kwargs: Any) -> Tensor:
        """Which of the outputs so far [B x beams, T] are to end; beams of one source lie side by side."""
        beams = len(input_ids) // len(self._limits)
        # Published tables may have more rows than there are pieces; a row that is no piece counts as the last one.
        pieces = input_ids[:, self._given :].clamp(max=len(self._lengths) - 1)
        return self._lengths[pieces].sum(dim=1) >= self._limits.repeat_interleave(beams)


def allowed(tokens: Sequence[int], lengths: Sequence[int], source: str, ratio: float) -> int:
    """How many of an output's tokens are written before `LengthLimit` ends it; all where it never does.

    For searches that know no such limit and are cut afterwards. lengths: bytes of each piece.
    """
    limit = output_limit(source, ratio)
    written = accumulate(lengths[min(token, len(lengths) - 1)] for token in tokens)
    return next((place for place, total in enumerate(written, 1) if total >= limit), len(tokens))
