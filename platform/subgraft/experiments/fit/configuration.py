"""A fit as a configuration: the YAML that `subgraft run` reads, with comments on the choices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from subgraft.config.corpora import Languages
from subgraft.config.settings_base import MAX_LOST_LINES, VocabularyKind
from subgraft.data.tasks.registry import TaskName
from subgraft.experiments.fit.base_model import BaseModelFacts
from subgraft.experiments.fit.choices import SELECT, VOCADT, Choice
from subgraft.experiments.fit.commented_yaml import Commented, Section, to_yaml

# The names of the systems. The first is the baseline.
OLD, OWN = "old", "own"
# The first lines of the file; where its figures come from is to be filled in.
HEADER = """\
# Written by `subgraft fit`, which writes it again: change a copy. `subgraft run` on this file is the same experiment.
# Where the figures come from: {}.
"""
# The length in tokens of a training's sequences, if the model accepts it.
USUAL_LENGTH = 256


@dataclass(frozen=True)
class Machine:
    """The machine's cores, and whether it has a GPU."""

    cores: int
    gpu: bool


@dataclass(frozen=True)
class Configuration:
    """The contents of a fit's configuration.

    new_languages: Those that the model lacks, with the initialiser of each one's code.
    directions: Where there are several, all of them, the first that of `languages`.
    """

    name: str
    model: BaseModelFacts
    languages: Languages
    vocabulary_size: int
    choice: Choice
    machine: Machine
    quick: bool
    text: tuple[Path, ...] = ()
    max_lost_lines: float = MAX_LOST_LINES
    new_languages: Mapping[str, str] = field(default_factory=dict)
    directions: tuple[Languages, ...] = ()

    @property
    def corpus(self) -> str:
        """The name of the corpus, and of its folder next to the configuration."""
        return "text"

    @property
    def task(self) -> TaskName:
        return task_of(self.languages)

    @property
    def kind(self) -> VocabularyKind:
        """Of the new vocabulary."""
        return self.model.vocabulary_kind

    @property
    def source(self) -> Section:
        """The corpus's source."""
        return {"folder": self.corpus}

    @property
    def _unit(self) -> str:
        """Of batches."""
        return "target characters"

    def yaml(self) -> str:
        """The file's text."""
        return HEADER.format("subgraft/experiments/fit/choices.py and docs/results.md") + to_yaml(self.settings())

    def settings(self) -> Section:
        """All settings, with comments on the choices."""
        choice, model, several = self.choice, self.model, bool(self.directions)
        pretrained = Commented([{"kind": model.objective}], "what it was pretrained on")
        upstream: dict[str, Any] = {"checkpoint": model.checkpoint, "objectives": pretrained}
        if self.new_languages:
            upstream["new_languages"] = Commented(dict(self.new_languages), "codes that it lacks")
        lost = {} if self.max_lost_lines == MAX_LOST_LINES else {"max_lost_lines": self.max_lost_lines}
        vocabulary = {"kind": self.kind, "size": self.vocabulary_size, **lost}
        systems = [
            {"name": OLD, "vocabulary": "upstream", "learning_rate": choice.old_rate},
            {"name": OWN, "initialiser": choice.initialiser},
        ]
        length = {} if (model.max_length or USUAL_LENGTH) >= USUAL_LENGTH else {"max_length": model.max_length}
        vocadt = {"vocadt_training": length} if choice.initialiser == VOCADT and length else {}
        return {
            "name": self.name,
            "preset": "small",
            "task": self.task,
            **self._languages(),
            "seeds": list(choice.seeds),
            **self._sides(),
            "corpora": Commented(self._corpora(), "train, dev and test, as the fit has split your files"),
            "upstream": Commented(upstream, model.name),
            "downstream": {
                **({} if several else {"corpus": self.corpus}),
                "vocabulary": vocabulary,
                **self._shared(),
                **self._text(),
            },
            "systems": Commented(systems, self._rates),
            **vocadt,
            "finetune": {**self._finetune(), **length, **self._selection()},
            **self._evaluation(),
            "runtime": runtime_of(self.machine, trainings=2 * len(choice.seeds)),
        }

    def _languages(self) -> Section:
        if not self.directions:
            return {"languages": {"source": self.languages.source, "target": self.languages.target}}
        directions = [{"source": pair.source, "target": pair.target, "corpus": pair.name} for pair in self.directions]
        return {"directions": Commented(directions, "one model for all of them; the report is about the first")}

    def _corpora(self) -> Section:
        if not self.directions:
            return {self.corpus: self.source}
        return {pair.name: {"folder": f"{self.corpus}/{pair.name}"} for pair in self.directions}

    def _sides(self) -> Section:
        return {"sides": Commented(["encoder", "decoder"], "a vocabulary of the output side alone gained less")}

    def _shared(self) -> Section:
        return {"shared": Commented(True, "one vocabulary for both sides")}

    def _text(self) -> Section:
        files = [str(path.absolute()) for path in self.text]
        return {"text": Commented({"target": files}, "vocabularies are learnt on it too")} if files else {}

    @property
    def _rates(self) -> str:
        """A comment on the learning rates."""
        return "each vocabulary with the learning rate that suits it: under the other's rate either would look worse"

    def _finetune(self) -> Section:
        choice = self.choice
        return {
            "epochs": None,
            "max_steps": choice.steps,
            "evaluate_at": list(choice.evaluate_at),
            "batch_size": Commented(choice.batch_size, f"{self._unit}, the same sentences for every vocabulary"),
            "learning_rate": choice.learning_rate,
            "embedding_learning_rate": Commented(
                choice.embedding_learning_rate, "of the tables, where new rows have far to go"
            ),
            "warmup_steps": choice.warmup_steps,
            **({} if choice.sentences is None else {"dev_sentences": choice.sentences}),
        }

    def _selection(self) -> Section:
        return {"select": Commented(SELECT, "the dev score that picks the weights")}

    def _evaluation(self) -> Section:
        reason = "outputs of young models run on: longer ones cost time and are wrong anyway"
        quick = {"calibration": False, "by_token_count": False, "speed_sentences": 32, "speed_repeats": 1}
        return {
            "evaluation": {
                "max_length_ratio": Commented(2.0, reason),
                **({} if self.choice.sentences is None else {"test_sentences": self.choice.sentences}),
                **(quick if self.quick else {}),
            }
        }


def runtime_of(machine: Machine, trainings: int) -> Commented:
    """The settings of where a fit runs. trainings: how many share the machine."""
    cpus = {"cpus_per_step": max(1, machine.cores // trainings), "evaluate_cpus": machine.cores}
    return Commented({"gpus_per_worker": 1} if machine.gpu else cpus, "of this machine; no result depends on it")


def task_of(languages: Languages) -> TaskName:
    """The task; within one language nothing is translated."""
    return "text-to-text" if languages.source == languages.target else "translation"
