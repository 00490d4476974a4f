"""Scores of outputs against references, as `subgraft evaluate` computes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from subgraft.base.errors import ArgumentError
from subgraft.config.settings_base import MetricName
from subgraft.data.tasks.registry import TASKS, TaskName
from subgraft.evaluation.metrics.scores import FURTHER_METRICS, Score, check_parallel, corpus_scores, sacrebleu_metric
from subgraft.evaluation.metrics.significance import Interval
from subgraft.interfaces.api.arguments import one_of

if TYPE_CHECKING:
    import pandas as pd

    from subgraft.config.plugins import Plugin


SACREBLEU: tuple[MetricName, ...] = ("BLEU", "chrF", "TER")


@dataclass(frozen=True)
class Scores:
    """Corpus scores with their signatures; `scores["BLEU"].value` is one of them."""

    scores: tuple[Score, ...]

    def __getitem__(self, name: str) -> Score:
        return next(score for score in self.scores if score.name == name)

    def __str__(self) -> str:
        return "\n".join(f"{score.name}\t{score.value:.2f}\t{score.signature}" for score in self.scores)

    def _repr_html_(self) -> str:
        return str(self.frame().to_html(float_format="{:.2f}".format))

    def frame(self) -> pd.DataFrame:
        """A row for each metric: its name, value and signature."""
        import pandas as pd

        return pd.DataFrame([vars(score) for score in self.scores]).set_index("name")


def evaluate(
    outputs: Sequence[str],
    references: Sequence[str],
    *,
    language: str = "",
    task: TaskName = "translation",
    metrics: Sequence[str] = (),
    sources: Sequence[str] | None = None,
) -> Scores:
    """Score outputs against references.

    Args:
        outputs: One text for each reference.
        references: The expected texts.
        language: The language of the outputs, for METEOR's stemmer and for Chinese.
        task: The task, which determines the metrics.
        metrics: More metrics: ROUGE-1, ROUGE-2, CIDEr, or one that an installed package offers.
        sources: The sources, for metrics of packages that read them.

    Raises:
        UserError: The numbers of texts differ, or a metric is unknown.
    """
    from subgraft.evaluation.metrics.sentence_statistics import plugin_score, plugin_statistics

    one_of("task", task, [name for name, facts in TASKS.items() if facts.metrics])
    for name, texts in (("outputs", outputs), ("references", references)):
        if isinstance(texts, str):
            raise ArgumentError("expected a list of texts, found one string", where=name)
    plugins = package_metrics(metrics)
    check_parallel(outputs, references)
    names = (*TASKS[task].metrics, *(name for name in FURTHER_METRICS if name in metrics))
    scores = list(corpus_scores(outputs, references, language, names).values())
    for plugin in plugins:
        scores.append(plugin_score(plugin, plugin_statistics(plugin, sources, outputs, references, language)))
    return Scores(tuple(scores))


def package_metrics(names: Sequence[str]) -> list[Plugin]:
    """The metrics that installed packages offer. Raises UserError for an unknown name."""
    from subgraft.evaluation.metrics.sentence_statistics import plugin_metric

    return [plugin_metric(name) for name in dict.fromkeys(names) if name not in FURTHER_METRICS]


@dataclass(frozen=True)
class ComparedScore:
    """A corpus score of one list of outputs, its 95 % interval, and the p-value of its difference from the first's."""

    name: str
    metric: str
    value: float
    interval: Interval
    p_value: float | None
    signature: str


def compare_outputs(
    outputs: Mapping[str, Sequence[str]],
    references: Sequence[str],
    *,
    language: str = "",
    test: Literal["bs", "ar"] = "bs",
    metrics: Sequence[MetricName] = SACREBLEU,
) -> list[ComparedScore]:
    """Test outputs against the first ones by sacrebleu's paired tests, of BLEU, chrF and TER.

    Args:
        outputs: By name, one text for each reference.
        references: The expected texts.
        language: The language of the outputs.
        test: Paired bootstrap resampling, or approximate randomization.
        metrics: Those of them to compute.

    Raises:
        UserError: The numbers of texts differ.
    """
    from sacrebleu.significance import PairedTest

    for name, texts in outputs.items():
        check_parallel(texts, references, name)
    systems: list[tuple[str, Sequence[str]]] = [(name, list(texts)) for name, texts in outputs.items()]
    scorers: dict[str, Any] = {name: sacrebleu_metric(name, language) for name in metrics}
    paired = PairedTest(systems, scorers, [list(references)], test_type=test, n_ar_confidence=0)  # 0: its default
    signatures, results = paired()
    by_label: Any = results
    return [
        ComparedScore(
            name,
            metric,
            float(result.score),
            Interval(float(result.mean - result.ci), float(result.mean + result.ci)),
            # Where nothing differs, sacrebleu's bootstrap reports the least p-value that it can.
            None if result.p_value is None else 1.0 if texts == systems[0][1] else float(result.p_value),
            str(signatures[label]),
        )
        for metric, label in zip(metrics, signatures, strict=True)
        for (name, texts), result in zip(systems, by_label[label], strict=True)
    ]
