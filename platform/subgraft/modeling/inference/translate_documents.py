"""Translation of documents: in blocks of consecutive sentences, or sentence by sentence with previous ones as context.

Blocks follow Liu et al. (TACL 2020, section 4), context follows Miculicich et al. (2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, pairwise
from typing import Any

import numpy as np
from torch import Tensor

from subgraft.base.errors import UserError
from subgraft.base.progress import ProgressCallback
from subgraft.data.text.encoded import blocks
from subgraft.data.text.noise import joined
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import SequenceFormat, family_of
from subgraft.modeling.families.sequence_format import unsupported_blocks_error
from subgraft.modeling.inference.search import DEFAULT_BATCH_SIZE, is_blank
from subgraft.modeling.inference.translate import Translator


def block_separator(bundle: Bundle, form: SequenceFormat) -> tuple[int, ...]:
    """The tokens between two sentences of a block.

    Raises UserError for a model whose texts end as their sentences do, so that the end of a block is not recognisable.
    """
    separator = family_of(bundle.model).sentence_separator(bundle.decoder)
    if not separator or form.target_ending[-1] in separator:
        raise unsupported_blocks_error(family_of(bundle.model).model_type)
    return separator


class BlockTranslator(Translator):
    """Translates texts of several lines, a sentence in each; outputs have a line for each sentence that is written.

    An output ends at the token after a block, such as an mBART's language code; the token between sentences does not
    end it. Its length is limited by the bytes of the block.
    """

    def __init__(self, bundle: Bundle, form: SequenceFormat, **search: Any) -> None:
        """search: as in `Translator`, without the tokenizers, format and positions, which are those of the bundle.

        Raises UserError for a model that cannot translate blocks.
        """
        positions = bundle.max_positions
        super().__init__(bundle.model, bundle.encoder, bundle.decoder, form, **search, max_positions=positions)
        self._separator = block_separator(bundle, form)
        self._between = family_of(bundle.model).sentence_separator(bundle.encoder)
        self._ends = (form.target_ending[-1],)

    def translate(
        self,
        documents: Sequence[Sequence[str]],
        block_tokens: int,
        batch_size: int = DEFAULT_BATCH_SIZE,
        progress: ProgressCallback | None = None,
    ) -> list[list[str]]:
        """The sentences of each document's translation, in blocks of at most `block_tokens` tokens of the source."""
        blocks_of_documents = [self.blocks(document, block_tokens) for document in documents]
        written = iter(self([block for blocks in blocks_of_documents for block in blocks], batch_size, progress))
        return [
            [sentence for _ in blocks for sentence in sentences_of(next(written))] for blocks in blocks_of_documents
        ]

    def blocks(self, document: Sequence[str], block_tokens: int) -> list[str]:
        """Texts of as many consecutive sentences as fit into `block_tokens`, special tokens included, or one."""
        costs = np.array([len(ids) for ids in self._source.encode_batch(document)]) + len(self._between)
        room = min(block_tokens, self._max_positions) - self._sequence_format.around + len(self._between)
        return ["\n".join(document[begin:end]) for begin, end in pairwise(blocks(costs, room).tolist())]

    def _encode_sources(self, texts: Sequence[str]) -> tuple[list[list[int]], list[int]]:
        form = self._sequence_format
        room = self._max_positions - len(form.source_beginning) - len(form.source_ending)
        sentences = [self._source.encode_batch(text.split("\n")) for text in texts]
        bodies = [joined(each, self._between)[:room] for each in sentences]
        tokens_of_texts = [[token for sentence in each for token in sentence] for each in sentences]
        non_blank = [
            index for index, text in enumerate(texts) if not is_blank(text, tokens_of_texts[index], self._source)
        ]
        return [[*form.source_beginning, *body, *form.source_ending] for body in bodies], non_blank

    def _text(self, tokens: list[int]) -> str:
        """The sentences of an output, a line each; a separator after the last one is optional."""
        body, size, sentences, begin = self._body(tokens), len(self._separator), list[tuple[int, ...]](), 0
        for position in range(len(body) - size + 1):
            if position >= begin and body[position : position + size] == self._separator:
                sentences.append(body[begin:position])
                begin = position + size
        if begin < len(body):
            sentences.append(body[begin:])
        return "\n".join(super(BlockTranslator, self)._text(list(each)) for each in sentences)


def sentences_of(text: str) -> list[str]:
    """The lines of a block; none of an empty one."""
    return text.split("\n") if text else []


def reads_context(bundle: Bundle) -> bool:
    """Whether the model reads previous sentences as context."""
    return getattr(bundle.model.config, "context_sentences", None) is not None


def context_sentences(bundle: Bundle) -> int:
    """The number of previous sentences that the model reads. Raises UserError for a model without context."""
    if not reads_context(bundle):
        raise UserError(f"this {family_of(bundle.model).model_type} model reads no sentences before")
    return int(bundle.model.config.context_sentences)


def in_context(sentences: Sequence[str], index: int, max_context: int) -> str:
    """An input of `ContextTranslator`: up to `max_context` previous sentences and the sentence itself, as lines."""
    return "\n".join(sentences[max(0, index - max_context) : index + 1])


class ContextTranslator(Translator):
    """Translates the last line of each text, in the context of the lines before it.

    The length of an output is limited by the bytes of the last line.
    """

    def __init__(self, bundle: Bundle, form: SequenceFormat, **search: Any) -> None:
        """search: as in `Translator`, without the tokenizers, format and positions, which are those of the bundle.

        Raises UserError for a model without context.
        """
        positions = bundle.max_positions
        super().__init__(bundle.model, bundle.encoder, bundle.decoder, form, **search, max_positions=positions)
        self._sentences, self._sentence_end = context_sentences(bundle), form.source_ending[-1]

    def translate(
        self,
        documents: Sequence[Sequence[str]],
        batch_size: int = DEFAULT_BATCH_SIZE,
        progress: ProgressCallback | None = None,
    ) -> list[list[str]]:
        """A translation of each sentence of each document."""
        texts = [in_context(each, index, self._sentences) for each in documents for index in range(len(each))]
        written = iter(self(texts, batch_size, progress))
        return [list(islice(written, len(document))) for document in documents]

    def _encode_sources(self, texts: Sequence[str]) -> tuple[list[list[int]], list[int]]:
        form = self._sequence_format
        room = self._max_positions - len(form.source_beginning) - len(form.source_ending)
        lines = [self._source.encode_batch(text.split("\n")) for text in texts]
        non_blank = [
            index
            for index, (text, ids) in enumerate(zip(texts, lines, strict=True))
            if not is_blank(text.rpartition("\n")[2], ids[-1], self._source)
        ]
        rows = [
            [token for ids in each for token in (*form.source_beginning, *ids[:room], *form.source_ending)]
            for each in lines
        ]
        return rows, non_blank

    def _generate(self, sequences: Sequence[list[int]], texts: Sequence[str]) -> Tensor:
        return super()._generate(sequences, [text.rpartition("\n")[2] for text in texts])

    def _padded(self, sequences: Sequence[list[int]], padding: int) -> tuple[Tensor, Tensor]:
        """Padded rows, with a mask that is 1 only for the last sentence of each row."""
        rows, mask = super()._padded(sequences, padding)
        for row, tokens in enumerate(sequences):
            ends = [position for position, token in enumerate(tokens[:-1]) if token == self._sentence_end]
            mask[row, : ends[-1] + 1 if ends else 0] = 0
        return rows, mask
