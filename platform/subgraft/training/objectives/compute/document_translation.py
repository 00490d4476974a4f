"""Document translation: blocks of consecutive pairs of a document (Liu et al., TACL 2020, section 4).

Both sides of a block have the form of pretraining: sentences with a separator between them, and at the end the language
code, at which decoding stops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from torch import nn

from subgraft.config.settings_base import SideName
from subgraft.config.training import FinetuneSettings
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.documents import document_blocks
from subgraft.data.text.encoded import encode
from subgraft.data.text.noise import joined
from subgraft.data.text.segments import sides
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import SequenceFormat
from subgraft.modeling.inference.search import DEFAULT_BATCH_SIZE
from subgraft.modeling.inference.translate_documents import BlockTranslator, block_separator, sentences_of
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.distributed import texts_by_worker
from subgraft.training.objectives.compute.interface import ObjectiveInputs
from subgraft.training.objectives.compute.seq2seq import Example, Seq2SeqData, Seq2SeqLoss
from subgraft.training.objectives.compute.translation import DEV_LENGTH_RATIO, ReferenceScores
from subgraft.training.objectives.translation import DocumentTranslationSettings


class PairedDocuments(NamedTuple):
    """Pairs of sentences. Document d has the pairs starts[d] to starts[d + 1] - 1; starts: [D + 1]."""

    pairs: Sequence[tuple[str, str]]
    starts: np.ndarray

    @classmethod
    def of(cls, corpus: Corpus, split: str, max_pairs: int | None = None) -> PairedDocuments:
        """The documents of a split, or only those that start within its first `max_pairs` pairs.

        Raises UserError for a corpus without documents.
        """
        runs = list(corpus.documents(split))
        runs = runs if max_pairs is None else [run for run in runs if run.start < max_pairs]
        starts = np.array([0, *(run.stop for run in runs)], dtype=np.int64)
        return cls(corpus.text_pairs(split)[: int(starts[-1])], starts)


class Vocabularies(NamedTuple):
    """The vocabularies of both sides, the tokens around a block, and the tokens between its sentences."""

    source: Tokenizer
    target: Tokenizer
    form: SequenceFormat
    separator: tuple[int, ...]

    @classmethod
    def of(cls, bundle: Bundle, request: ObjectiveInputs) -> Vocabularies:
        """Raises UserError for a model that cannot translate blocks."""
        form = bundle.sequence_format(request.languages)
        return cls(bundle.encoder, bundle.decoder, form, block_separator(bundle, form))


class DocumentTranslation:
    """Examples of as many consecutive pairs of a document as fit into the limits of both sides, at least one pair.

    limits: the maximum lengths of a source block and of a target block, in tokens including special ones.

    Attributes:
        truncated: The number of pairs with a truncated sentence, which is longer than a block.
        bounds: The first pair of each block, and the end of the last [n + 1].
        whole_targets: Which blocks have no truncated sentence in their target [n].
    """

    def __init__(
        self,
        documents: PairedDocuments,
        vocabularies: Vocabularies,
        limits: tuple[int, int],
        batch_unit: Literal["tokens", "characters"] = "tokens",
    ) -> None:
        self._form, self._separator = vocabularies.form, vocabularies.separator
        separator_size, body_limits = len(self._separator), [limit - self._form.around for limit in limits]
        texts = sides(documents.pairs)
        sources, targets = encode(texts[0], vocabularies.source), encode(texts[1], vocabularies.target)
        self._sources, self._targets = (
            sources.sequences.truncate(body_limits[0]),
            targets.sequences.truncate(body_limits[1]),
        )
        self.truncated = int((~(self._sources.whole & self._targets.whole)).sum())
        costs = np.stack([self._sources.lengths, self._targets.lengths]).astype(np.int64) + separator_size
        self.bounds = document_blocks(
            costs, documents.starts, [limit_of_side + separator_size for limit_of_side in body_limits]
        )
        self.whole_targets = np.logical_and.reduceat(self._targets.whole, self.bounds[:-1])
        if batch_unit == "characters":
            costs = np.stack([sources.characters, targets.characters]).astype(np.int64)
        self.lengths: np.ndarray = np.add.reduceat(costs, self.bounds[:-1], axis=1).max(axis=0) + 1

    def __len__(self) -> int:
        return len(self.lengths)

    def example(self, index: int, epoch: int) -> Example:
        del epoch
        pairs = range(*self.bounds[index : index + 2].tolist())
        source, target = ([side[pair] for pair in pairs] for side in (self._sources, self._targets))
        return Example.of(joined(source, self._separator), joined(target, self._separator), self._form)


class DevDocuments:
    """The scores of `DevScores`, on blocks of the dev documents that start within the first dev sentences.

    BLEU and chrF score greedy translations, with each block as one segment.
    """

    def __init__(self, bundle: Bundle, request: ObjectiveInputs, training: FinetuneSettings, block_tokens: int) -> None:
        documents = PairedDocuments.of(request.corpus, "dev", training.dev_sentences)
        vocabularies = Vocabularies.of(bundle, request)
        examples = DocumentTranslation(documents, vocabularies, (block_tokens, bundle.max_positions))
        pairs = list(documents.pairs)
        blocks = [pairs[begin:end] for begin, end in zip(examples.bounds[:-1], examples.bounds[1:], strict=True)]
        self._sources = ["\n".join(source for source, _ in block) for block in blocks]
        data, references = Seq2SeqData(examples, *bundle.padding), [[target for _, target in block] for block in blocks]
        target = request.languages.target
        self._scores = ReferenceScores(bundle, data, examples.whole_targets, references, training, target)
        self._scores.require_any_whole()
        self._model, self.lengths = bundle.model, examples.lengths.tolist()
        form = vocabularies.form
        self._translate = BlockTranslator(bundle, form, beam=1, max_length_ratio=DEV_LENGTH_RATIO)

    def __call__(self) -> dict[str, float]:
        return self._scores(self._outputs)

    def _outputs(self) -> list[str]:
        written = texts_by_worker(self._sources, lambda: self.lengths, DEFAULT_BATCH_SIZE, self._translate, self._model)
        return [" ".join(sentences_of(text)) for text in written]


class TaskDocuments(Seq2SeqData):
    """The documents of a finetuning on pairs."""

    def __init__(
        self, settings: DocumentTranslationSettings, request: ObjectiveInputs, training: FinetuneSettings
    ) -> None:
        documents, self._settings = PairedDocuments.of(request.corpus, "train"), settings
        vocabularies = Vocabularies.of(request.bundle, request)
        limits = (settings.block_tokens, training.max_length)
        examples = DocumentTranslation(documents, vocabularies, limits, training.batch_unit)
        super().__init__(examples, *request.bundle.padding)
        self._request, self._training, self.truncated = request, training, examples.truncated
        texts = sides(documents.pairs)
        self.texts: Mapping[SideName, Iterable[str]] = {"encoder": texts[0], "decoder": texts[1]}

    def loss(self, bundle: Bundle) -> nn.Module:
        return Seq2SeqLoss(bundle.model, self._training.label_smoothing)

    def dev_scores(self, bundle: Bundle) -> Callable[[], dict[str, float]]:
        return DevDocuments(bundle, self._request, self._training, self._settings.block_tokens)
