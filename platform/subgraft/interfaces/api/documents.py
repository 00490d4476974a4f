"""Documents: translated in blocks of sentences, and scored as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from subgraft.base.errors import ArgumentError, UserError
from subgraft.base.limits import MAX_BEAM_SIZE, MAX_SEQUENCE_LENGTH
from subgraft.base.progress import ProgressCallback
from subgraft.config.evaluation import MeasurementSettings
from subgraft.evaluation.metrics.document_bleu import document_bleu, sentence_bleu
from subgraft.interfaces.api.arguments import LanguagePair, located, pair_of, require_whole
from subgraft.interfaces.api.model import Model, load
from subgraft.interfaces.api.scores import Scores
from subgraft.modeling.inference.ctranslate2_directory import is_exported
from subgraft.modeling.inference.translate_documents import BlockTranslator, ContextTranslator, reads_context
from subgraft.training.setup import device

# As mBART was finetuned (Liu et al., TACL 2020, section 4.2).
BLOCK_TOKENS = 512


def documents_of(lines: Iterable[str]) -> list[list[str]]:
    """The documents of lines: a sentence in each, and blank lines between documents."""
    return [list(document) for has_text, document in groupby(lines, lambda line: bool(line.strip())) if has_text]


def translate_documents(
    model: Model | Path | str,
    documents: Sequence[Sequence[str]],
    *,
    languages: LanguagePair | None = None,
    block_tokens: int = BLOCK_TOKENS,
    beam: int = 4,
    batch_size: int = 32,
    progress: ProgressCallback | None = None,
) -> list[list[str]]:
    """The sentences of each document's translation, by a model that was finetuned on blocks, or on context.

    One of blocks may join or divide sentences, so there may be more or fewer than the document has. One that reads the
    sentences before translates each, and ignores `block_tokens`.

    Args:
        model: One in memory, or a directory, a hub id, or models:/NAME@ALIAS.
        documents: The sentences of each.
        languages: Of source and target; by default those that the model was made for.
        block_tokens: The most tokens of a block of the source, as in its finetuning.
        beam: The beam size.
        batch_size: The blocks translated at a time.
        progress: Called after each batch.

    Raises:
        UserError: The model cannot translate blocks, or its languages are unknown.
    """
    require_whole("block_tokens", block_tokens, 4, MAX_SEQUENCE_LENGTH)
    require_whole("beam", beam, 1, MAX_BEAM_SIZE)
    require_whole("batch_size", batch_size, 1)
    if any(isinstance(document, str) for document in documents) or isinstance(documents, str):
        raise ArgumentError("expected a list of documents, each a list of sentences", where="documents")
    if not isinstance(model, Model):
        if is_exported(Path(path := located(model))):
            hint = "Give the model that was exported."
            raise UserError("an export to CTranslate2 translates no documents", where=str(path), hint=hint)
        model = load(model)
    pair, bundle = model.languages_for(None if languages is None else pair_of(languages)), model.bundle
    if "encoder" not in bundle.tokenizers:
        raise UserError("this model has no encoder, so it cannot translate")
    bundle.model.to(device())  # type: ignore[arg-type]
    ratio = MeasurementSettings().max_length_ratio
    if reads_context(bundle):
        in_context = ContextTranslator(bundle, bundle.sequence_format(pair), beam=beam, max_length_ratio=ratio)
        return in_context.translate(documents, batch_size, progress)
    translate = BlockTranslator(bundle, bundle.sequence_format(pair), beam=beam, max_length_ratio=ratio)
    return translate.translate(documents, block_tokens, batch_size, progress)


def evaluate_documents(
    outputs: Sequence[Sequence[str]], references: Sequence[Sequence[str]], *, language: str = ""
) -> Scores:
    """d-BLEU of documents, and s-BLEU of their sentences if each has as many as its reference.

    Args:
        outputs: The sentences of each document.
        references: Those of its reference.
        language: Of the outputs; Chinese is scored by characters.

    Raises:
        UserError: There are no documents, or other numbers of them.
    """
    by_document = document_bleu(outputs, references, language)
    try:
        return Scores((by_document, sentence_bleu(outputs, references, language)))
    except UserError:
        return Scores((by_document,))
