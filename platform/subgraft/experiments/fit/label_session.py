"""A fit of labelled examples: a classifier or tagger with the old vocabulary, and with one of its own."""

from __future__ import annotations

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.tasks import TaskName
from subgraft.experiments.fit.choices import choose_for_labels
from subgraft.experiments.fit.label_configuration import LabelConfiguration
from subgraft.experiments.fit.label_outcome import LabelOutcome
from subgraft.experiments.fit.labelled_split import LabelledSplit, split_labelled
from subgraft.experiments.fit.outcome import Outcome
from subgraft.experiments.fit.session import Asked, FitSession, Prepared, machine
from subgraft.experiments.fit.tokenization_report import measure_lines
from subgraft.experiments.session import Session
from subgraft.modeling.heads import require_head_class
from subgraft.modeling.tokenizers import checkpoint_languages
from subgraft.subwords.vocabulary.learn import kind_like
from subgraft.training.understanding.registry import LABELLED_TASKS

# Of a model whose files name no language: ISO 639's code for an undetermined one.
UNKNOWN = "und"


class LabelFit(FitSession):
    """A fit of labelled examples: of classes, numbers or tags."""

    segment = "a text"
    tested = "predictions"
    files = "labels"
    _examples: LabelledSplit

    def _languages_of(self, asked: Asked) -> Languages:
        languages = asked.languages or checkpoint_languages(asked.model.directory)
        source = languages.source if languages else UNKNOWN
        if asked.languages and asked.languages.target != source:
            raise UserError("labelled texts are in one language", where="--languages", hint=f"Give {source}-{source}.")
        self._examples = split_labelled(asked.files[0], Languages(source=source, target=source))
        require_head_class(asked.model.config, LABELLED_TASKS[self._examples.task].head)
        return Languages(source=source, target=source)

    @property
    def _task(self) -> TaskName:
        return self._examples.task

    def _outcome(self, session: Session) -> Outcome:
        return LabelOutcome.read(session.pipeline, session.store)

    def _prepare(self) -> Prepared:
        asked, examples = self._asked, self._examples
        self._heading("Examples")
        self._say(examples.summary)
        measured = measure_lines(asked.model, examples.lines, kind_like(asked.model.tokenizers["decoder"]))
        self._show_gap(measured)
        configuration = LabelConfiguration(
            name=self._name,
            model=asked.model,
            languages=self._languages,
            vocabulary_size=measured.size,
            choice=choose_for_labels(len(examples.train), asked.model.parameters, quick=asked.quick),
            machine=machine(),
            quick=asked.quick,
            examples=examples,
        )
        self._folder.claim(self._identity)
        self._folder.write_lines({f"{split}.jsonl": examples.records(split) for split in examples.splits})
        return Prepared(self._opened(configuration, measured), measured)
