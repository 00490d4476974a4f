"""A fit of labelled examples: a classifier or tagger with the old vocabulary, and with one of its own."""

from __future__ import annotations

from subgraft.base.errors import ArgumentError
from subgraft.config.corpora import UNDETERMINED, Languages
from subgraft.data.tasks.registry import TaskName
from subgraft.experiments.fit.choices import choose_for_labels
from subgraft.experiments.fit.label_configuration import LabelConfiguration
from subgraft.experiments.fit.label_outcome import LabelOutcome
from subgraft.experiments.fit.labelled_split import LabelledSplit, split_labelled
from subgraft.experiments.fit.outcome import Outcome
from subgraft.experiments.fit.session import FitRequest, FitSession, PreparedFit, machine
from subgraft.experiments.fit.tokenization_report import measure_lines
from subgraft.experiments.session import Session
from subgraft.modeling.heads import require_head_class
from subgraft.modeling.tokenizers import checkpoint_languages
from subgraft.subwords.vocabulary.learn import kind_like
from subgraft.training.understanding.registry import TASK_CLASSES


class LabelFit(FitSession):
    """A fit of labelled examples: of classes, numbers or tags."""

    segment = "a text"
    outputs = "predictions"
    files = "labels"
    _examples: LabelledSplit

    def _task_languages(self, request: FitRequest) -> Languages:
        languages = request.languages or checkpoint_languages(request.model.directory)
        source = languages.source if languages else UNDETERMINED
        if request.languages and request.languages.target != source:
            raise ArgumentError(
                "labelled texts are in one language", where="languages", hint=f"Give {source}-{source}."
            )
        self._examples = split_labelled(request.files[0], Languages(source=source, target=source))
        require_head_class(request.model.config, TASK_CLASSES[self._examples.task].head)
        return Languages(source=source, target=source)

    @property
    def _task(self) -> TaskName:
        return self._examples.task

    def _outcome(self, session: Session) -> Outcome:
        return LabelOutcome.read(session.pipeline, session.store)

    def _prepare(self) -> PreparedFit:
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
        return PreparedFit(session, measurement.tokens_per_character)
