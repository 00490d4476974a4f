"""Settings of how models and new embeddings are evaluated."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field

from subgraft.base.limits import MAX_BEAM_SIZE
from subgraft.config.plugins import METRICS, require_offered
from subgraft.config.settings_base import (
    Count,
    DecodingEngine,
    FurtherMetricName,
    MetricName,
    Seed,
    Settings,
    named_engine,
)


def _offered(metrics: tuple[str, ...]) -> tuple[str, ...]:
    for name in metrics:
        if name in get_args(MetricName):
            raise ValueError(f"{name} is always measured: leave it out")
        require_offered(METRICS, name, get_args(FurtherMetricName))
    if len(set(metrics)) != len(metrics):
        raise ValueError("metrics must be distinct")
    return metrics


class DrawSettings(Settings):
    """How tokens are sampled from a model.

    temperature: logits are divided by it.
    top_k: sample from this many most likely tokens; 0 samples from all.
    top_p: sample from the most likely tokens whose probabilities sum up to this.
    seed: the random seed.
    """

    temperature: Annotated[float, Field(gt=0, le=100)] = 1.0
    top_k: Annotated[int, Field(ge=0)] = 0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    seed: Seed = 1


class RankingSettings(Settings):
    """Prompt ranking: whether a text is likelier given its own source than given others.

    sources: candidate sources, with the text's own.
    texts: texts, from the start of the test set.
    seed: draws the other sources of each text.
    """

    sources: Annotated[int, Field(ge=2, le=1000)] = 10
    texts: Count = 200
    seed: Seed = 1


class MeasurementSettings(Settings):
    """How one model is evaluated on one text.

    beam: beam size of generation.
    batch_size: sentences translated at a time; more are faster until memory runs out.
    max_length_ratio: the maximum number of bytes of an output for each byte of its source.
    test_sentences: test sentences to score, from the start; all by default.
    speed_sentences: how many of these are translated to measure speed.
    speed_repeats: repetitions, of which the median is reported.
    calibration: whether the inference ECE is measured.
    engine: the search engine: transformers; CTranslate2, which finds the same outputs several times faster, and leaves
    models that it does not support to transformers; or llamacpp, llama.cpp in fp32, which continues text and answers
    turns with beam size 1. Speeds of two engines cannot be compared.
    speed_measured: apart, in separate passes over speed_sentences; or in-translation, in the pass that makes the
    outputs, with other speeds: sentences of one length are translated together.
    draw: how text is sampled for a class, in place of beam search.
    no_repeat_ngrams: no n-gram of this size may occur twice in text written for a class.
    documents: whether outputs are scored by document, in a corpus with documents: each document is one segment, so that
    BLEU is d-BLEU (Liu et al., TACL 2020, section 4.2). The report adds s-BLEU, by sentence, if all documents have as
    many sentences as their references. Speed is then measured on the whole test set, and calibration is not measured.
    metrics: additional metrics: ROUGE-1, ROUGE-2, CIDEr, or those of installed packages.
    """

    beam: Annotated[int, Field(ge=1, le=MAX_BEAM_SIZE)] = 4
    batch_size: Count = 32
    max_length_ratio: Annotated[float, Field(gt=0)] = 2.5
    test_sentences: Count | None = None
    speed_sentences: Count = 128
    speed_repeats: Annotated[int, Field(ge=1, le=1000)] = 3
    calibration: bool = True
    engine: DecodingEngine = "transformers"
    speed_measured: Literal["apart", "in-translation"] = "apart"
    draw: DrawSettings | None = None
    no_repeat_ngrams: Annotated[int, Field(ge=1, le=1000)] | None = None
    documents: bool = False
    metrics: Annotated[tuple[str, ...], AfterValidator(_offered)] = ()


class EvaluationSettings(MeasurementSettings):
    """How the systems of an experiment are evaluated and compared.

    baseline: the name of the system that the others are compared with; by default the first that keeps the pretrained
    model and its vocabulary.
    bootstrap_samples: the number of resamples for an interval or a p-value.
    by_token_count: whether the bits of the test references are broken down by the frequency of their new tokens in the
    training text, in one more pass over the test set.
    engine: the search engine; models that CTranslate2 does not support use transformers. llamacpp is llama.cpp in
    fp32, for `task: continuation` and `task: chat` with beam size 1. Speeds of two engines cannot be compared. auto:
    CTranslate2 if installed.
    upstream_sentences: sentences of the upstream test split that are also translated, or, by models that continue text,
    scored in bits per character, before and after finetuning, to measure forgetting; none by default.
    ranking: prompt ranking, for models with a source.
    """

    engine: Literal["auto", "transformers", "ctranslate2", "llamacpp"] = "auto"  # type: ignore[assignment]
    baseline: str | None = None
    bootstrap_samples: Annotated[int, Field(ge=1, le=1_000_000)] = 1000
    by_token_count: bool = True
    upstream_sentences: Count | None = None
    ranking: RankingSettings = RankingSettings()

    @property
    def measurement(self) -> MeasurementSettings:
        """The settings of evaluating one model, without those of comparing several."""
        fields = self.model_dump(include=set(MeasurementSettings.model_fields))
        return MeasurementSettings(**fields | {"engine": self.named_engine})

    @property
    def named_engine(self) -> DecodingEngine:
        """The engine that `auto` stands for here."""
        return named_engine("auto") if self.engine == "auto" else self.engine


class IntrinsicSettings(Settings):
    """Intrinsic evaluation of new embeddings: known tokens are held out, and each system's initialiser makes them
    again.

    tokens: the number of tokens held out; at most a fifth of those that qualify.
    seed: draws these tokens.
    """

    tokens: Count = 500
    seed: Seed = 1
