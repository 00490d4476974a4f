"""What an experiment needs of a corpus that it reads, checked before any step runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from subgraft.base.errors import UserError
from subgraft.config.settings_base import Split
from subgraft.data.sources.features import FeaturesSource
from subgraft.data.sources.labelled import LabelledSource
from subgraft.data.sources.resolved_corpus import ResolvedSource
from subgraft.data.sources.texts import TextsSource
from subgraft.data.text.features import validate_features
from subgraft.data.text.fields import CONVERSATION, FieldKind
from subgraft.data.text.tensors import row_count
from subgraft.modeling.conditioning.settings import SourceName
from subgraft.training.objectives.labelled import LabelledPairsSettings, LabelledSettings, LabelSettings
from subgraft.training.objectives.registry import TaskObjectiveSettings

# By source of a task except text: the kind of its field, and a hint on how to configure one.
_SOURCE_FIELDS: Mapping[SourceName, tuple[FieldKind, str]] = {
    "class": ("label", "Name one: `records: {folder: …, fields: {text: {language: en}, label: {kind: label}}}`."),
    "features": ("tensor", "Give a corpus of kind features, or records with one field of kind tensor."),
}


@dataclass(frozen=True)
class CorpusNeeds:
    """What a corpus must have for one use of it.

    Attributes:
        splits: The splits that are read.
        purpose: The purpose of the last one, if that needs an explanation.
        pairs: Whether the corpus must be parallel.
        one_text: Whether it must be a single text.
        source: What a task writes its text from: except for text, the field that every segment needs.
        conversations: Whether it must have conversations.
        task: Its labelled examples must be of this task, if the task has labels.
        annotations: By objective, the kind of field that it needs of each text.
        documented: The objective that needs documents, if any.
    """

    splits: Sequence[Split]
    pairs: bool
    purpose: str = ""
    one_text: bool = False
    source: SourceName | None = None
    conversations: bool = False
    task: TaskObjectiveSettings | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    documented: str | None = None

    def check(self, source: ResolvedSource, name: str) -> None:
        """Raises UserError for a corpus, `corpora.NAME`, that lacks one, or whose local files cannot be used."""
        where = f"corpora.{name}"
        if isinstance(self.task, LabelledSettings | LabelledPairsSettings):
            _require_labels(source, self.task, where)
        self._require_texts(source, where)
        self._require_splits(source, where)
        self._require_source(source, where)
        for objective, kind in self.annotations.items():
            _require_annotation(source, kind, objective, where)
        if self.documented:
            self._require_documents(source, where)
        if self.conversations and not any(field.kind == CONVERSATION for field in source.fields):
            hint = (
                "Write `conversations: {folder: …}`, or `conversations: {pairs: …, prompt: …}` for a corpus of pairs."
            )
            raise UserError("conversations are needed, and this corpus has none", where=where, hint=hint)

    def _require_texts(self, source: ResolvedSource, where: str) -> None:
        if self.one_text and not source.monolingual:
            hint = "Name one text of it: a folder of {train,dev,test}.{language}, or files with one path per split."
            raise UserError("two texts, where one is needed that is continued", where=where, hint=hint)
        if self.pairs and not source.parallel:
            hint = "Text of one side can be denoised (upstream.objectives); a task needs pairs."
            content = "one language and one side" if source.monolingual else "texts that are not parallel"
            raise UserError(f"{content}, where pairs are needed", where=where, hint=hint)

    def _require_splits(self, source: ResolvedSource, where: str) -> None:
        missing = [split for split in self.splits if split not in source.splits]
        if missing:
            hint = f"It has: {', '.join(source.splits)}."
            reason = f" for {self.purpose}" if self.purpose and missing == [self.splits[-1]] else ""
            raise UserError(f"the experiment needs its {missing[0]} split{reason}", where=where, hint=hint)
        if source.on_disk:
            for split in source.splits:
                source.size(split)

    def _require_source(self, source: ResolvedSource, where: str) -> None:
        if self.source is None or self.source == "text":
            return
        kind, hint = _SOURCE_FIELDS[self.source]
        fields = [field.name for field in source.fields if field.kind == kind]
        if len(fields) != 1:
            message = f"it has {len(fields)} fields of kind {kind}, where one is needed that is written for"
            raise UserError(message, where=where, hint=hint)
        if self.source == "features" and source.on_disk and not isinstance(source, FeaturesSource):
            files = {split: source.tensor(split, fields[0]) for split in source.splits}
            for split in files:
                validate_features(files, split, fields[0], row_count(files[split], fields[0]))

    def _require_documents(self, source: ResolvedSource, where: str) -> None:
        parts = source.parts.values() if isinstance(source, TextsSource) else (source,)
        if not all(part.documented for part in parts):
            raise UserError(
                f"the objective {self.documented} reads documents, and this corpus does not mark them",
                where=where,
                hint="Give records with `document`, verses, or plain text with `documents: blank-lines` or `files`.",
            )


def _require_annotation(source: ResolvedSource, kind: str, objective: str, where: str) -> None:
    annotated = {field.of for field in source.fields if field.kind == kind}
    if missing := [field.name for field in source.fields if field.kind == "text" and field.name not in annotated]:
        hint = f"Write records with such a field: `{{kind: {kind}, of: TEXT}}`."
        message = f"the objective {objective} needs the {kind} of each text, and '{missing[0]}' has none"
        raise UserError(message, where=where, hint=hint)


def _require_labels(source: ResolvedSource, learnt: LabelledSettings | LabelledPairsSettings, where: str) -> None:
    """Labelled examples of this task, with classes that suit its scores."""
    task = learnt.task
    if not isinstance(source, LabelledSource):
        write = "Write `labelled: {folder: …}` with the columns of the task."
        raise UserError(f"`task: {task}` needs labelled examples, and this corpus has none", where=where, hint=write)
    if source.settings.task != task:
        message = f"its columns are those of {source.settings.task}, and the experiment's task is {task}"
        raise UserError(
            message, where=where, hint=f"Write `task: {source.settings.task}`, or name the columns of {task}."
        )
    if learnt.labels != LabelSettings() and source.on_disk:
        from subgraft.training.understanding.registry import TASK_CLASSES

        fields = [(column, field) for column, field in enumerate(source.fields) if field.has_classes]
        classes = {
            name for cells in source.read("train") for column, field in fields for name in field.classes(cells[column])
        }
        TASK_CLASSES[task].of_model(sorted(classes), {}).judged_by(learnt.labels, where)
