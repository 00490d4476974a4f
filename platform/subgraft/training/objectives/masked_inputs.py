"""The text of masked language modelling: single lines, packed sentences of documents, or pairs of segments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

import numpy as np

from subgraft.base.errors import UserError
from subgraft.config.objectives import MaskedInput, MaskedSettings
from subgraft.data.text.documents import DocumentText
from subgraft.data.text.encoded import Sequences, encode
from subgraft.data.text.packing import PackedSentences, PairSettings, SegmentPairs, doc_sentences, full_sentences
from subgraft.training.objectives.hidden_units import sentences_with_bits
from subgraft.training.objectives.objective import Concatenation, Examples, HeldOut, Request

# [CLS] and [SEP]
AROUND = 2


class InputText(NamedTuple):
    """The tokens between [CLS] and the last [SEP], those between two segments included.

    second: where the second of two segments begins.  follows: whether it follows the first.
    """

    tokens: list[int]
    second: int | None = None
    follows: bool = False


class Whole:
    """Inputs of one text each: single lines, or blocks of sentences. lengths: without [CLS] and the last [SEP]."""

    def __init__(self, texts: Sequences | PackedSentences) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    @property
    def lengths(self) -> np.ndarray:
        return self._texts.lengths

    def example(self, index: int, epoch: int) -> InputText:
        del epoch
        return InputText(self._texts[index])


class Paired:
    """Inputs of two segments with a separator between them, drawn as a function of (seeds, epoch, index)."""

    def __init__(self, pairs: SegmentPairs, separator: Sequence[int], seeds: Sequence[int]) -> None:
        self._pairs, self._separator, self._seeds = pairs, list(separator), list(seeds)

    def __len__(self) -> int:
        return len(self._pairs)

    @property
    def lengths(self) -> np.ndarray:
        return self._pairs.lengths + len(self._separator)

    def example(self, index: int, epoch: int) -> InputText:
        first, second, follows = self._pairs.pair(index, np.random.default_rng([*self._seeds, epoch, index]))
        opening = [*first, *self._separator]
        return InputText([*opening, *second], len(opening), follows)


def inputs_of(settings: MaskedSettings, request: Request) -> Examples[InputText]:
    """The configured inputs of a corpus. Raises UserError for one that has no such text."""
    tokenizer, limit = request.bundle.encoder, request.training.max_length
    packed = sentences_with_bits(settings, request) if hides_units(settings, request) else None
    if settings.input == "sentences" and packed is not None:
        return Concatenation([Whole(sentences.cut(limit - AROUND)) for sentences in packed])
    if settings.input == "sentences":
        size = settings.sentences_per_document
        lines = [text for _, lines in request.texts() for text in _lines(list(lines), size)]
        return Whole(encode(lines, tokenizer).sequences.cut(limit - AROUND))
    return Concatenation(list(inputs_of_documents(settings, request, packed)))


def inputs_of_documents(
    settings: MaskedSettings, request: Request, packed: Iterable[Sequences] | None = None
) -> Iterator[Examples[InputText]]:
    """The configured inputs of each text of a corpus with documents. packed: their tokens, if they are known.

    Raises UserError for a text that has no such inputs.
    """
    return (_FORMS[settings.input](asked) for asked in _asked(settings, request, packed))


def blocks_of_documents(settings: MaskedSettings, request: Request) -> tuple[Examples[InputText], np.ndarray]:
    """The input doc-sentences, with the first block of each document, and the end of the last [D + 1]."""
    packed = sentences_with_bits(settings, request) if hides_units(settings, request) else None
    parts, starts = list[Whole](), [np.zeros(1, dtype=np.int64)]
    for asked in _asked(settings, request, packed):
        blocks = doc_sentences(asked.sentences, asked.text, asked.room)
        parts.append(Whole(blocks))
        starts.append(starts[-1][-1] + blocks.first_blocks(asked.text.starts)[1:])
    return Concatenation(parts), np.concatenate(starts)


def hides_units(settings: MaskedSettings, request: Request) -> bool:
    """Whether words, phrases or entities are hidden as a whole: not in dev text, of which no token is predicted."""
    return bool(settings.units) and not isinstance(request, HeldOut)


class _Asked(NamedTuple):
    """The text of one language, its number among the corpus's, how it is read, and its tokens, if they are known."""

    text: DocumentText
    number: int
    settings: MaskedSettings
    request: Request
    known: Sequences | None

    @property
    def sentences(self) -> Sequences:
        return self.known or encode(self.text.lines, self.request.bundle.encoder).sequences

    @property
    def room(self) -> int:
        return self.request.training.max_length - AROUND


def _asked(settings: MaskedSettings, request: Request, packed: Iterable[Sequences] | None) -> Iterator[_Asked]:
    """Each language's text by documents. packed: their tokens, if they are known."""
    texts, known = enumerate(request.documents()), repeat(None) if packed is None else packed
    for (number, text), own in zip(texts, known, strict=False):
        yield _Asked(text, number, settings, request, own)


def _pairs(asked: _Asked, short: float = 0.0, sentences: int | None = None) -> Paired:
    request = asked.request
    separator = request.bundle.input_layout().separator
    room = asked.room - len(separator)
    if room < 2:
        what = f"a max_length of {request.training.max_length} leaves no room for two segments"
        raise UserError(what, hint="Raise the training's max_length.")
    pairs = SegmentPairs(asked.sentences, asked.text, PairSettings(room, short, sentences), request.seed)
    return Paired(pairs, separator, [request.seed, asked.number])


def _segments(asked: _Asked) -> Paired:
    return _pairs(asked, asked.settings.short_inputs)


def _two_sentences(asked: _Asked) -> Paired:
    return _pairs(asked, sentences=2)


def _full(asked: _Asked) -> Whole:
    separator = asked.request.bundle.encoder.special["eos"]
    return Whole(full_sentences(asked.sentences, asked.text, asked.room, separator))


def _doc(asked: _Asked) -> Whole:
    return Whole(doc_sentences(asked.sentences, asked.text, asked.room))


_FORMS: Mapping[MaskedInput, Callable[[_Asked], Examples[InputText]]] = {
    "segment-pair": _segments,
    "sentence-pair": _two_sentences,
    "full-sentences": _full,
    "doc-sentences": _doc,
}


def _lines(lines: Sequence[str], size: int) -> Iterator[str]:
    """`size` single lines and one line of `size` joined ones, in turn."""
    for at in range(0, len(lines), size):
        together = lines[at : at + size]
        if (at // size) % 2:
            yield " ".join(together)
        else:
            yield from together
