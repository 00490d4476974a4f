"""PretrainedModel, Corpus and Vocabularies → LearnedEmbeddings: new tokens' rows, as combinations of old rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from subgraft.config.settings_base import SideName
from subgraft.data.text.corpus import Corpus
from subgraft.embeddings.initialisers.learned_embeddings import LearnedEmbeddings, origin
from subgraft.embeddings.learned_rows.distillation import loaded_for_text
from subgraft.embeddings.learned_rows.vocadt_loss import VocadtLoss
from subgraft.embeddings.methods.vocadt import VOCADT, VocadtStage
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import side as side_of
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.auto_precision import with_named_precision
from subgraft.training.context import Context
from subgraft.training.objectives.compute.seq2seq import Seq2SeqData
from subgraft.training.objectives.compute.translation import Translation
from subgraft.training.progress import Selection
from subgraft.training.rare_rows import count_tokens
from subgraft.training.setup import fit, held_out_mean, is_writer, write_curve
from subgraft.training.stage import Inputs, Summary


def run(stage: VocadtStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    bundle, corpus = loaded_for_text(stage, inputs), Corpus.open(inputs["corpus"], context.cache)
    stage = with_named_precision(stage, bundle.model, context)
    target = {name: Tokenizer.load(inputs[f"vocabulary/{name}"]) for name in stage.sides}
    origins = {name: origin(side_of(bundle.model, name), bundle.tokenizers[name]) for name in stage.sides}
    train = corpus.pairs_or_text("train").evenly_spaced(stage.max_train_examples)
    old_tokens = {name: _occurring_tokens(bundle, name, train) for name in stage.sides}
    module = VocadtLoss(bundle, target, old_tokens, stage.training.label_smoothing)
    trainable = {str(name): len(module.adapter(name).tokens) for name in stage.sides}
    summary: Summary = {"steps": 0, "trainable": trainable}
    if any(trainable.values()):
        dev = corpus.pairs_or_text("dev")[: stage.training.dev_sentences]
        text, held_out = (_examples(stage, bundle, target, pairs) for pairs in (train, dev))
        summary |= {"pairs": len(text.lengths), "old_tokens": {str(name): len(ids) for name, ids in old_tokens.items()}}
        summary |= _fit(module, text, held_out, stage, out, context)
    if is_writer():
        for name in stage.sides:
            _save(module, name, target[name], origins[name], out / name)
    return summary


def _occurring_tokens(bundle: Bundle, name: SideName, pairs: Sequence[tuple[str, str]]) -> set[int]:
    """The old tokens that occur on a side of the pairs."""
    texts = [pair[0 if name == "encoder" else 1] for pair in pairs]
    return set(np.flatnonzero(count_tokens(bundle.tokenizers[name], texts)).tolist())


def _examples(
    stage: VocadtStage, bundle: Bundle, target: Mapping[SideName, Tokenizer], pairs: Sequence[tuple[str, str]]
) -> Seq2SeqData:
    """The pairs as examples for a model with the new vocabularies."""
    encoder, decoder = target.get("encoder", bundle.encoder), target.get("decoder", bundle.decoder)
    changed, training = replace(bundle, encoder=encoder, decoder=decoder), stage.training
    form = changed.sequence_format(stage.languages)
    examples = Translation(pairs, changed.encoder, changed.decoder, form, training.max_length, training.batch_unit)
    return Seq2SeqData(examples, *changed.padding)


def _fit(
    module: VocadtLoss, text: Seq2SeqData, held_out: Seq2SeqData, stage: VocadtStage, out: Path, context: Context
) -> Summary:
    """Train, and select the weights that predict held-out pairs best; the summary has the first and best loss."""
    evaluate, select = None, None
    if len(held_out.lengths):
        evaluate = held_out_mean(module, held_out, stage.training, "loss")
        select = Selection("loss", lower_is_better=True)
    outcome = fit(
        module,
        {"loss": 1.0},
        text,
        stage.training,
        context,
        group="vocadt_training",
        seed=stage.seed,
        evaluate=evaluate,
        select=select,
    )
    losses = [point.values["loss"] for point in outcome.curve]
    return write_curve(outcome, out) | ({"loss_before": losses[0], "loss_best": min(losses)} if losses else {})


def _save(module: VocadtLoss, name: SideName, target: Tokenizer, row_origin: tuple[str, str], out: Path) -> None:
    """Save the rows that the side's adapter computes. Only a decoder has other rows than input embeddings."""
    adapter, others = module.adapter(name), {}
    rows = adapter.rows()
    if name == "decoder":
        others = {part: table for part, table in rows.items() if part != "input"}
    LearnedEmbeddings(target, adapter.tokens.cpu(), rows["input"], *row_origin, VOCADT.name, others).save(out)
