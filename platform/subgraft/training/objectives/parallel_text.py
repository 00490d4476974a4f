"""Examples of parallel text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from subgraft.data.text.encoded import encode
from subgraft.data.text.segments import sides
from subgraft.modeling.families import SequenceFormat
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.seq2seq import Example
from subgraft.training.objectives.subword_regularization import Sampling, Subwords


class Translation:
    """Examples of a parallel corpus in the sequence format of the model's family, truncated to max_length tokens.

    With `sampling`, text is segmented again in every epoch; lengths, and so batches, are those of the plain
    segmentation.

    cut: number of truncated pairs. It depends on the vocabulary, so records should include it.
    """

    def __init__(
        self,
        pairs: Sequence[tuple[str, str]],
        source: Tokenizer,
        target: Tokenizer,
        sequence_format: SequenceFormat,
        max_length: int,
        batch_unit: Literal["tokens", "characters"] = "tokens",
        sampling: Sampling | None = None,
    ) -> None:
        room = max_length - sequence_format.around
        texts = sides(pairs)
        sources, targets = encode(texts[0], source), encode(texts[1], target)
        self.cut = int((sources.sequences.longer(targets.sequences) > room).sum())
        plain = sources.sequences.cut(room), targets.sequences.cut(room)
        self._sources, self._targets = (Subwords(sequences) for sequences in plain)
        if sampling is not None:
            self._sources = sampling.of("encoder", texts[0], source, plain[0], room)
            self._targets = sampling.of("decoder", texts[1], target, plain[1], room)
        self._plain, self._characters = plain, (sources.characters, targets.characters)
        self._batch_unit, self._sequence_format = batch_unit, sequence_format

    def __len__(self) -> int:
        return len(self._plain[1])

    @property
    def lengths(self) -> np.ndarray:
        """The cost of each pair [n], computed on access, because batch plans may keep it in a file."""
        sources, targets = self._plain
        by_characters = self._batch_unit == "characters"
        lengths: np.ndarray = np.maximum(*self._characters) if by_characters else sources.longer(targets)
        lengths += 1
        return lengths

    @property
    def whole_targets(self) -> np.ndarray:
        """Which pairs have a complete target, not truncated [n]."""
        return self._plain[1].whole

    def example(self, index: int, epoch: int) -> Example:
        source, target = self._sources.at(index, epoch), self._targets.at(index, epoch)
        return Example.of(source, target, self._sequence_format)
