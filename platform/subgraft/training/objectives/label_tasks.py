"""The tasks of ERNIE 2 that predict labels of tokens and of texts (Sun et al., AAAI 2020, section 4.2).

Each makes examples of unlabelled text: a function of (seed, epoch, index). `label_objective` trains their heads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations
from math import factorial
from typing import Any, NamedTuple

import numpy as np

from subgraft.base.errors import UserError
from subgraft.config.ernie_objectives import LabelTaskSettings, PairTaskSettings, ReorderingSettings
from subgraft.data.text.corpus import Corpus, labels_of
from subgraft.data.text.documents import DocumentText, document_blocks
from subgraft.data.text.encoded import Sequences, encode
from subgraft.data.text.units import unit_bits, words
from subgraft.subwords.vocabulary.spelling import chunks
from subgraft.training.objectives.embedding_view import IGNORED
from subgraft.training.objectives.objective import Concatenation, Examples, Request


class LabelExample(NamedTuple):
    """Texts of tokens, without special ones, and labels: of the tokens of the only text, or one."""

    texts: tuple[list[int], ...]
    labels: list[int] | int


class Room(NamedTuple):
    """How long texts may be.

    tokens: of all texts of an example, without special tokens.  between: special tokens between two texts.
    """

    tokens: int
    between: int


class Capitalisation:
    """Lines in lower case; the first token of each word is labelled: 1 for a capital letter, 0 for another."""

    def __init__(self, lines: Sequence[str], request: Request, room: Room) -> None:
        tokens, labels = list[list[int]](), list[list[int]]()
        for chunk in chunks(lines):
            lowered = [_lowered(line) for line in chunk]
            encoded = request.bundle.encoder.encode_with_ends(lowered)
            for line, small, (ids, ends) in zip(chunk, lowered, encoded, strict=True):
                tokens.append(ids)
                labels.append(_capitals(line, small, ends))
        self._tokens, self._labels = (Sequences.of(each).cut(room.tokens) for each in (tokens, labels))
        self.capitals = int((self._labels.flat == 1).sum())

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def lengths(self) -> np.ndarray:
        return self._tokens.lengths

    def example(self, index: int, epoch: int) -> LabelExample:
        del epoch
        return LabelExample((self._tokens[index],), self._labels[index])


def _lowered(line: str) -> str:
    """The line in lower case, with as many characters: a letter that would become several stays."""
    lowered = line.lower()
    if len(lowered) == len(line):
        return lowered
    return "".join(small if len(small := letter.lower()) == 1 else letter for letter in line)


def _capitals(line: str, lowered: str, ends: Sequence[int]) -> list[int]:
    """The label of each token: that of the first token of a word; IGNORED for the others and for words without case."""
    of_character = {place: start for start, end in words(lowered) for place in range(start, end)}
    begins = np.bitwise_and(unit_bits(ends, lowered, (), ()), 1)
    labels = [IGNORED] * len(ends)
    for token, (end, begin) in enumerate(zip(ends, begins.tolist(), strict=True)):
        start = of_character.get(end - 1)
        if begin and start is not None and line[start].lower() != line[start].upper():
            labels[token] = int(line[start].isupper())
    return labels


class DocumentBlocks:
    """Blocks of consecutive sentences of one document. sentences: all of them, none longer than the room."""

    def __init__(self, text: DocumentText, request: Request, room: int) -> None:
        self.sentences = encode(text.lines, request.bundle.encoder).sequences.cut(room)
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
        at = int(np.searchsorted(self._starts, self._bounds[index], side="right")) - 1
        begin, end = self._starts[at : at + 2].tolist()
        return begin, end

    def joined(self, begin: int, end: int) -> list[int]:
        """The tokens of sentences [begin, end)."""
        return [token for sentence in range(begin, end) for token in self.sentences[sentence]]


class Chosen:
    """Some of the blocks of a text."""

    def __init__(self, blocks: DocumentBlocks, suits: Callable[[int], bool]) -> None:
        self._blocks = blocks
        self._places = np.array([place for place in range(len(blocks)) if suits(place)], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._places)

    @property
    def lengths(self) -> np.ndarray:
        return self._blocks.lengths[self._places]


class TokenDocument(Chosen):
    """Blocks of documents that have several: 1 for each token that other blocks of the document have too."""

    def __init__(self, text: DocumentText, request: Request, room: Room) -> None:
        blocks = DocumentBlocks(text, request, room.tokens)
        super().__init__(blocks, lambda place: blocks.block(place) != blocks.document(place))

    def example(self, index: int, epoch: int) -> LabelExample:
        del epoch
        blocks, place = self._blocks, int(self._places[index])
        (begin, end), (first, last) = blocks.block(place), blocks.document(place)
        tokens = blocks.joined(begin, end)
        elsewhere = [*blocks.joined(first, begin), *blocks.joined(end, last)]
        return LabelExample((tokens,), np.isin(tokens, elsewhere).astype(int).tolist())


class Reordering(Chosen):
    """Blocks of several sentences, cut between sentences into a uniform number of segments in a uniform order.

    A text for each segment. The label counts the orders of one segment, of two, and so on, in lexicographic order:
    [0]; [0, 1], [1, 0]; …, where the i-th number is the place of the i-th text in the block.
    """

    def __init__(self, text: DocumentText, request: Request, room: Room, most: int) -> None:
        blocks = DocumentBlocks(text, request, room.tokens - (most - 1) * room.between)
        super().__init__(blocks, lambda place: blocks.block(place)[1] - blocks.block(place)[0] > 1)
        self._most, self._seed = most, request.seed
        self._ranks = {order: rank for n in range(1, most + 1) for rank, order in enumerate(permutations(range(n)))}

    def example(self, index: int, epoch: int) -> LabelExample:
        rng = np.random.default_rng([self._seed, epoch, index])
        begin, end = self._blocks.block(int(self._places[index]))
        count = int(rng.integers(1, min(self._most, end - begin) + 1))
        cuts = np.sort(rng.permutation(end - begin - 1)[: count - 1]) + begin + 1
        bounds = [begin, *cuts.tolist(), end]
        order = tuple(rng.permutation(count).tolist())
        texts = tuple(self._blocks.joined(bounds[place], bounds[place + 1]) for place in order)
        return LabelExample(texts, sum(factorial(n) for n in range(1, count)) + self._ranks[order])


class Distance:
    """A sentence, and one that follows it (0), another one of its document (1), or one of another document (2).

    The label is uniform among those that the sentence can have. Both texts are cut to half of the room.
    """

    def __init__(self, text: DocumentText, request: Request, room: Room) -> None:
        half = (room.tokens - room.between) // 2
        self._sentences = encode(text.lines, request.bundle.encoder).sequences.cut(half)
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
        """With the mean of the second text's tokens, which differ from epoch to epoch."""
        lengths = self._sentences.lengths
        longer: np.ndarray = lengths + self._between + round(float(lengths.mean()))
        return longer

    def example(self, index: int, epoch: int) -> LabelExample:
        rng = np.random.default_rng([self._seed, epoch, index])
        at = int(np.searchsorted(self._starts, index, side="right")) - 1
        begin, end = self._starts[at : at + 2].tolist()
        before, after = max(0, index - 1 - begin), max(0, end - index - 2)  # sentences that are not neighbours
        possible = [label for label, there in ((0, index + 1 < end), (1, before + after > 0), (2, True)) if there]
        label = possible[int(rng.integers(len(possible)))]
        if label == 0:
            second = index + 1
        elif label == 1:
            drawn = int(rng.integers(before + after))
            second = begin + drawn if drawn < before else index + 2 + drawn - before
        else:
            second = int(rng.integers(len(self._sentences)))
            while self._documents[second] == self._documents[index]:
                second = int(rng.integers(len(self._sentences)))
        return LabelExample((self._sentences[index], self._sentences[second]), label)


