"""Translation of the sentences of documents one by one, each read with those before it (Miculicich et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from torch import Tensor

from subgraft.base.errors import UserError
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import SequenceFormat, family_of
from subgraft.modeling.inference.search import AT_ONCE, Progress, is_blank
from subgraft.modeling.inference.translate import Translator


def reads_context(bundle: Bundle) -> bool:
    """Whether the model reads the sentences before a sentence."""
    return getattr(bundle.model.config, "context_sentences", None) is not None


def context_sentences(bundle: Bundle) -> int:
    """How many sentences before a sentence the model reads. Raises UserError for a model that reads none."""
    if not reads_context(bundle):
        raise UserError(f"this {family_of(bundle.model).model_type} model reads no sentences before")
    return int(bundle.model.config.context_sentences)


def in_context(sentences: Sequence[str], place: int, most: int) -> str:
    """The text of several lines that `ContextTranslator` takes: sentences before one, and this one."""
    return "\n".join(sentences[max(0, place - most) : place + 1])


class ContextTranslator(Translator):
    """Translates the last line of each text; the lines before it are sentences before it in the document.

    The limit of an output is by the bytes of its own sentence.
    """

    def __init__(self, bundle: Bundle, form: SequenceFormat, **search: Any) -> None:
        """search: as in `Translator`, without the tokenizers, format and positions, which are those of the bundle.

        Raises UserError for a model without context.
        """
        positions = bundle.max_positions
        super().__init__(bundle.model, bundle.encoder, bundle.decoder, form, **search, max_positions=positions)
        self._sentences, self._sentence_end = context_sentences(bundle), form.source_ending[-1]

    def translate(
        self, documents: Sequence[Sequence[str]], batch_size: int = AT_ONCE, progress: Progress | None = None
    ) -> list[list[str]]:
        """A translation of each sentence of each document."""
        texts = [in_context(each, place, self._sentences) for each in documents for place in range(len(each))]
        written = iter(self(texts, batch_size, progress))
        return [list(islice(written, len(document))) for document in documents]

    def _encoded(self, texts: Sequence[str]) -> tuple[list[list[int]], list[int]]:
        form = self._sequence_format
        room = self._max_positions - len(form.source_beginning) - len(form.source_ending)
        lines = [self._source.encode_batch(text.split("\n")) for text in texts]
        spoken = [
            place
            for place, (text, ids) in enumerate(zip(texts, lines, strict=True))
            if not is_blank(text.rpartition("\n")[2], ids[-1], self._source)
        ]
        rows = [
            [token for ids in each for token in (*form.source_beginning, *ids[:room], *form.source_ending)]
            for each in lines
        ]
        return rows, spoken

    def _generate(self, sequences: Sequence[list[int]], texts: Sequence[str]) -> Tensor:
        return super()._generate(sequences, [text.rpartition("\n")[2] for text in texts])

    def _padded(self, sequences: Sequence[list[int]], padding: int) -> tuple[Tensor, Tensor]:
        """The mask is 1 for the last sentence of each row alone."""
        rows, mask = super()._padded(sequences, padding)
        for row, tokens in enumerate(sequences):
            ends = [place for place, token in enumerate(tokens[:-1]) if token == self._sentence_end]
            mask[row, : ends[-1] + 1 if ends else 0] = 0
        return rows, mask
