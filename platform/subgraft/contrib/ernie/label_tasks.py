"""The tasks of ERNIE 2 that predict labels of tokens and of texts (Sun et al., AAAI 2020, section 4.2).

They make examples from unlabelled text, as a function of (seed, epoch, index). `label_objective` trains their heads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations
from math import factorial
from typing import Any, NamedTuple

import numpy as np

from subgraft.base.errors import UserError
from subgraft.contrib.ernie.objectives import LabelTaskSettings, PairTaskSettings, ReorderingSettings
from subgraft.data.text.corpus import Corpus, labels_of
from subgraft.data.text.documents import DocumentText, document_blocks
from subgraft.data.text.encoded import Sequences, encode
from subgraft.data.text.units import unit_bits, words
from subgraft.subwords.vocabulary.spelling import chunks
from subgraft.training.objectives.compute.embedding_view import IGNORED
from subgraft.training.objectives.compute.interface import Concatenation, Examples, ObjectiveInputs


class LabelExample(NamedTuple):
    """The tokens of one or several texts, without special ones. labels: one per token of a single text, or one."""

    texts: tuple[list[int], ...]
    labels: list[int] | int


class Room(NamedTuple):
    """The available length of an example.

    tokens: the maximum number of tokens of all texts.  between: the number of special tokens between two texts.
    """

    tokens: int
    between: int


class Capitalisation:
    """Lines in lower case, of which the first token of each word is labelled: 1 if the word was capitalised, else 0."""

    def __init__(self, lines: Sequence[str], request: ObjectiveInputs, room: Room) -> None:
        tokens, labels = list[list[int]](), list[list[int]]()
        for chunk in chunks(lines):
            lowered = [_lower_case(line) for line in chunk]
            encoded = request.bundle.encoder.encode_with_ends(lowered)
            for line, small, (ids, ends) in zip(chunk, lowered, encoded, strict=True):
                tokens.append(ids)
                labels.append(_capital_labels(line, small, ends))
        self._tokens, self._labels = (Sequences.of(each).truncate(room.tokens) for each in (tokens, labels))
        self.capitals = int((self._labels.flat == 1).sum())

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def lengths(self) -> np.ndarray:
        return self._tokens.lengths

    def example(self, index: int, epoch: int) -> LabelExample:
        del epoch
        return LabelExample((self._tokens[index],), self._labels[index])


def _lower_case(line: str) -> str:
    """The line in lower case, without change of its length: letters whose lower case is longer are not changed."""
    lowered = line.lower()
    if len(lowered) == len(line):
        return lowered
    return "".join(small if len(small := letter.lower()) == 1 else letter for letter in line)


def _capital_labels(line: str, lowered: str, ends: Sequence[int]) -> list[int]:
    """The label of each token; IGNORED except for the first tokens of words with case."""
    word_of_character = {position: start for start, end in words(lowered) for position in range(start, end)}
    word_starts = np.bitwise_and(unit_bits(ends, lowered, (), ()), 1)
    labels = [IGNORED] * len(ends)
    for token, (end, starts_word) in enumerate(zip(ends, word_starts.tolist(), strict=True)):
        start = word_of_character.get(end - 1)
        if starts_word and start is not None and line[start].lower() != line[start].upper():
            labels[token] = int(line[start].isupper())
    return labels


class DocumentBlocks:
    """Blocks of consecutive sentences of one document. sentences: all sentences, truncated to the length of a block."""

    def __init__(self, text: DocumentText, request: ObjectiveInputs, room: int) -> None:
        self.sentences = encode(text.lines, request.bundle.encoder).sequences.truncate(room)
        self._bounds = document_blocks(self.sentences.lengths, text.starts, room)
        self._starts = text.starts
        total = np.concatenate([[0], np.cumsum(self.sentences.lengths, dtype=np.int64)])
        self.lengths: np.ndarray = np.diff(total[self._bounds])

    def __len__(self) -> int:
        return len(self.lengths)

    def block(self, index: int) -> tuple[int, int]:
        """The sentences [begin, end) of a block."""
        begin, end = self._bounds[index : index + 2].tolist()
        return begin, end

    def document(self, index: int) -> tuple[int, int]:
        """The sentences of the document of a block."""
        document = int(np.searchsorted(self._starts, self._bounds[index], side="right")) - 1
        begin, end = self._starts[document : document + 2].tolist()
        return begin, end

    def joined(self, begin: int, end: int) -> list[int]:
        """The tokens of sentences [begin, end)."""
        return [token for sentence in range(begin, end) for token in self.sentences[sentence]]


class SelectedBlocks:
    """The blocks of a text for which `is_selected` returns True."""

    def __init__(self, blocks: DocumentBlocks, is_selected: Callable[[int], bool]) -> None:
        self._blocks = blocks
        self._indices = np.array([index for index in range(len(blocks)) if is_selected(index)], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._indices)

    @property
    def lengths(self) -> np.ndarray:
        return self._blocks.lengths[self._indices]


class TokenDocument(SelectedBlocks):
    """Blocks of documents with several blocks. A token's label is 1 if it also occurs in other blocks, else 0."""

    def __init__(self, text: DocumentText, request: ObjectiveInputs, room: Room) -> None:
        blocks = DocumentBlocks(text, request, room.tokens)
        super().__init__(blocks, lambda index: blocks.block(index) != blocks.document(index))

    def example(self, index: int, epoch: int) -> LabelExample:
        del epoch
        blocks, block = self._blocks, int(self._indices[index])
        (begin, end), (first, last) = blocks.block(block), blocks.document(block)
        tokens = blocks.joined(begin, end)
        elsewhere = [*blocks.joined(first, begin), *blocks.joined(end, last)]
        return LabelExample((tokens,), np.isin(tokens, elsewhere).astype(int).tolist())


