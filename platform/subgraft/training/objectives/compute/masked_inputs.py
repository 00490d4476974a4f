"""The text of masked language modelling: single lines, packed sentences of documents, or pairs of segments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

import numpy as np

from subgraft.base.errors import UserError
from subgraft.data.text.documents import DocumentText
from subgraft.data.text.encoded import Sequences, encode
from subgraft.data.text.packing import PackedSentences, PairSettings, SegmentPairs, doc_sentences, full_sentences
from subgraft.training.objectives.compute.hidden_units import sentences_with_bits
from subgraft.training.objectives.compute.interface import Concatenation, Examples, HeldOut, ObjectiveInputs
from subgraft.training.objectives.masked import MaskedInput, MaskedSettings

# [CLS] and [SEP]
AROUND = 2


class InputText(NamedTuple):
    """The tokens between [CLS] and the last [SEP], including a separator between two segments.

    second: the start of the second segment, if there are two.  follows: whether it follows the first.
    """

    tokens: list[int]
    second: int | None = None
    follows: bool = False


class SingleTexts:
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


class SegmentPairInputs:
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
        first_segment = [*first, *self._separator]
        return InputText([*first_segment, *second], len(first_segment), follows)


def inputs_of(settings: MaskedSettings, request: ObjectiveInputs) -> Examples[InputText]:
    """The configured inputs of a corpus. Raises UserError if the corpus has no such text."""
    tokenizer, limit = request.bundle.encoder, request.training.max_length
    packed = sentences_with_bits(settings, request) if hides_units(settings, request) else None
    if settings.input == "sentences" and packed is not None:
        return Concatenation([SingleTexts(sentences.truncate(limit - AROUND)) for sentences in packed])
    if settings.input == "sentences":
        size = settings.sentences_per_document
        lines = [text for _, lines in request.texts() for text in _lines(list(lines), size)]
        return SingleTexts(encode(lines, tokenizer).sequences.truncate(limit - AROUND))
    return Concatenation(list(inputs_of_documents(settings, request, packed)))


def inputs_of_documents(
    settings: MaskedSettings, request: ObjectiveInputs, packed: Iterable[Sequences] | None = None
) -> Iterator[Examples[InputText]]:
    """The configured inputs of each text of a corpus with documents. packed: the tokens of each text, if known.

    Raises UserError for a text without such inputs.
    """
    return (_FORMS[settings.input](text_request) for text_request in _text_requests(settings, request, packed))


def blocks_of_documents(settings: MaskedSettings, request: ObjectiveInputs) -> tuple[Examples[InputText], np.ndarray]:
    """The input `doc-sentences`, and the first block of each document with the end of the last [D + 1]."""
    packed = sentences_with_bits(settings, request) if hides_units(settings, request) else None
    parts, starts = list[SingleTexts](), [np.zeros(1, dtype=np.int64)]
    for text_request in _text_requests(settings, request, packed):
        blocks = doc_sentences(text_request.sentences, text_request.text, text_request.room)
        parts.append(SingleTexts(blocks))
        starts.append(starts[-1][-1] + blocks.first_blocks(text_request.text.starts)[1:])
    return Concatenation(parts), np.concatenate(starts)


def hides_units(settings: MaskedSettings, request: ObjectiveInputs) -> bool:
    """Whether complete words, phrases or entities are hidden: never in dev text, whose tokens are not predicted."""
    return bool(settings.units) and not isinstance(request, HeldOut)


class _TextRequest(NamedTuple):
    """The text of one language, its index in the corpus, the settings of its inputs, and its tokens, if known."""

    text: DocumentText
    number: int
    settings: MaskedSettings
    request: ObjectiveInputs
    tokens: Sequences | None

    @property
    def sentences(self) -> Sequences:
        return self.tokens or encode(self.text.lines, self.request.bundle.encoder).sequences

    @property
    def room(self) -> int:
        return self.request.training.max_length - AROUND


def _text_requests(
    settings: MaskedSettings, request: ObjectiveInputs, packed: Iterable[Sequences] | None
) -> Iterator[_TextRequest]:
    """The text of each language by documents. packed: the tokens of each text, if known."""
    texts, tokens = enumerate(request.documents()), repeat(None) if packed is None else packed
    for (number, text), tokens_of_text in zip(texts, tokens, strict=False):
        yield _TextRequest(text, number, settings, request, tokens_of_text)


def _pairs(text_request: _TextRequest, short: float = 0.0, sentences: int | None = None) -> SegmentPairInputs:
    request = text_request.request
    separator = request.bundle.input_layout().separator
    room = text_request.room - len(separator)
    if room < 2:
        what = f"a max_length of {request.training.max_length} leaves no room for two segments"
        raise UserError(what, hint="Raise the training's max_length.")
    pairs = SegmentPairs(text_request.sentences, text_request.text, PairSettings(room, short, sentences), request.seed)
    return SegmentPairInputs(pairs, separator, [request.seed, text_request.number])


def _full_sentences(text_request: _TextRequest) -> SingleTexts:
    separator = text_request.request.bundle.encoder.special["eos"]
    return SingleTexts(full_sentences(text_request.sentences, text_request.text, text_request.room, separator))


_FORMS: Mapping[MaskedInput, Callable[[_TextRequest], Examples[InputText]]] = {
    "segment-pair": lambda each: _pairs(each, each.settings.short_inputs),
    "sentence-pair": lambda each: _pairs(each, sentences=2),
    "full-sentences": _full_sentences,
    "doc-sentences": lambda each: SingleTexts(doc_sentences(each.sentences, each.text, each.room)),
}


def _lines(lines: Sequence[str], size: int) -> Iterator[str]:
    """Alternately, `size` single lines, and one line that joins `size` lines."""
    for start in range(0, len(lines), size):
        chunk = lines[start : start + size]
        if (start // size) % 2:
            yield " ".join(chunk)
        else:
            yield from chunk
