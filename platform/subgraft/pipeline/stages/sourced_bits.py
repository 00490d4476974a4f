"""Bits of texts given their own source and another one: how much a model uses its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from subgraft.base.errors import UserError
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.corpus_views import class_labels
from subgraft.evaluation.metrics.bits_per_character import count_characters
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.conditioning.sources import Sourced
from subgraft.pipeline.stages.artifacts import BITS, CHARACTERS
from subgraft.pipeline.stages.sourced_scores import Scored, Texts, saved
from subgraft.training.context import Context, Json
from subgraft.training.objectives.conditioned import sourced_nats


@dataclass(frozen=True)
class SourcedBits:
    """Bits of lines; a line that does not fit into the model has NaN bits and 0 characters.

    Attributes:
        own, other: Bits of each line [n] given its own source and another one.
        characters: Of each line [n].
    """

    own: NDArray[np.float64]
    other: NDArray[np.float64]
    characters: NDArray[np.float64]

    @classmethod
    def of(cls, bundle: Bundle, texts: Texts, others: Sequence[np.ndarray], context: Context) -> SourcedBits:
        """Measure them; `others` has another line's encoded source for each line. Raises UserError if no line fits."""
        lines = texts.lines
        own = _bits(bundle, lines, texts.sources, texts.separator, context)
        other = _bits(bundle, lines, others, texts.separator, context)
        left_out = np.isnan(own).tolist()
        counts = [0 if out else count_characters([line]) for line, out in zip(lines, left_out, strict=True)]
        return cls(own, other, np.array(counts, dtype=np.float64))

    @property
    def _whole(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.own)

    def figures(self, source: str) -> dict[str, Json]:
        """Means, and the number of lines left out; `source` is the kind of the sources."""
        whole, characters = self._whole, self.characters.sum()
        return {
            "bits_per_character": float(self.own[whole].sum() / characters),
            # How much the source tells of the text: as many bits where a model does not look at it.
            f"bits_per_character_of_another_{source}": float(self.other[whole].sum() / characters),
            "lines_left_out": int((~whole).sum()),
        }

    def saved(self) -> Scored:
        """The bits that a line's own source saves."""
        whole = self._whole
        return saved(self.own[whole], self.other[whole], self.characters[whole])

    def statistics(self) -> Mapping[str, NDArray[np.float64]]:
        """Sentence statistics for resampling, by name; 0 for lines that are left out."""
        return {BITS: np.nan_to_num(self.own), CHARACTERS: self.characters}


def other_sources(given: Sourced, corpus: Corpus) -> Sequence[Any]:
    """For each text a source that is not its own: the class after its class, or the source of a text far from it."""
    if not isinstance(given.sources, list):
        return given.turned(len(given.texts) // 2).sources
    classes = class_labels(corpus).labels
    after = dict(zip(classes, [*classes[1:], *classes[:1]], strict=True))
    return [after.get(label, label) for label in given.sources]


def _bits(
    bundle: Bundle, lines: Sequence[str], sources: Sequence[np.ndarray], separator: int, context: Context
) -> NDArray[np.float64]:
    """Of each line [n]; no number where the model cannot take it whole. Raises UserError where it takes none."""
    bits = np.full(len(lines), np.nan)
    for place, nats in sourced_nats(bundle, lines, sources, separator, context.progress):
        bits[place] = nats.sum() / log(2)
    if np.isnan(bits).all():
        raise UserError(f"no test line fits into the {bundle.max_positions} tokens that the model takes")
    return bits
