"""Translation: the target sentence given the source sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from subgraft.models.conditioning import Conditioning
from subgraft.objectives.seq2seq import Example
from subgraft.text.sequences import Sequences
from subgraft.vocabulary.tokenizer import Tokenizer


class Translation:
    """Examples of a parallel corpus, each side cut at max_length tokens, in the form the model's family expects.

    cut: how many pairs lost something to that limit. It depends on the vocabulary, so a record should tell it.
    """

    def __init__(
        self,
        pairs: Sequence[tuple[str, str]],
        source: Tokenizer,
        target: Tokenizer,
        conditioning: Conditioning,
        max_length: int,
        batch_unit: Literal["tokens", "characters"] = "tokens",
    ) -> None:
        room = max_length - max(len(conditioning.source_ending), len(conditioning.target_ending))
        sources = source.encode_batch([pair[0] for pair in pairs])
        targets = target.encode_batch([pair[1] for pair in pairs])
        self.cut = sum(max(len(s), len(t)) > room for s, t in zip(sources, targets, strict=True))
        self._sources, self._targets = Sequences.of(sources, room), Sequences.of(targets, room)
        self._conditioning = conditioning
        self._lengths = (
            np.array([max(len(s), len(t)) + 1 for s, t in pairs], dtype=np.int64)
            if batch_unit == "characters"
            else np.maximum(self._sources.lengths, self._targets.lengths) + 1
        )

    def __len__(self) -> int:
        return len(self._sources)

    @property
    def lengths(self) -> np.ndarray:
        return self._lengths

    def example(self, index: int, epoch: int) -> Example:
        del epoch  # the same example every time
        source, target, form = self._sources[index], self._targets[index], self._conditioning
        return Example(
            [*source, *form.source_ending], [*target, *form.target_ending], form.start, len(source), len(target)
        )
