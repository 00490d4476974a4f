"""Translation of sentences in the context of the sentences before them (Miculicich et al., EMNLP 2018)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from torch import nn

from subgraft.config.settings_base import SideName
from subgraft.config.training import FinetuneSettings
from subgraft.contrib.context.objective import ContextTranslationSettings
from subgraft.data.text.segments import sides
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.inference.search import DEFAULT_BATCH_SIZE
from subgraft.modeling.inference.translate_documents import ContextTranslator, context_sentences, in_context
from subgraft.training.objectives.compute.distributed import texts_by_worker
from subgraft.training.objectives.compute.document_translation import PairedDocuments
from subgraft.training.objectives.compute.interface import ObjectiveInputs, pad_with_mask
from subgraft.training.objectives.compute.seq2seq import Example, Seq2SeqBatch, Seq2SeqData, Seq2SeqLoss, collate
from subgraft.training.objectives.compute.translation import DEV_LENGTH_RATIO, ReferenceScores, Translation


@dataclass(frozen=True)
class ContextExample(Example):
    """An example with context: the tokens of the source sentences before it, each with its special tokens."""

    context: list[int] = field(default_factory=list)


class ContextTranslation:
    """Pairs of documents. Each source is read with up to `sentences` sentences before it in the same document.

    The context does not count in the cost of an example, so batches have the same pairs as without context.
    """

    def __init__(
        self,
        documents: PairedDocuments,
        bundle: Bundle,
        request: ObjectiveInputs,
        max_length: int,
        batch_unit: Literal["tokens", "characters"] = "tokens",
    ) -> None:
        form = bundle.sequence_format(request.languages)
        self._pairs = Translation(documents.pairs, bundle.encoder, bundle.decoder, form, max_length, batch_unit)
        self._document_starts = np.repeat(documents.starts[:-1], np.diff(documents.starts))
        self._sentences = context_sentences(bundle)
        self.truncated, self.whole_targets = self._pairs.truncated, self._pairs.whole_targets

    def __len__(self) -> int:
        return len(self._pairs)

    @property
    def lengths(self) -> np.ndarray:
        return self._pairs.lengths

    def example(self, index: int, epoch: int) -> ContextExample:
        pair = self._pairs.example(index, epoch)
        before = range(max(int(self._document_starts[index]), index - self._sentences), index)
        context = [token for position in before for token in self._pairs.example(position, epoch).source]
        return ContextExample(**vars(pair), context=context)


class ContextData(Seq2SeqData):
    """Rows of the sentences before a sentence and the sentence itself. The mask is 1 only for the sentence itself."""

    def __init__(self, examples: ContextTranslation, source_pad: int, target_pad: int) -> None:
        super().__init__(examples, source_pad, target_pad)
        self._rows = examples

    def batch(self, indices: np.ndarray, epoch: int) -> Seq2SeqBatch:
        examples = [self._rows.example(int(index), epoch) for index in indices]
        rows, mask = pad_with_mask([[*each.context, *each.source] for each in examples], self._pads[0])
        for row, each in enumerate(examples):
            mask[row, : len(each.context)] = 0
        return replace(collate(examples, *self._pads), input_ids=rows, attention_mask=mask)


class DevContext:
    """The scores of `DevScores`, on the dev documents that start within the first dev sentences."""

    def __init__(self, bundle: Bundle, request: ObjectiveInputs, training: FinetuneSettings) -> None:
        documents = PairedDocuments.of(request.corpus, "dev", training.dev_sentences)
        examples = ContextTranslation(documents, bundle, request, bundle.max_positions)
        data = ContextData(examples, *bundle.padding)
        sources, targets = (list(side) for side in zip(*documents.pairs, strict=True))
        references, language = [[target] for target in targets], request.languages.target
        self._scores = ReferenceScores(bundle, data, examples.whole_targets, references, training, language)
        self._scores.require_any_whole()
        self._model, self._texts, sentences = bundle.model, list[str](), context_sentences(bundle)
        for begin, end in zip(documents.starts[:-1].tolist(), documents.starts[1:].tolist(), strict=True):
            document = sources[begin:end]
            self._texts += [in_context(document, position, sentences) for position in range(len(document))]
        self._lengths = examples.lengths.tolist()
        form = bundle.sequence_format(request.languages)
        self._translate = ContextTranslator(bundle, form, beam=1, max_length_ratio=DEV_LENGTH_RATIO)

    def __call__(self) -> dict[str, float]:
        return self._scores(self._outputs)

    def _outputs(self) -> list[str]:
        return texts_by_worker(self._texts, lambda: self._lengths, DEFAULT_BATCH_SIZE, self._translate, self._model)


class TaskInContext(ContextData):
    """The documents of a finetuning on pairs, sentence by sentence."""

    def __init__(
        self, settings: ContextTranslationSettings, request: ObjectiveInputs, training: FinetuneSettings
    ) -> None:
        del settings  # the model has the number of sentences
        documents, bundle = PairedDocuments.of(request.corpus, "train"), request.bundle
        examples = ContextTranslation(documents, bundle, request, training.max_length, training.batch_unit)
        super().__init__(examples, *bundle.padding)
        self._request, self._training, self.truncated = request, training, examples.truncated
        texts = sides(documents.pairs)
        self.texts: Mapping[SideName, Iterable[str]] = {"encoder": texts[0], "decoder": texts[1]}

    def loss(self, bundle: Bundle) -> nn.Module:
        return Seq2SeqLoss(bundle.model, self._training.label_smoothing)

    def dev_scores(self, bundle: Bundle) -> Callable[[], dict[str, float]]:
        return DevContext(bundle, self._request, self._training)
