"""A fit as a configuration: the YAML that `subgraft run` reads, with comments on the choices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from subgraft.config.corpora import Languages
from subgraft.config.settings_base import MAX_LOST_LINES, VocabularyKind
from subgraft.data.tasks.registry import TaskName
from subgraft.experiments.fit.base_model import BaseModelFacts
from subgraft.experiments.fit.choices import SELECT, VOCADT, Choice

# The names of the systems. The first is the baseline.
OLD, OWN = "old", "own"
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

    def yaml(self) -> str:
        """The file's text."""
        parts = (self._head(), self._domains(), self._systems(), self._training(), self._evaluation())
        return "\n".join(part.strip("\n") + "\n" for part in parts)

    @property
    def task(self) -> TaskName:
        return task_of(self.languages)

    @property
    def kind(self) -> VocabularyKind:
        """Of the new vocabulary."""
        return self.model.vocabulary_kind

    @property
    def source(self) -> str:
        """The corpus's source."""
        return f"{{folder: {self.corpus}}}"

    @property
    def _unit(self) -> str:
        """Of batches."""
        return "target characters"

    def _head(self) -> str:
        return f"""
# Written by `subgraft fit`, which writes it again: change a copy. `subgraft run` on this file is the same experiment.
# Where the figures come from: subgraft/experiments/fit/choices.py and docs/results.md.
name: {self.name}
preset: small
task: {self.task}
{self._languages}
seeds: [{", ".join(map(str, self.choice.seeds))}]
{self._sides}
corpora:   # train, dev and test, as the fit has split your files
{self._corpora}
"""

    @property
    def _languages(self) -> str:
        if not self.directions:
            return f"languages: {{source: {self.languages.source}, target: {self.languages.target}}}"
        lines = (
            f"  - {{source: {pair.source}, target: {pair.target}, corpus: {pair.name}}}" for pair in self.directions
        )
        return "\n".join(["directions:   # one model for all of them; the report is about the first", *lines])

    @property
    def _corpora(self) -> str:
        if not self.directions:
            return f"  {self.corpus}: {self.source}"
        return "\n".join(f"  {pair.name}: {{folder: {self.corpus}/{pair.name}}}" for pair in self.directions)

    @property
    def _sides(self) -> str:
        return "sides: [encoder, decoder]   # a vocabulary of the output side alone gained less\n"

    @property
    def _shared(self) -> str:
        return "\n  shared: true   # one vocabulary for both sides"

    def _domains(self) -> str:
        kind, shared = self.kind, self._shared
        files = ", ".join(_quote(str(path.absolute())) for path in self.text)
        text = f"\n  text: {{target: [{files}]}}   # vocabularies are learnt on it too" if files else ""
        lost = "" if self.max_lost_lines == MAX_LOST_LINES else f", max_lost_lines: {self.max_lost_lines}"
        corpus = "" if self.directions else f"\n  corpus: {self.corpus}"
        codes = ", ".join(f"{language}: {initialiser}" for language, initialiser in self.new_languages.items())
        new = f"\n  new_languages: {{{codes}}}   # codes that it lacks" if codes else ""
        return f"""
# {self.model.name}
upstream:
  checkpoint: {_quote(self.model.checkpoint)}
  objectives: [{{kind: {self.model.objective}}}]   # what it was pretrained on{new}
downstream:{corpus}
  vocabulary: {{kind: {kind}, size: {self.vocabulary_size}{lost}}}{shared}{text}
"""

    @property
    def _rates_comment(self) -> str:
        return "Each vocabulary with the learning rate that suits it: under the other's rate either would look worse."

    def _systems(self) -> str:
        return f"""
# {self._rates_comment}
systems:
  - {{name: {OLD}, vocabulary: upstream, learning_rate: {_rate(self.choice.old_rate)}}}
  - {{name: {OWN}, initialiser: {self.choice.initialiser}}}
"""

    def _training(self) -> str:
        choice, max_length = self.choice, self.model.max_length or USUAL_LENGTH
        length = "" if max_length >= USUAL_LENGTH else f"\n  max_length: {max_length}"
        start = f"\nvocadt_training:{length}\n" if choice.initialiser == VOCADT and length else ""
        sentences = "" if choice.sentences is None else f"\n  dev_sentences: {choice.sentences}"
        return f"""{start}
finetune:
  epochs: null
  max_steps: {choice.steps}
  evaluate_at: [{", ".join(map(str, choice.evaluate_at))}]
  batch_size: {choice.batch_size}   # {self._unit}, the same sentences for every vocabulary
  learning_rate: {_rate(choice.learning_rate)}
  embedding_learning_rate: {_rate(choice.embedding_learning_rate)}   # of the tables, where new rows have far to go
  warmup_steps: {choice.warmup_steps}{length}{sentences}
{self._select}"""

    @property
    def _select(self) -> str:
        return f"  select: {SELECT}   # the dev score that picks the weights\n"

    @property
    def _runtime(self) -> str:
        machine, trainings = self.machine, 2 * len(self.choice.seeds)
        cpus_per_step = max(1, machine.cores // trainings)
        runtime = (
            "gpus_per_worker: 1" if machine.gpu else f"cpus_per_step: {cpus_per_step}, evaluate_cpus: {machine.cores}"
        )
        return f"runtime: {{{runtime}}}   # of this machine; no result depends on it\n"

    def _evaluation(self) -> str:
        tested = "" if self.choice.sentences is None else f"\n  test_sentences: {self.choice.sentences}"
        quick = "\n  calibration: false\n  by_token_count: false\n  speed_sentences: 32\n  speed_repeats: 1"
        return f"""
evaluation:
  max_length_ratio: 2.0   # outputs of young models run on: longer ones cost time and are wrong anyway{tested}\
{quick if self.quick else ""}
{self._runtime}"""


def task_of(languages: Languages) -> TaskName:
    """The task; within one language nothing is translated."""
    return "text-to-text" if languages.source == languages.target else "translation"


def _rate(value: float) -> str:
    """A rate in the format of configurations: 5.0e-4."""
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits}e{int(exponent)}"


def _quote(text: str) -> str:
    """Quote a text for YAML."""
    return "'" + text.replace("'", "''") + "'"
