"""The configuration of a fit of labelled examples."""

from __future__ import annotations

from dataclasses import dataclass

from subgraft.config.settings_base import VocabularyKind
from subgraft.data.tasks.registry import TaskName
from subgraft.experiments.fit.configuration import Configuration
from subgraft.experiments.fit.labelled_split import LabelledSplit
from subgraft.subwords.vocabulary.learn import kind_like


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
    def source(self) -> str:
        columns = "".join(f", {role}: {column}" for role, column in self.examples.columns.items())
        return f"{{labelled: {{folder: {self.corpus}, format: jsonl{columns}}}}}"

    @property
    def _sides(self) -> str:
        return ""

    @property
    def _shared(self) -> str:
        return ""

    @property
    def _select(self) -> str:
        return "  select: score   # of the task, on dev, picks the weights\n"

    @property
    def _unit(self) -> str:
        return "characters"

    @property
    def _rates_comment(self) -> str:
        return "Both with one learning rate; new rows have their own."

    def _evaluation(self) -> str:
        quick = "\nevaluation: {speed_sentences: 32, speed_repeats: 1}\n" if self.quick else "\n"
        return quick + self._runtime
