"""The length limit of outputs in bytes of text, relative to the source, so that it is the same for every vocabulary.

With a limit in tokens, a repeating output in long subwords would be three times as long as one in short subwords, and
the better vocabulary would look slower.
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
    """The limit of an output in bytes."""
    return ratio * len(source.encode()) + MARGIN


class LengthLimit(StoppingCriteria):
    """Stops outputs that exceed `ratio` times the bytes of their source, plus a margin.

    Args:
        lengths: The bytes of each piece [V].
        sources: The texts of the batch, in order.
        ratio: Bytes of output per byte of source.
        given: The number of prompt tokens, which are not part of the output.
    """

    def __init__(self, lengths: Tensor, sources: Sequence[str], ratio: float, given: int = 0) -> None:
        self._lengths = lengths
        self._given = given
        self._limits = torch.tensor([output_limit(source, ratio) for source in sources], device=lengths.device)

    def __call__(self, input_ids: Tensor, scores: object, **kwargs: Any) -> Tensor:
        """Which of the outputs so far [B x beams, T] must stop; beams of one source are adjacent."""
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
