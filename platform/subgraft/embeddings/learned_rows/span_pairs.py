"""Sentences in two segmentations, divided into the smallest spans on which both agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from subgraft.config.corpora import Languages
from subgraft.config.training import TrainingSettings
from subgraft.embeddings.learned_rows.segmentation_pairs import SegmentedText, Sentence
from subgraft.modeling.bundle import Bundle
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.seq2seq import Seq2SeqBatch


@dataclass(frozen=True)
class SpanBatch:
    """Sentences in the decoder's old vocabulary (teacher) and its new one (student), with n spans.

    Spans are in the order of the sentences and cover all labels; each special token is a span of its own.

    Attributes:
        teacher: the batch in the old vocabulary.
        student: the batch in the new vocabulary.
        before: int64 [n], the teacher's labels of each span.
        after: int64 [n], the student's labels of each span.
        known: bool [n], spans without unknown tokens in either segmentation.
        inner: bool [n], spans that are followed by more text.
    """

    teacher: Seq2SeqBatch
    student: Seq2SeqBatch
    before: Tensor
    after: Tensor
    known: Tensor
    inner: Tensor

    @property
    def counts(self) -> dict[str, int]:
        return {"matching": int(self.known.sum())}

    @property
    def shape(self) -> tuple[int, int]:
        return max(self.teacher.shape, self.student.shape)

    def to(self, device: torch.device | str) -> SpanBatch:
        return SpanBatch(*(getattr(self, field.name).to(device) for field in fields(self)))


class _Span(NamedTuple):
    before: int
    after: int
    known: bool
    inner: bool


class SpanPairs(SegmentedText):
    """Batches of spans of the decoder's text. Sentences are selected as for Token Distillation."""

    def __init__(
        self,
        pairs: Sequence[tuple[str, str]],
        bundle: Bundle,
        target: Tokenizer,
        languages: Languages,
        training: TrainingSettings,
        new: Sequence[int],
        per_token: int | None = None,
        seed: int = 0,
        beside: Sequence[tuple[str, str]] = (),
    ) -> None:
        super().__init__(pairs, bundle, "decoder", target, languages, training, new, per_token, seed, beside)
        self._unknown = bundle.decoder.special.get("unk", -1), target.special.get("unk", -1)

    def _places(self, before: int, after: list[int], meeting: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The last labels of spans; empty for a sentence without new tokens."""
        if self._new.isdisjoint(after):
            return []
        return meeting + [(before + i, len(after) + i) for i in range(len(self._before.target_ending))]

    def _spans(self, sentence: Sentence) -> list[_Span]:
        # What every target begins with is a label too.
        spans, one, two = [_Span(1, 1, True, True)] * self._before.target_begins, 0, 0
        for last_before, last_after in sentence.meeting:
            first, second = sentence.before[one : last_before + 1], sentence.after[two : last_after + 1]
            known = self._unknown[0] not in first and self._unknown[1] not in second
            inner = last_before < len(sentence.before)
            spans.append(_Span(last_before + 1 - one, last_after + 1 - two, known, inner))
            one, two = last_before + 1, last_after + 1
        return spans

    @property
    def spans(self) -> tuple[int, int]:
        """The number of spans, and of those with unknown tokens, whose likelihood is not that of their text."""
        known = [span.known for sentence in self._sentences for span in self._spans(sentence)]
        return len(known), known.count(False)

    def batch(self, indices: np.ndarray, epoch: int) -> SpanBatch:
        """The sentences at `indices`, the same in every epoch."""
        del epoch
        sentences = [self._sentences[int(i)] for i in indices]
        spans = [span for sentence in sentences for span in self._spans(sentence)]
        before, after, known, inner = (torch.tensor(column) for column in zip(*spans, strict=True))
        return SpanBatch(*self._both(sentences), before, after, known, inner)
