"""Evaluation of language models with a source: perplexity, ranking of prompts, generated texts and their scores."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from subgraft.base.errors import UserError
from subgraft.config.evaluation import RankingSettings
from subgraft.data.text.corpus import Corpus, class_labels
from subgraft.evaluation.metrics import conditional_generation
from subgraft.evaluation.metrics.bits_per_character import count_characters
from subgraft.evaluation.metrics.conditional_generation import TextClassifier, distinct
from subgraft.evaluation.metrics.metric_words import is_chinese
from subgraft.evaluation.metrics.scores import AnyMetricName, Score
from subgraft.evaluation.metrics.sentence_statistics import FloatArray, corpus_score, sentence_statistics
from subgraft.evaluation.metrics.speed import measure_speed
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.conditioning.sources import Sourced
from subgraft.modeling.inference.write_text import Writer, written_for
from subgraft.pipeline.artifacts import BITS, CHARACTERS, EVALUATION, STATISTICS, write_evaluation
from subgraft.pipeline.compute.outputs import measure_length, write_texts
from subgraft.pipeline.stages.evaluation import EvaluateStage
from subgraft.subwords.vocabulary.spelling import spelling
from subgraft.training.context import Context, Json
from subgraft.training.objectives.compute.causal import separator_of
from subgraft.training.objectives.compute.conditioned import source_read, sourced_nats
from subgraft.training.setup import device
from subgraft.training.stage import Inputs, Summary

if TYPE_CHECKING:
    from subgraft.training.objectives.conditioned import AnyConditionedSettings


@dataclass(frozen=True)
class SourcedBits:
    """Bits of lines; a line that does not fit into the model has NaN bits and 0 characters.

    Attributes:
        own, other: Bits of each line [n] given its own source and another one.
        characters: Of each line [n].
    """

    own: NDArray[np.float64]
    other: NDArray[np.float64]
    characters: NDArray[np.float64]

    @classmethod
    def of(cls, bundle: Bundle, texts: SourcedTexts, others: Sequence[np.ndarray], context: Context) -> SourcedBits:
        """Measure them; `others` has another line's encoded source for each line. Raises UserError if no line fits."""
        lines = texts.lines
        own = _bits(bundle, lines, texts.sources, texts.separator, context)
        other = _bits(bundle, lines, others, texts.separator, context)
        left_out = np.isnan(own).tolist()
        counts = [0 if out else count_characters([line]) for line, out in zip(lines, left_out, strict=True)]
        return cls(own, other, np.array(counts, dtype=np.float64))

    @property
    def _fits(self) -> NDArray[np.bool_]:
        """Whether each line [n] fits into the model."""
        return ~np.isnan(self.own)

    def figures(self, source: str) -> dict[str, Json]:
        """Means, and the number of lines left out; `source` is the kind of the sources."""
        fits, characters = self._fits, self.characters.sum()
        return {
            "bits_per_character": float(self.own[fits].sum() / characters),
            # The difference is the source's information about the text: 0 if the model ignores the source.
            f"bits_per_character_of_another_{source}": float(self.other[fits].sum() / characters),
            "lines_left_out": int((~fits).sum()),
        }

    def bits_saved(self) -> Scored:
        """The bits per character that the own source saves compared with another; 0 if the model ignores its source."""
        own, other, characters = (values[self._fits] for values in (self.own, self.other, self.characters))
        statistics = np.stack([other - own, characters], axis=1)
        return Scored(Score(SAVED, float(statistics[:, 0].sum() / characters.sum()), "bits-per-character"), statistics)

    def statistics(self) -> Mapping[str, NDArray[np.float64]]:
        """Sentence statistics for resampling, by name; 0 for lines that are left out."""
        return {BITS: np.nan_to_num(self.own), CHARACTERS: self.characters}