class LabelledPairs:
    """Pairs of texts with the places of their classes among the labels; of a pair that is too long, both texts are cut
    to half of the room."""

    def __init__(self, corpus: Corpus, request: Request, room: Room) -> None:
        size = room.tokens - room.between
        sides = [encode(corpus.text("train", name), request.bundle.encoder).sequences for name in ("source", "target")]
        lengths = sides[0].lengths.astype(np.int64) + sides[1].lengths
        self._whole, self._halves, self._long = sides, [each.cut(size // 2) for each in sides], lengths > size
        places = {label: place for place, label in enumerate(labels_of(corpus))}
        self._labels = [places[label] for label in corpus.lines("train", "label")]
        self.lengths: np.ndarray = np.minimum(lengths, size) + room.between

    def __len__(self) -> int:
        return len(self._labels)

    def example(self, index: int, epoch: int) -> LabelExample:
        del epoch
        first, second = self._halves if self._long[index] else self._whole
        return LabelExample((first[index], second[index]), self._labels[index])


Source = Examples[LabelExample]


def _of_lines(settings: LabelTaskSettings, request: Request, room: Room) -> Iterator[Source]:
    """Raises UserError for text without capital letters."""
    parts = [Capitalisation(list(lines), request, room) for _, lines in request.texts()]
    if not any(part.capitals for part in parts):
        raise UserError(
            f"no word is capitalised, and the objective {settings.kind} learns which ones are",
            where=str(request.corpus.directory),
            hint=f"Leave out {settings.kind} in upstream.objectives, or give text that is not in lower case.",
        )
    return iter(parts)


def _of_documents(make: Callable[..., Source]) -> Callable[[Any, Request, Room], Iterator[Source]]:
    def sources(settings: LabelTaskSettings, request: Request, room: Room) -> Iterator[Source]:
        further = (settings.segments,) if isinstance(settings, ReorderingSettings) else ()
        return (make(text, request, room, *further) for text in request.documents())

    return sources


def _of_pairs(settings: PairTaskSettings, request: Request, room: Room) -> Iterator[Source]:
    return iter([LabelledPairs(request.further[settings.kind], request, room)])


def task_labels(settings: LabelTaskSettings, request: Request) -> tuple[str, ...]:
    """The classes of a task: its own, or those of its corpus."""
    is_pairs = isinstance(settings, PairTaskSettings)
    return labels_of(request.further[settings.kind]) if is_pairs else settings.labels


SOURCES: Mapping[str, Callable[[Any, Request, Room], Iterator[Source]]] = {
    "capitalisation": _of_lines,
    "token-document": _of_documents(TokenDocument),
    "sentence-reordering": _of_documents(Reordering),
    "sentence-distance": _of_documents(Distance),
    "discourse-relation": _of_pairs,
    "relevance": _of_pairs,
}


def examples_of(settings: LabelTaskSettings, request: Request, room: Room) -> Source:
    """The examples of a task from all texts of a corpus.

    Raises UserError for a corpus without documents, where the task needs them, and for text without examples.
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