class Reordering(SelectedBlocks):
    """Blocks of several sentences, cut between sentences into segments that are shuffled; each segment is a text.

    The number of segments and their order are uniform. The label is the index of the order in the list of all orders of
    one segment, of two, and so on, in lexicographic order: [0]; [0, 1], [1, 0]; …, where the i-th number is the
    position of the i-th text in the block.
    """

    def __init__(self, text: DocumentText, request: ObjectiveInputs, room: Room, max_segments: int) -> None:
        blocks = DocumentBlocks(text, request, room.tokens - (max_segments - 1) * room.between)
        super().__init__(blocks, lambda index: blocks.block(index)[1] - blocks.block(index)[0] > 1)
        self._max_segments, self._seed = max_segments, request.seed
        self._ranks = {
            order: rank for n in range(1, max_segments + 1) for rank, order in enumerate(permutations(range(n)))
        }

    def example(self, index: int, epoch: int) -> LabelExample:
        rng = np.random.default_rng([self._seed, epoch, index])
        begin, end = self._blocks.block(int(self._indices[index]))
        count = int(rng.integers(1, min(self._max_segments, end - begin) + 1))
        cuts = np.sort(rng.permutation(end - begin - 1)[: count - 1]) + begin + 1
        bounds = [begin, *cuts.tolist(), end]
        order = tuple(rng.permutation(count).tolist())
        texts = tuple(self._blocks.joined(bounds[segment], bounds[segment + 1]) for segment in order)
        return LabelExample(texts, sum(factorial(n) for n in range(1, count)) + self._ranks[order])


class Distance:
    """Pairs of a sentence and the next one (0), another one of its document (1), or one of another document (2).

    The label is uniform among the possible ones. Each text is truncated to half of the available tokens.
    """

    def __init__(self, text: DocumentText, request: ObjectiveInputs, room: Room) -> None:
        half = (room.tokens - room.between) // 2
        self._sentences = encode(text.lines, request.bundle.encoder).sequences.truncate(half)
        self._starts, self._seed, self._between = text.starts, request.seed, room.between
        self._documents = np.repeat(text.documents, np.diff(text.starts))
        if len(np.unique(text.documents)) < 2:
            raise UserError(
                f"the text in '{text.language}' has one document, and sentence-distance needs sentences of several",
                where=str(request.corpus.directory),
                hint="Leave out sentence-distance in upstream.objectives, or give a corpus of several documents.",
            )

    def __len__(self) -> int:
        return len(self._sentences)

    @property
    def lengths(self) -> np.ndarray:
        """The lengths of examples, with the mean length of the second texts, which differ from epoch to epoch."""
        lengths = self._sentences.lengths
        longer: np.ndarray = lengths + self._between + round(float(lengths.mean()))
        return longer

    def example(self, index: int, epoch: int) -> LabelExample:
        rng = np.random.default_rng([self._seed, epoch, index])
        document = int(np.searchsorted(self._starts, index, side="right")) - 1
        begin, end = self._starts[document : document + 2].tolist()
        before, after = max(0, index - 1 - begin), max(0, end - index - 2)  # sentences that are not neighbours
        possible = [
            label for label, is_possible in ((0, index + 1 < end), (1, before + after > 0), (2, True)) if is_possible
        ]
        label = possible[int(rng.integers(len(possible)))]
        if label == 0:
            second = index + 1
        elif label == 1:
            sampled = int(rng.integers(before + after))
            second = begin + sampled if sampled < before else index + 2 + sampled - before
        else:
            second = int(rng.integers(len(self._sentences)))
            while self._documents[second] == self._documents[index]:
                second = int(rng.integers(len(self._sentences)))
        return LabelExample((self._sentences[index], self._sentences[second]), label)


