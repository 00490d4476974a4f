"""Small trainings on BART's objectives and its rivals'."""

from __future__ import annotations

from typing import Any

from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import FAMILIES
from subgraft.modeling.sides import without_dropout
from subgraft.training.objectives.compute.blocks import Blocks
from subgraft.training.objectives.compute.denoising import Denoising
from subgraft.training.objectives.compute.mixture import MixedLoss, Mixture
from subgraft.training.objectives.compute.multitask_masked import (
    MultitaskMasked,
    MultitaskMaskedObjective,
    MultitaskMasking,
)
from subgraft.training.objectives.compute.seq2seq import Seq2SeqObjective
from subgraft.training.objectives.compute.single_stack import StackLoss
from subgraft.training.objectives.denoising import DenoisingSettings
from subgraft.training.objectives.masked_seq2seq import MaskedSeq2SeqSettings, MaskedSpans
from subgraft.training.objectives.multitask_masked import MultitaskMaskedSettings
from toys import SHAPE, bart, bert, cased_tokenizer, english, masking_tokenizer, sequence_format


def _blocks(bundle: Bundle, family: str) -> Blocks:
    form = sequence_format({"model_type": family}, bundle.encoder, bundle.decoder, None)
    separator = FAMILIES[family].sentence_separator(bundle.decoder)
    return Blocks(english(120), bundle.decoder, form, separator, SHAPE["max_positions"])


def bart_mixture() -> tuple[MixedLoss, Mixture]:
    """Denoising by all noises, and masked spans, on one BART."""
    bundle = Bundle(without_dropout(bart()), masking_tokenizer(), masking_tokenizer())
    noises: dict[Any, float] = {"masking": 0.1, "deletion": 0.1, "infilling": 0.2, "permutation": 1, "rotation": 0.5}
    blocks = _blocks(bundle, "bart")
    objectives = {
        "denoising": Seq2SeqObjective(bundle, Denoising(blocks, DenoisingSettings(noises=noises), 1)),
        "masked-seq2seq": Seq2SeqObjective(bundle, MaskedSpans(blocks, MaskedSeq2SeqSettings(), 1)),
    }
    losses = {kind: each.loss(0.0) for kind, each in objectives.items()}
    return MixedLoss(bundle.model, losses), Mixture(objectives, dict.fromkeys(objectives, 1.0))


def multitask_masked() -> tuple[StackLoss, MultitaskMaskedObjective]:
    """A BERT under UniLM's attentions."""
    bundle = Bundle(without_dropout(bert()), cased_tokenizer(), cased_tokenizer())
    masking = MultitaskMasking(bundle.decoder, MultitaskMaskedSettings())
    objective = MultitaskMaskedObjective(bundle, MultitaskMasked(_blocks(bundle, "bert"), masking, 1))
    return objective.loss(0.0), objective