def other_sources(sourced: Sourced, corpus: Corpus) -> Sequence[Any]:
    """For each text another source: the next class, or the source of the text half the corpus away."""
    if not isinstance(sourced.sources, list):
        return sourced.turned(len(sourced.texts) // 2).sources
    classes = class_labels(corpus).labels
    after = dict(zip(classes, [*classes[1:], *classes[:1]], strict=True))
    return [after.get(label, label) for label in sourced.sources]


def _bits(
    bundle: Bundle, lines: Sequence[str], sources: Sequence[np.ndarray], separator: int, context: Context
) -> NDArray[np.float64]:
    """Bits of each line [n]; NaN for a line that does not fit into the model. Raises UserError if no line fits."""
    bits = np.full(len(lines), np.nan)
    for index, nats in sourced_nats(bundle, lines, sources, separator, context.progress):
        bits[index] = nats.sum() / log(2)
    if np.isnan(bits).all():
        raise UserError(f"no test line fits into the {bundle.max_positions} tokens that the model takes")
    return bits


# Metrics for sources that have one reference text each.
OVERLAP: tuple[AnyMetricName, ...] = ("BLEU", "ROUGE-1", "ROUGE-2", "ROUGE-L", "CIDEr")
ADHERENCE, ACCURACY, RANKING, EXACT = "adherence", "classifier accuracy", "prompt ranking", "exact match"
SAVED = "bits saved"
_SHARES = (ADHERENCE, ACCURACY, RANKING, EXACT, "distinct-1", "distinct-2")


@dataclass(frozen=True)
class Scored:
    """A score with statistics of each text [n, k] (`metrics.sentence_statistics`), None if it is of the corpus."""

    score: Score
    statistics: FloatArray | None = None


@dataclass(frozen=True)
class SourcedTexts:
    """n texts with their encoded sources; equal sources have equal `keys`, `separator` is the token between lines."""

    lines: Sequence[str]
    sources: Sequence[np.ndarray]
    keys: Sequence[Hashable]
    separator: int


def rank_prompts(bundle: Bundle, texts: SourcedTexts, settings: RankingSettings, context: Context) -> list[Scored]:
    """The share of texts that are likelier given their own source than given others; texts that do not fit are omitted.

    Empty if the sources do not differ, or no text fits.
    """
    if len(set(texts.keys)) < 2:
        return []
    candidates = conditional_generation.candidates(texts.keys, settings.sources, settings.seed, settings.texts)
    count = candidates.shape[1]
    lines = [texts.lines[own] for own in candidates[:, 0].tolist() for _ in range(count)]
    nats = np.full(len(lines), np.nan)
    sources = [texts.sources[index] for index in candidates.ravel().tolist()]
    for index, token_nats in sourced_nats(bundle, lines, sources, texts.separator, context.progress):
        nats[index] = token_nats.sum()
    table = nats.reshape(candidates.shape)
    ranks = conditional_generation.ranked_first(table[~np.isnan(table).any(axis=1)])
    signature = f"candidates:{count}|chance:{100 / count:.1f}|texts:{len(ranks)}|seed:{settings.seed}"
    return [share(RANKING, ranks, signature)] if len(ranks) else []


def overlap(
    written: Sequence[str], references: Sequence[str], language: str, metrics: Sequence[AnyMetricName] = OVERLAP
) -> list[Scored]:
    """The share of texts that equal their references, and the overlap of all with their references."""
    same = [output == reference for output, reference in zip(written, references, strict=True)]
    scores = [share(EXACT, np.array(same, dtype=np.float64), "nrefs:1|case:mixed")]
    for metric in metrics:
        statistics = sentence_statistics(metric, written, references, language)
        scores.append(Scored(corpus_score(metric, statistics, language), statistics))
    return scores


def diversity(written: Sequence[str], language: str) -> list[Scored]:
    """The diversity of the texts: distinct words and pairs of words."""
    tokenizer = "zh" if is_chinese(language) else "13a"
    return [
        Scored(Score(f"distinct-{n}", 100 * distinct(written, language, n), f"case:lc|tok:{tokenizer}|n:{n}"))
        for n in (1, 2)
    ]


def share(name: str, hits: NDArray[np.float64], signature: str) -> Scored:
    """A score in points, from one number in 0 to 1 per text."""
    statistics = np.stack([100.0 * hits, np.ones(len(hits))], axis=1)
    return Scored(Score(name, float(100 * hits.mean()), f"{signature}|corpus:mean-of-texts"), statistics)


def score_figures(scored: Sequence[Scored]) -> dict[str, Json]:
    """Figures for records and MLflow: shares in 0 to 1, other scores in their own unit."""
    scores = [each.score for each in scored]
    shares = {score.name: score.value / 100 for score in scores if score.name in _SHARES}
    others = {score.name: score.value for score in scores if score.name not in shares}
    return {
        **{name.replace(" ", "_").replace("-", "_"): value for name, value in shares.items()},
        **{name.replace(" ", "_"): value for name, value in others.items()},
    }


def scores_to_json(scored: Sequence[Scored]) -> dict[str, Json]:
    """Scores for an evaluation's file, by name."""
    return {each.score.name: asdict(each.score) for each in scored}


def statistics_by_name(scored: Sequence[Scored]) -> Mapping[str, FloatArray]:
    """Statistics of the scores that have them, by name."""
    return {each.score.name: each.statistics for each in scored if each.statistics is not None}


@dataclass(frozen=True)
class _GeneratedTexts:
    """Generated texts with their prompts; `unfinished` of them reached their limit."""

    prompts: Sequence[str]
    texts: Sequence[str]
    unfinished: int
    speed: Json


def measure(stage: EvaluateStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    """Raises UserError if no test line fits into the model."""
    bundle, corpus, settings = Bundle.load(inputs["model"]), Corpus.open(inputs["corpus"]), stage.evaluation
    bundle.model.to(device())  # type: ignore[arg-type]
    objective = cast("AnyConditionedSettings", stage.objective)  # `MEASUREMENTS` calls this for those kinds only
    assert objective.source is not None
    sourced = Sourced.of(corpus, stage.split, objective.source).first(settings.test_sentences)
    lines, read = list(sourced.texts), source_read(bundle)
    keys = [source if isinstance(source, str) else source.tobytes() for source in sourced.sources]
    texts = SourcedTexts(lines, read.encode(sourced.sources), keys, separator_of(bundle.decoder, objective))
    bits = SourcedBits.of(bundle, texts, read.encode(other_sources(sourced, corpus)), context)
    written = _generate(bundle, sourced, stage, context)
    scored = [
        bits.bits_saved(),
        *_score_outputs(corpus, sourced, stage, lines, written.texts),
        *diversity(written.texts, stage.languages.target),
    ]
    if stage.ranking is not None:
        scored += rank_prompts(bundle, texts, stage.ranking, context)
    save_file({**bits.statistics(), **statistics_by_name(scored)}, out / STATISTICS)
    write_texts(out, references=lines, prompts=written.prompts, continuations=written.texts)
    summary = bits.figures(objective.source) | {"cut_outputs": written.unfinished} | score_figures(scored)
    draw = stage.evaluation.draw
    result = summary | {
        **measure_length(bundle, lines),
        "parameters": bundle.model.num_parameters(),
        "sentences": len(lines),
        "draw": None if draw is None else draw.model_dump(),
        "spelling": asdict(spelling(bundle.decoder, lines)),
        "speed": written.speed,
        "scores": scores_to_json(scored),
    }
    write_evaluation(result, out)
    signatures: dict[str, Json] = {score.score.name: score.score.signature for score in scored}
    return summary | {"signatures": signatures, "artifacts": [EVALUATION]}


def _generate(bundle: Bundle, sourced: Sourced, stage: EvaluateStage, context: Context) -> _GeneratedTexts:
    settings, read = stage.evaluation, source_read(bundle)
    timed = sourced.first(settings.speed_sentences)
    # Texts for a class have no references of their own, so a part of them suffices.
    prompts = timed if stage.objective.source == "class" else sourced
    longest = max(len(tokens) for tokens in bundle.decoder.encode_batch(list(sourced.texts)))
    write = Writer(bundle, settings, max_tokens=longest + 1)
    texts = written_for(write, read, prompts.sources, context.progress)
    unfinished = write.unfinished  # read before measuring speed, which increases it
    timing = {"batch_size": settings.batch_size, "repeats": settings.speed_repeats}
    speed = measure_speed(lambda batch: write(read.encode(batch)), timed.sources, **timing) if stage.speed else None
    return _GeneratedTexts(prompts.in_words(), texts, unfinished, asdict(speed) if speed else None)


def _score_outputs(
    corpus: Corpus, sourced: Sourced, stage: EvaluateStage, lines: Sequence[str], written: Sequence[str]
) -> list[Scored]:
    """With classes as sources, a classifier's accuracy on the outputs and on the references.

    With other sources, the outputs' overlap with their references.
    """
    language = stage.languages.target
    if stage.objective.source != "class":
        return overlap(written, lines, language)
    train, labels = Sourced.of(corpus, "train", "class"), list(sourced.sources)
    classifier = TextClassifier(list(train.texts), list(train.sources), language)
    signature = f"classifier:tfidf+logistic|sklearn:{version('scikit-learn')}"
    # The accuracy on human text shows how reliable the classifier is.
    accuracy = share(ACCURACY, classifier.agrees(lines, labels), signature)
    return [share(ADHERENCE, classifier.agrees(written, labels[: len(written)]), signature), accuracy]
