"""A fit of labelled examples: a classifier or tagger with the old vocabulary, and with one of its own."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, ClassVar

from subgraft.base.errors import ArgumentError
from subgraft.config.corpora import UNDETERMINED, Languages
from subgraft.config.settings_base import VocabularyKind
from subgraft.data.tasks.registry import TaskName
from subgraft.evaluation.reporting.understanding import labelled_table, metric_names, summarise_metric
from subgraft.experiments.fit.choices import choose_for_labels
from subgraft.experiments.fit.commented_yaml import Commented, Section
from subgraft.experiments.fit.configuration import Configuration
from subgraft.experiments.fit.labelled_split import LabelledSplit, split_labelled
from subgraft.experiments.fit.outcome import Outcome
from subgraft.experiments.fit.session import FitRequest, FitSession, machine
from subgraft.experiments.fit.tokenization_report import measure_lines
from subgraft.experiments.session import Session
from subgraft.modeling.heads import require_head_class
from subgraft.modeling.tokenizers import checkpoint_languages
from subgraft.subwords.vocabulary.learn import kind_like
from subgraft.training.understanding.registry import TASK_CLASSES

if TYPE_CHECKING:
    from subgraft.base.terminal import Table


@dataclass(frozen=True, kw_only=True)
class LabelConfiguration(Configuration):
    """The contents of the configuration. The sides, and that they share a vocabulary, follow from the task."""

    examples: LabelledSplit

    @property
    def task(self) -> TaskName:
        return self.examples.task

    @property
    def kind(self) -> VocabularyKind:
        return kind_like(self.model.tokenizers["decoder"])

    @property
    def source(self) -> Section:
        return {"labelled": {"folder": self.corpus, "format": "jsonl", **self.examples.columns}}

    def _sides(self) -> Section:
        return {}

    def _shared(self) -> Section:
        return {}

    def _selection(self) -> Section:
        return {"select": Commented("score", "of the task, on dev, picks the weights")}

    @property
    def _unit(self) -> str:
        return "characters"

    @property
    def _rates(self) -> str:
        return "both with one learning rate; new rows have their own"

    def _evaluation(self) -> Section:
        return {"evaluation": {"speed_sentences": 32, "speed_repeats": 1}} if self.quick else {}


@dataclass(frozen=True)
class LabelOutcome(Outcome):
    """That of a model with a head for labels."""

    def table(self) -> Table:
        return labelled_table(self.data).rich()

    def rows(self) -> list[dict[str, object]]:
        data = self.data
        by_metric = {name: summarise_metric(data, name) for name in metric_names(data)}
        return [
            {
                "system": name,
                **{metric: systems[name].mean for metric, systems in by_metric.items()},
                "tokens per example": fmean(result.tokens_per_sentence for result in data.results(name)),
                "examples per second": fmean(result.sentences_per_second for result in data.results(name)),
            }
            for name in data.system_names
        ]


class LabelFit(FitSession):
    """A fit of labelled examples: of classes, numbers or tags."""

    segment = "a text"
    outputs = "predictions"
    files = "labels"
    outcome: ClassVar[type[Outcome]] = LabelOutcome
    _examples: LabelledSplit

    def _task_languages(self, request: FitRequest) -> Languages:
        languages = request.languages or checkpoint_languages(request.model.directory)
        source = languages.source if languages else UNDETERMINED
        if request.languages and request.languages.target != source:
            raise ArgumentError(
                "labelled texts are in one language", where="languages", hint=f"Give {source}-{source}."
            )
        self._examples = split_labelled(request.files[0], Languages(source=source, target=source), request.columns)
        require_head_class(request.model.config, TASK_CLASSES[self._examples.task].head)
        return Languages(source=source, target=source)

    @property
    def _task(self) -> TaskName:
        return self._examples.task

    def _prepare(self) -> Session:
        request, examples = self._request, self._examples
        self._heading("Examples")
        self._say(examples.summary)
        measurement = measure_lines(request.model, examples.lines, kind_like(request.model.tokenizers["decoder"]))
        self._show_gap(measurement)
        configuration = LabelConfiguration(
            name=self._name,
            model=request.model,
            languages=self._languages,
            vocabulary_size=measurement.size,
            choice=choose_for_labels(len(examples.train), request.model.parameters, quick=request.quick),
            machine=machine(),
            quick=request.quick,
            max_lost_lines=request.max_lost_lines,
            examples=examples,
        )
        self._folder.claim(self._identity)
        self._folder.write_lines({f"{split}.jsonl": examples.records(split) for split in examples.splits})
        session = self._open_session(configuration.yaml())
        self._show_choice(configuration.choice, measurement)
        return session
