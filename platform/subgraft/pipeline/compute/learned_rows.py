"""PretrainedModel, Corpus and Vocabularies → DistilledRows: new tokens' rows, learnt from the task's text.

By Token Distillation or attention influence: both compare the frozen model's passes over two segmentations of a text.
Or by likelihood matching, on references or on the model's own translations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from subgraft.base.errors import UserError
from subgraft.config.initialiser_registry import LearningName
from subgraft.config.settings_base import SideName, Split
from subgraft.data.text.corpus import Corpus
from subgraft.embeddings.initialisers.distilled_rows import DistilledRows, origin
from subgraft.embeddings.learned_rows.attention_influence_loss import AttentionInfluenceLoss
from subgraft.embeddings.learned_rows.likelihood_matching_loss import LikelihoodMatchingLoss, SpanPairs, StudentTables
from subgraft.embeddings.learned_rows.segmentation_pairs import SegmentationPairs, SegmentPairs
from subgraft.embeddings.learned_rows.student_embeddings import StudentTable
from subgraft.embeddings.learned_rows.token_distillation_loss import TokenDistillationLoss
from subgraft.embeddings.transplanting.transplant import Method, initialised_sides
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import Side, family_of
from subgraft.modeling.heads import require_token_head
from subgraft.modeling.sides import side as side_of
from subgraft.pipeline.stages.embeddings import (
    AttentionInfluenceStage,
    DistillationStage,
    LikelihoodMatchingStage,
    TokenDistillationStage,
)
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.auto_precision import with_named_precision
from subgraft.training.chunked_translation import Search, translate_in_chunks
from subgraft.training.context import Context, Json
from subgraft.training.schedule import Data
from subgraft.training.setup import fit, held_out_mean, is_writer, write_curve
from subgraft.training.stage import Inputs, Summary

Pairs = list[tuple[str, str]]


def distil(stage: DistillationStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    bundle, corpus = Bundle.load(inputs["model"]), Corpus.open(inputs["corpus"])
    stage = with_named_precision(stage, bundle.model, context)
    # Prepare all sides before the first training moves the model to a GPU.
    target = {name: Tokenizer.load(inputs[f"vocabulary/{name}"]) for name in stage.sides}
    names = initialised_sides(bundle.model, target)
    additional_text = {name: _additional_text(name, inputs) for name in names}
    students = [_Student.of(bundle, name, target[name], stage) for name in names]
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
class _Method:
    """An initialiser, its group of settings, and how it reads and compares text."""

    initialiser: LearningName
    settings: str
    text: type[SegmentationPairs]
    loss: Callable[..., TokenDistillationLoss | AttentionInfluenceLoss]


_METHODS: Mapping[type[DistillationStage], _Method] = {
    TokenDistillationStage: _Method(
        "token-distillation", "token_distillation", SegmentationPairs, TokenDistillationLoss
    ),
    AttentionInfluenceStage: _Method(
        "attention-influence", "attention_influence", SegmentPairs, AttentionInfluenceLoss
    ),
}


@dataclass(frozen=True)
class _Student:
    """One side of the model, and the embeddings of its new vocabulary before training."""

    side: Side
    source: Tokenizer
    target: Tokenizer
    start: StudentTable
    origin: tuple[str, str]
    method: _Method

    @classmethod
    def of(cls, bundle: Bundle, name: SideName, target: Tokenizer, stage: DistillationStage) -> _Student:
        side, source = side_of(bundle.model, name), bundle.tokenizers[name]
        layers, method = family_of(bundle.model).layers(bundle.model.config.to_dict(), name), _METHODS[type(stage)]
        if (stage.distillation.layer or 1) > layers:
            raise UserError(f"the model's {name} has no more than {layers} layers", where=f"{method.settings}.layer")
        return cls(side, source, target, StudentTable.of(side, source, target), origin(side, source), method)

    def train(
        self,
        bundle: Bundle,
        corpus: Corpus,
        additional: Pairs,
        stage: DistillationStage,
        out: Path,
        context: Context,
    ) -> Summary:
        name, module = self.side.name, self.method.loss(bundle.model, self.side, self.start, stage.distillation)
        pairs, per_token = list(corpus.pairs("train")), stage.distillation.sentences_per_token
        data = self._sentences(bundle, pairs, stage, per_token, additional)
        held_out = self._sentences(bundle, list(corpus.pairs("dev"))[: stage.training.dev_sentences], stage, None)
        summary: Summary = {"steps": 0}
        if len(data):
            training, measures = f"{self.method.settings}_training", {"loss": "distillation", "measured": "distance"}
            summary = fit_rows(module, data, held_out, stage, out, context, group=training, part=name, **measures)
        tokens, rows = module.embeddings.trained()
        if is_writer():
            DistilledRows(self.target, tokens, rows, *self.origin, self.method.initialiser).save(out / name)
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
        return self.method.text(
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
    stage: DistillationStage | LikelihoodMatchingStage,
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
    outcome = fit(
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


# Likelihood matching learns the rows of this side, whose tokens are predicted.
MATCHED_SIDE: SideName = "decoder"


def match_likelihood(stage: LikelihoodMatchingStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    bundle, corpus = Bundle.load(inputs["model"]), Corpus.open(inputs["corpus"])
    require_token_head(bundle.model)
    stage = with_named_precision(stage, bundle.model, context)
    target = Tokenizer.load(inputs[f"vocabulary/{MATCHED_SIDE}"])
    # Copy the initial rows before translation or training moves the model to a GPU.
    start = StudentTables.of(bundle, target, Method(stage.starts_from, inputs.get("generator"), stage.max_similar))
    row_origin = origin(side_of(bundle.model, MATCHED_SIDE), bundle.decoder)
    text, cost = _training_pairs(stage, bundle, corpus, context)
    additional = list(Corpus.open(inputs["synthetic"]).pairs("train")) if "synthetic" in inputs else []
    data = _spans(stage, bundle, target, start, text["train"], stage.matching.sentences_per_token, additional)
    held_out = _spans(stage, bundle, target, start, text["dev"])
    module = LikelihoodMatchingLoss(bundle, target, start, stage.matching)
    trained: Summary = {"steps": 0}
    if len(data):
        training, measures = "likelihood_matching_training", {"loss": "matching", "measured": "divergence"}
        trained = fit_rows(module, data, held_out, stage, out, context, group=training, part=MATCHED_SIDE, **measures)
    tokens, rows = module.trained()
    if is_writer():
        learnt = DistilledRows(target, tokens, rows.pop("input"), *row_origin, "likelihood-matching", rows)
        learnt.save(out / MATCHED_SIDE)
    spans, unknown = data.spans
    counts: dict[str, Json] = {"trainable": len(tokens), "in_text": len(data.tokens), "sentences": len(data)}
    return {MATCHED_SIDE: trained | counts | {"spans": spans, "unknown_spans": unknown} | cost}


def _training_pairs(
    stage: LikelihoodMatchingStage, bundle: Bundle, corpus: Corpus, context: Context
) -> tuple[dict[Split, Pairs], dict[str, Json]]:
    """Pairs to train on and held-out ones, and the cost of making them. References are read only if configured."""
    text: dict[Split, Pairs] = {}
    cost = {"translation_seconds": 0.0, "translated": 0, "cut_translations": 0}
    for split in ("train", "dev"):
        max_pairs = stage.training.dev_sentences if split == "dev" else None
        if stage.matching.text == "references":
            text[split] = list(corpus.pairs(split))[:max_pairs]
            continue
        sources = list(corpus.lines(split, "source"))[:max_pairs]
        translations = translate_in_chunks(
            bundle, sources, stage.languages, Search(stage.matching.beam), context, split
        )
        text[split] = list(zip(sources, translations.texts, strict=True))
        cost["translation_seconds"] += translations.seconds
        cost["translated"] += len(sources)
        cost["cut_translations"] += translations.cut
    return text, {} if stage.matching.text == "references" else {**cost}


def _spans(
    stage: LikelihoodMatchingStage,
    bundle: Bundle,
    target: Tokenizer,
    start: StudentTables,
    pairs: Pairs,
    per_token: int | None = None,
    additional: Sequence[tuple[str, str]] = (),
) -> SpanPairs:
    languages, training, new = stage.languages, stage.training, start.tokens
    return SpanPairs(pairs, bundle, MATCHED_SIDE, target, languages, training, new, per_token, stage.seed, additional)