class LabelledPairs:
    """Pairs of texts with the indices of their classes. Both texts of a pair that is too long are truncated to half of
    the available tokens."""

    def __init__(self, corpus: Corpus, request: ObjectiveInputs, room: Room) -> None:
        size = room.tokens - room.between
        sides = [encode(corpus.text("train", name), request.bundle.encoder).sequences for name in ("source", "target")]
        lengths = sides[0].lengths.astype(np.int64) + sides[1].lengths
        self._whole, self._halves, self._long = sides, [side.truncate(size // 2) for side in sides], lengths > size
        ids = {label: number for number, label in enumerate(labels_of(corpus))}
        self._labels = [ids[label] for label in corpus.lines("train", "label")]
        self.lengths: np.ndarray = np.minimum(lengths, size) + room.between

    def __len__(self) -> int:
        return len(self._labels)

    def example(self, index: int, epoch: int) -> LabelExample:
        del epoch
        first, second = self._halves if self._long[index] else self._whole
        return LabelExample((first[index], second[index]), self._labels[index])


Source = Examples[LabelExample]


def _from_lines(settings: LabelTaskSettings, request: ObjectiveInputs, room: Room) -> Iterator[Source]:
    """Raises UserError for text without capital letters."""
    parts = [Capitalisation(list(lines), request, room) for _, lines in request.texts()]
    if not any(part.capitals for part in parts):
        raise UserError(
            f"no word is capitalised, and the objective {settings.kind} learns which ones are",
            where=str(request.corpus.directory),
            hint=f"Leave out {settings.kind} in upstream.objectives, or give text that is not in lower case.",
        )
    return iter(parts)


def _from_documents(make: Callable[..., Source]) -> Callable[[Any, ObjectiveInputs, Room], Iterator[Source]]:
    def sources(settings: LabelTaskSettings, request: ObjectiveInputs, room: Room) -> Iterator[Source]:
        extra = (settings.segments,) if isinstance(settings, ReorderingSettings) else ()
        return (make(text, request, room, *extra) for text in request.documents())

    return sources


def _from_pairs(settings: PairTaskSettings, request: ObjectiveInputs, room: Room) -> Iterator[Source]:
    return iter([LabelledPairs(request.further[settings.kind], request, room)])


def task_labels(settings: LabelTaskSettings, request: ObjectiveInputs) -> tuple[str, ...]:
    """The classes of a task, which its settings or its corpus define."""
    is_pairs = isinstance(settings, PairTaskSettings)
    return labels_of(request.further[settings.kind]) if is_pairs else settings.labels


SOURCES: Mapping[str, Callable[[Any, ObjectiveInputs, Room], Iterator[Source]]] = {
    "capitalisation": _from_lines,
    "token-document": _from_documents(TokenDocument),
    "sentence-reordering": _from_documents(Reordering),
    "sentence-distance": _from_documents(Distance),
    "discourse-relation": _from_pairs,
    "relevance": _from_pairs,
}


def examples_of(settings: LabelTaskSettings, request: ObjectiveInputs, room: Room) -> Source:
    """The examples of a task from all texts of a corpus.

    Raises UserError for a corpus without documents, if the task needs them, and for text without examples.
    """
    parts = list(SOURCES[settings.kind](settings, request, room))
    if not sum(len(part) for part in parts):
        raise UserError(
            f"there is no example of the objective {settings.kind}: no document is longer than a block"
            if settings.kind == "token-document"
            else f"there is no example of the objective {settings.kind}: no block has two sentences",
            where=str(request.corpus.directory),
            hint=f"Choose another pretrain.max_length, or leave out {settings.kind} in upstream.objectives.",
        )
    return Concatenation(parts)
