"""A comparison as an experiment would report it: invented sentences, five systems, two seeds."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

from subgraft.evaluation.metrics.calibration import Bin, Calibration
from subgraft.evaluation.metrics.scores import METRICS
from subgraft.evaluation.metrics.sentence_statistics import corpus_score, sentence_statistics
from subgraft.evaluation.reporting.document import NOTHING_MEASURED, Document, Measured, write_document
from subgraft.evaluation.reporting.records import (
    Command,
    CorpusFacts,
    Cost,
    CurvePoint,
    ProvenanceFacts,
    ReportData,
    SegmentationExample,
    SelectedScore,
    StageSeconds,
    SubwordGap,
    SystemResult,
    TransferSummary,
    VocabularyFacts,
)
from subgraft.evaluation.reporting.report import build_document, translation_answer
from subgraft.pipeline.measurements.forgetting import Forgetting
from subgraft.pipeline.measurements.intrinsic import Intrinsic, IntrinsicQuality

HARD = {
    "Mietvertrag": ("▁Mi", "et", "ver", "trag"),
    "Kündigungsfrist": ("▁Kün", "di", "g", "ung", "s", "frist"),
    "Schadenersatz": ("▁Scha", "den", "er", "satz"),
    "Berufungsgericht": ("▁Beruf", "ung", "s", "gericht"),
}
ENGLISH = {
    "Mietvertrag": "lease",
    "Kündigungsfrist": "period of notice",
    "Schadenersatz": "damages",
    "Berufungsgericht": "court of appeal",
}
# Chance that a hard word comes out right, that an easy word comes out wrong, and sentences per second.
SYSTEMS = {
    "pretrain-finetune": (0.35, 0.12, 9.8),
    "random": (0.55, 0.13, 13.9),
    "mean": (0.70, 0.11, 14.1),
    "AVG": (0.68, 0.11, 14.0),
    "PATT+KD": (0.74, 0.10, 14.2),
}
TEMPLATES = (
    "Der Richter prüft den {} und liest das alte Gesetz noch einmal .",
    "Wegen {} wartet die Frau seit gestern auf eine klare Antwort .",
    "Ohne {} kann der Mann das Haus in der Stadt nicht verkaufen .",
)


def make_report_data(sentences: int = 240) -> ReportData:
    """A whole comparison, the same each time."""
    generator = random.Random(5)
    words = [generator.choice(list(HARD)) for _ in range(sentences)]
    references = tuple(generator.choice(TEMPLATES).format(word) for word in words)
    sources = tuple(
        f"The sentence number {index} speaks of the {ENGLISH[word]} & more." for index, word in enumerate(words)
    )
    systems = tuple(_system(name, seed, references) for name in SYSTEMS for seed in (1, 2))
    return ReportData(
        title="everyday → law",
        languages=("en", "de"),
        corpora=(
            CorpusFacts("upstream", "everyday", True, {"train": 40000, "dev": 500, "test": 500}),
            CorpusFacts("downstream", "law", True, {"train": 6000, "dev": 400, "test": sentences}),
        ),
        vocabularies=(
            VocabularyFacts("upstream", "unigram", 4000, "a3" * 32),
            VocabularyFacts("downstream", "unigram", 3000, "0f" * 32),
        ),
        gap=SubwordGap(
            seen=1210,
            unseen=1786,
            text="dev, de side",
            upstream_tokens_per_sentence=27.41,
            downstream_tokens_per_sentence=18.02,
            examples=tuple(
                SegmentationExample(word, 31 - 4 * index, pieces, (f"▁{word}",))
                for index, (word, pieces) in enumerate(HARD.items())
            ),
        ),
        model="Transformer, 3 + 3 layers of width 256",
        sources=sources,
        references=references,
        over_segmented=HARD,
        baseline="pretrain-finetune",
        systems=systems,
        stages=_stages(),
        provenance=ProvenanceFacts(
            settings={"name": "quickstart", "preset": "small", "finetune.batch_size": "4000", "note": "<b>|`x`"},
            versions={"subgraft": "0.1.0", "torch": "2.13.0"},
            git_commit="dcc26dc",
            device="cpu",
        ),
        commands=(
            Command("Runs, metrics and artifacts", "mlflow ui --backend-store-uri sqlite:///.subgraft/mlflow.db"),
            Command("Translate a sentence", "echo 'The court grants damages.' | subgraft generate --model models:/x"),
        ),
    )


def document_of(data: ReportData, measured: Measured = NOTHING_MEASURED) -> Document:
    """The report of a comparison."""
    return build_document(data, translation_answer(data), measured)


def write_report(data: ReportData, out: Path, measured: Measured = NOTHING_MEASURED) -> None:
    """Write it into an existing folder."""
    write_document(document_of(data, measured), out)


def _system(
    name: str, seed: int, references: tuple[str, ...], chances: tuple[float, float, float] | None = None
) -> SystemResult:
    right, wrong, speed = chances or SYSTEMS[name]
    generator = random.Random(f"{name} {seed}")
    hypotheses = tuple(_translate(line, right, wrong, generator) for line in references)
    upstream = name == "pretrain-finetune"
    statistics = {metric: sentence_statistics(metric, hypotheses, references, "de") for metric in METRICS}
    return SystemResult(
        name=name,
        seed=seed,
        hypotheses=hypotheses,
        scores={metric: corpus_score(metric, counts, "de") for metric, counts in statistics.items()},
        statistics={str(metric): counts for metric, counts in statistics.items()},
        curve=(curve := _curve(right, upstream, generator)),
        selected_step=(best := max(curve, key=lambda point: point.dev_bleu or 0.0)).step,
        dev=SelectedScore("BLEU", best.dev_bleu or 0.0),
        tokens_per_sentence=27.41 if upstream else 18.02,
        characters_per_token=2.31 if upstream else 3.52,
        sentences_per_second=speed + generator.uniform(-0.3, 0.3),
        parameters=7_412_000 if upstream else 6_900_512,
        cost=Cost(183.4, 95.2 if name == "PATT+KD" else 0.0, 88.0 + generator.uniform(-4, 4)),
        measurements=(Calibration(wrong + generator.uniform(0, 0.02), 0.5, 0.5, 0, ()),),
        transfer=None if upstream else TransferSummary(name.lower(), ("decoder",), 1210, 1786, {"bytes": 2, "mean": 0}),
    )


def _translate(line: str, right: float, wrong: float, generator: random.Random) -> str:
    output = []
    for word in line.split():
        if word in HARD:
            output.append(word if generator.random() < right else word[:4] + "vertung")
        else:
            output.append(word if generator.random() >= wrong else generator.choice(["die", "nicht", "Haus"]))
    return " ".join(output)


def _curve(right: float, upstream: bool, generator: random.Random) -> tuple[CurvePoint, ...]:
    points = []
    for step in range(0, 401, 50):
        bits = 1.9 - 0.4 * right + (1.1 if upstream else 0.8) * 2.0 ** (-step / 70) + generator.uniform(-0.02, 0.02)
        bleu = 45 * (1 - 2.0 ** (-step / 120)) + 6 * right + generator.uniform(-0.6, 0.6)
        points.append(CurvePoint(step, step / 100, step * 0.21, bits, bleu))
    return tuple(points)


def _stages() -> tuple[StageSeconds, ...]:
    shared = [
        StageSeconds("corpus", 3.1),
        StageSeconds("corpus", 1.2),
        StageSeconds("vocabulary", 2.4),
        StageSeconds("vocabulary", 1.9),
        StageSeconds("pretrain", 183.4),
        StageSeconds("generator", 95.2),
    ]
    systems = [(name, seed) for name in SYSTEMS for seed in (1, 2)]
    return (
        *shared,
        *(StageSeconds("finetune", 88.0) for _ in systems),
        *(StageSeconds("evaluate", 21.0) for _ in systems),
    )


STRATEGIES = (
    *("single-run", "random", "random-matched", "mean", "mean-2k", "mean-4k", "mean-16k", "avg", "att", "att+kd"),
    *("patt", "patt+kd-50", "patt+kd-150", "patt+kd", "reconstruction", "word2vec", "word2vec-mapped"),
    *("cbow-embedding-layer", "focus", "wechsel", "subword-regularisation"),
)
SIZES = {"mean-2k": 2000, "mean-4k": 4000, "mean-16k": 16000}
STEPS = {"avg": 0, "att": 300, "att+kd": 300, "patt": 300, "patt+kd-50": 50, "patt+kd-150": 150, "patt+kd": 300}


def make_wide_data(sentences: int = 60) -> ReportData:
    """A comparison of 22 systems and three seeds, with everything measured that can be."""
    narrow = make_report_data(sentences)
    draws = random.Random(9)
    systems = []
    for name in ("pretrain-finetune", *STRATEGIES):
        upstream = name in ("pretrain-finetune", "subword-regularisation")
        chances = (
            (0.35, 0.12, 9.8) if upstream else (draws.uniform(0.4, 0.8), draws.uniform(0.09, 0.14), draws.gauss(14, 1))
        )
        made = [_system(name, seed, narrow.references, chances) for seed in (1, 2, 3)]
        systems += [_measured(system, upstream, narrow.systems[0]) for system in made]
    return replace(narrow, systems=tuple(systems), bootstrap_samples=50)


def _measured(system: SystemResult, upstream: bool, before: SystemResult) -> SystemResult:
    """The system with auxiliary metrics; upstream as good as on the task, and was as `before`."""
    draws = random.Random(f"{system.name} {system.seed}")
    sure = [(0.05 * i + 0.025, max(0.0, 0.05 * i - draws.uniform(-0.05, 0.15)), 5 + i * i) for i in range(20)]
    bins = tuple(Bin(0.05 * i, 0.05 * i + 0.05, count, low, right) for i, (low, right, count) in enumerate(sure))
    noise = system.name.startswith(("random", "cbow"))
    cosine = draws.gauss(0.0 if noise else 0.5, 0.02)
    quality = IntrinsicQuality(200, cosine, cosine, 0.01 if noise else cosine / 2, 0.0 if noise else 0.2, abs(cosine))
    pretrained = system.name != "single-run"
    return replace(
        system,
        family=re.sub(r"-(\d+k?)$", "", system.name),
        vocabulary_size=SIZES.get(system.name, 8000),
        generator_steps=STEPS.get(system.name),
        measurements=(
            replace(system.measured(Calibration), bins=bins),  # type: ignore[type-var]
            Forgetting(
                system.scores["BLEU"],
                system.statistics["BLEU"],
                before.scores["BLEU"] if pretrained else None,
                before.statistics["BLEU"] if pretrained else None,
            ),
            *([] if upstream or not pretrained else [Intrinsic({"decoder": quality})]),
        ),
        transfer=None if upstream or not pretrained else system.transfer,
    )
