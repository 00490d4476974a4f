"""PretrainedModel, Corpus and Vocabularies → LearnedEmbeddings: new tokens' rows, learnt from the task's text.

By Token Distillation or attention influence: both compare the frozen model's passes over two segmentations of a text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from subgraft.base.errors import UserError
from subgraft.config.settings_base import SideName
from subgraft.data.text.corpus import Corpus
from subgraft.embeddings.initialisers.learned_embeddings import LearnedEmbeddings, origin
from subgraft.embeddings.learned_rows.attention_influence_loss import AttentionInfluenceLoss
from subgraft.embeddings.learned_rows.segmentation_pairs import SegmentationPairs
from subgraft.embeddings.learned_rows.student_embeddings import StudentTable
from subgraft.embeddings.learned_rows.token_distillation_loss import TokenDistillationLoss
from subgraft.embeddings.methods.method import LearningStage, MethodSpec
from subgraft.embeddings.methods.token_distillation import DistillationStage
from subgraft.embeddings.transplanting.transplant import initialised_sides
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import Side, family_of
from subgraft.modeling.sides import side as side_of
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.auto_precision import with_named_precision
from subgraft.training.context import Context, Json
from subgraft.training.objectives.compute.causal import begin_texts_as_pretrained
from subgraft.training.schedule import Data
from subgraft.training.setup import held_out_mean, is_writer, run_training, write_curve
from subgraft.training.stage import Inputs, Summary

Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Compared:
    """A method, how it reads text in two segmentations, and how it compares the passes over them."""

    method: MethodSpec
    text: type[SegmentationPairs]
    loss: Callable[..., TokenDistillationLoss | AttentionInfluenceLoss]


def loaded_for_text(stage: LearningStage, inputs: Inputs) -> Bundle:
    """The model, whose texts begin with the token that stood between those of its pretraining."""
    bundle = Bundle.load_to_train(inputs["model"])
    begin_texts_as_pretrained(bundle, stage.objectives)
    return bundle


def distil(stage: DistillationStage, compared: Compared, inputs: Inputs, out: Path, context: Context) -> Summary:
    return distil_in(loaded_for_text(stage, inputs), stage, compared, inputs, out, context)


def distil_in(
    bundle: Bundle, stage: DistillationStage, compared: Compared, inputs: Inputs, out: Path, context: Context
) -> Summary:
    """Distil in a model that has been loaded."""
    corpus = Corpus.open(inputs["corpus"])
    stage = with_named_precision(stage, bundle.model, context)
    # Prepare all sides before the first training moves the model to a GPU.
    target = {name: Tokenizer.load(inputs[f"vocabulary/{name}"]) for name in stage.sides}
    names = initialised_sides(bundle.model, target)
    additional_text = {name: _additional_text(name, inputs) for name in names}
    students = [_Student.of(bundle, name, target[name], stage, compared) for name in names]
    summary: Summary = {}
    for student in students:
        summary[student.side.name] = student.train(
            bundle, corpus, additional_text[student.side.name], stage, out, context
        )
    return summary


def _additional_text(side: SideName, inputs: Inputs) -> Pairs:
    """Additional text of a side. An encoder's passes are compared without a target; a decoder needs a source."""
    if side == "decoder":
        return list(Corpus.open(inputs["synthetic"]).pairs("train")) if "synthetic" in inputs else []
    return [(line, "") for line in Corpus.open(inputs["text"]).lines("train", "source")] if "text" in inputs else []


@dataclass(frozen=True)
class _Student:
    """One side of the model, and the embeddings of its new vocabulary before training."""

    side: Side
    source: Tokenizer
    target: Tokenizer
    start: StudentTable
    origin: tuple[str, str]
    compared: Compared

    @classmethod
    def of(
        cls, bundle: Bundle, name: SideName, target: Tokenizer, stage: DistillationStage, compared: Compared
    ) -> _Student:
        side, source = side_of(bundle.model, name), bundle.tokenizers[name]
        layers = family_of(bundle.model).layers(bundle.model.config.to_dict(), name)
        if (stage.distillation.layer or 1) > layers:
            where = f"{compared.method.group}.layer"
            raise UserError(f"the model's {name} has no more than {layers} layers", where=where)
        return cls(side, source, target, StudentTable.of(side, source, target), origin(side, source), compared)

    def train(
        self,
        bundle: Bundle,
        corpus: Corpus,
        additional: Pairs,
        stage: DistillationStage,
        out: Path,
        context: Context,
    ) -> Summary:
        name, module = self.side.name, self.compared.loss(bundle.model, self.side, self.start, stage.distillation)
        pairs, per_token = list(corpus.pairs_or_text("train")), stage.distillation.sentences_per_token
        data = self._sentences(bundle, pairs, stage, per_token, additional)
        dev = list(corpus.pairs_or_text("dev"))[: stage.training.dev_sentences]
        held_out = self._sentences(bundle, dev, stage, None)
        summary: Summary = {"steps": 0}
        if len(data):
            group, measures = f"{self.compared.method.group}_training", {"loss": "distillation", "measured": "distance"}
            summary = fit_rows(module, data, held_out, stage, out, context, group=group, part=name, **measures)
        tokens, rows = module.embeddings.trained()
        if is_writer():
            LearnedEmbeddings(self.target, tokens, rows, *self.origin, self.compared.method.name).save(out / name)
        counts: dict[str, Json] = {"trainable": len(self.start.tokens), "in_text": len(data.tokens)}
        return summary | counts | {"trained": len(tokens), "sentences": len(data)}

    def _sentences(
        self,
        bundle: Bundle,
        pairs: Pairs,
        stage: DistillationStage,
        per_token: int | None,
        additional: Pairs | None = None,
    ) -> SegmentationPairs:
        return self.compared.text(
            pairs,
            bundle,
            self.side.name,
            self.target,
            stage.languages,
            stage.training,
            self.start.tokens,
            per_token,
            stage.seed,
            additional or [],
        )


def fit_rows(
    module: nn.Module,
    data: Data,
    held_out: Data,
    stage: LearningStage,
    out: Path,
    context: Context,
    *,
    group: str,
    loss: str,
    measured: str,
    part: SideName,
) -> Summary:
    """Train new rows and write the curve; the summary has the first and last value of `measured` on held-out text."""
    evaluate = held_out_mean(module, held_out, stage.training, measured) if len(held_out.lengths) else None
    outcome = run_training(
        module,
        {loss: 1.0},
        data,
        stage.training,
        context,
        group=group,
        seed=stage.seed,
        evaluate=evaluate,
        part=part,
    )
    summary = write_curve(outcome, out, f"curve.{part}.json")
    values = [point.values[measured] for point in outcome.curve]
    return summary | ({f"{measured}_before": values[0], f"{measured}_after": values[-1]} if values else {})
