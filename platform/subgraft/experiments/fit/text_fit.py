"""A fit of a language model to a text: its own vocabulary, an extended one, and perhaps one that replaces it.

All are trained on the same lines in the same order. Recommended is the smallest change that is not worse on the text
and saves tokens, or that is better; never one that makes the model worse on other text.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from math import ceil, floor, log10
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias

from subgraft.base.errors import ArgumentError
from subgraft.base.files import file_digest, require_file
from subgraft.base.limits import MIN_TRAINING_CHARACTERS, MIN_VOCABULARY_SIZE
from subgraft.base.memory import return_freed_memory
from subgraft.base.security.terminal_escaping import printable
from subgraft.config.corpora import UNDETERMINED, Cleaning, Languages
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.training import TIED_EMBEDDING_RATIO
from subgraft.data.tasks.registry import TaskName
from subgraft.data.text.text_files import TextFiles
from subgraft.evaluation.reporting.continuation import continuation_table, summarise_bits
from subgraft.evaluation.reporting.numbers import duration, fixed
from subgraft.experiments.fit.base_model import BaseModelFacts
from subgraft.experiments.fit.choices import QUICK_SEEDS, SEEDS
from subgraft.experiments.fit.commented_yaml import Commented, Section, to_yaml
from subgraft.experiments.fit.configuration import HEADER, OLD, USUAL_LENGTH, Machine, runtime_of
from subgraft.experiments.fit.outcome import Outcome
from subgraft.experiments.fit.preview_page import render
from subgraft.experiments.fit.session import FitRequest, FitSession, machine
from subgraft.experiments.fit.split import Documents, Split, split
from subgraft.experiments.fit.tokenization_report import measure_lines
from subgraft.experiments.fit.vocabulary_preview import EXAMPLES, MAX_ADDED, preview_vocabularies
from subgraft.experiments.session import Session
from subgraft.experiments.steps.inputs import checkpoint_digest
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.tokenizers import checkpoint_languages
from subgraft.pipeline.measurements.forgetting import summarise_upstream_bits
from subgraft.subwords.vocabulary.extend import Extender
from subgraft.subwords.vocabulary.learn import kind_like
from subgraft.subwords.vocabulary.lost_text import lost_text
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.causal import CausalSettings
from subgraft.training.objectives.compute.causal import line_bits

if TYPE_CHECKING:
    from subgraft.base.terminal import Table

Separator: TypeAlias = Literal["eos", "bos"]
SEPARATORS: tuple[Separator, ...] = ("eos", "bos")
# Texts have any length.
CLEANING = Cleaning(max_characters=None, max_ratio=None)
UNTIED, EXTENDED, REPLACED = "untied", "extended", "replaced"
# A model may have this many bits per character more than the one with the old vocabulary, and is called not worse.
MARGIN = 0.01
# Measured on SmolLM2: docs/measurements/pretrained-language-model.md.
LEARNING_RATE, NEW_EMBEDDING_LEARNING_RATE = 2e-4, 1e-3
UPDATE, LARGE_UPDATE, MANY_CHARACTERS = 2000, 4000, 500_000  # characters
PASSES, MAX_CHARACTERS, QUICK_CHARACTERS = 2, 1_000_000, 100_000
# In the folder's identity: what a fit within hours has decided.
_READ = "characters read"
EVALUATED_AT = (0.1, 0.2, 0.4, 0.7, 1.0)  # of the updates
# Lines of the other text whose bits are measured, and the fewest that say something.
MAX_OTHER, FEWEST_OTHER = 200, 20
# A new subword occurs so often in what a training reads: docs/measurements/pretrained-language-model.md.
EXAMPLES_READ = 20
# Of the training of fitted embeddings, each of 1,000 tokens: the same page.
FITTED_UPDATES = 50
# Dev lines on which the tokens that may begin a text are compared.
MAX_COMPARED = 20
# Weights, gradients, moments and best weights of a larger model leave no memory for a second training.
LARGE = 50_000_000


@dataclass(frozen=True, kw_only=True)
class TextFitRequest(FitRequest):
    """The user's request; `files` are files or folders of the text.

    Attributes:
        other: Files or folders of text on which the model must not become worse.
        field: The column of the text in JSON lines and Parquet.
        only_this_text: Whether the model is for this text alone, so that its vocabulary may be replaced.
        characters: How many characters each training reads; None for a number that suits the text, or the hours.
        hours: How long the fit may take on this machine; less if two passes over the text are shorter.
    """

    other: tuple[Path, ...] = ()
    field: str = "text"
    only_this_text: bool = False
    characters: int | None = None
    hours: float | None = None


@dataclass(frozen=True)
class TextOutcome(Outcome):
    """That of a language model."""

    def table(self) -> Table:
        return continuation_table(self.data).rich()

    def rows(self) -> list[dict[str, object]]:
        data, bits = self.data, summarise_bits(self.data)
        other, _ = summarise_upstream_bits(data)
        return [
            {
                "system": name,
                "bits per character": bits[name].mean,
                **({"bits per character of other text": other[name].mean} if other else {}),
                "tokens per line": fmean(result.tokens_per_sentence for result in data.results(name)),
                "prompts per second": fmean(result.sentences_per_second for result in data.results(name)),
            }
            for name in data.system_names
        ]


class TextFit(FitSession):
    """A fit of a language model to a text."""

    outputs = "continuations"
    files = "text"
    outcome: ClassVar[type[Outcome]] = TextOutcome
    corpus: ClassVar[Section] = {"folder": "text/task"}
    # Test examples of the report, under `quick` too; None for all.
    tested: tuple[int, int] | None = None
    # Tokens of an example at least, if the model takes as many.
    max_length = 512
    _request: TextFitRequest

    @property
    def _task(self) -> TaskName:
        return "continuation"

    def _read(self) -> Split:
        """Train, dev and test lines, each as a pair with itself, as the parts of a corpus in one language are."""
        return split_text(TextFiles(self._request.files, self._request.field))

    def _task_files(self, text: Split) -> Mapping[str, Sequence[str]]:
        """The lines of each file of the task's corpus."""
        return text_files(text, self._languages.target)

    def _task_languages(self, request: FitRequest) -> Languages:
        languages = request.languages or checkpoint_languages(request.model.directory)
        language = languages.target if languages else UNDETERMINED
        if request.languages and request.languages.source != language:
            hint = f"Give {language}-{language}, or leave it out."
            raise ArgumentError("the text is in one language", where="languages", hint=hint)
        return Languages(source=language, target=language)

    @cached_property
    def _identity(self) -> dict[str, object]:
        request = self._request
        return {
            "model": checkpoint_digest(request.model.directory),
            self.files: _digests(request.files, request.field),
            "other": _digests(request.other, request.field),
            "languages": self._languages.name,
            "quick": request.quick,
            "characters": request.characters,
            "hours": request.hours,
            "only this text": request.only_this_text,
        }

    def _prepare(self) -> Session:
        request, old = self._request, self._request.model.tokenizers["decoder"]
        self._heading("Text")
        text = self._read()
        train = [line for line, _ in text.train]
        self._say(
            f"{len(train):,} {text.kind} to train on, {len(text.dev):,} dev, {len(text.test):,} test; {text.summary}"
        )
        other = self._read_other()
        self._heading("Vocabularies")
        self._console.print(render(preview_vocabularies(old, train), None, continues=True))
        characters, extender = sum(map(len, train)), Extender.of(old, train)
        read = request.characters or characters_to_read(characters, quick=request.quick)
        extension = self._extension(extender, train, characters, read)
        replaced = measure_lines(request.model, train, kind_like(old), min_count=1) if request.only_this_text else None
        if replaced:
            self._warn_of_lost_text(old, replaced.vocabulary, train)
        configuration = _Configuration(
            self._name,
            request.model,
            self._task,
            self._languages.target,
            corpus=self.corpus,
            separator=self._separator(text),
            extension=extension,
            replaced=len(replaced.vocabulary) if replaced else None,
            training=TextTraining.of(read),
            machine=machine(),
            quick=request.quick,
            max_lost_lines=request.max_lost_lines,
            other=len(other[1]) if other else None,
            tested=self.tested[request.quick] if self.tested else None,
            max_length=self.max_length,
        )
        earlier = self._folder.identity.get(_READ)
        self._folder.claim(self._identity)
        files = {f"task/{name}": lines for name, lines in self._task_files(text).items()}
        self._folder.write_lines({**files, **_other_files(other, self._languages.target)})
        if request.hours is not None:
            # Another measurement would make another experiment of a fit that is continued.
            read = earlier if isinstance(earlier, int) else self._within_hours(configuration)
            read = min(read, PASSES * characters)
            self._folder.claim({**self._identity, _READ: read})
            if examples_needed(characters, read) != extension.min_count:
                extension = self._extension(extender, train, characters, read)
            configuration = replace(configuration, extension=extension, training=TextTraining.of(read))
        session = self._open_session(configuration.yaml())
        self._say(configuration.in_words)
        return session

    def _within_hours(self, configuration: _Configuration) -> int:
        """How many characters each training may read, so that the fit ends in time on this machine.

        Raises ArgumentError with the least time if starts, dev scores and tests leave too little for the updates.
        """
        self._folder.write_configuration(configuration.yaml())
        session = Session(load(self._folder.configuration, Experiment), self._folder.out)
        planned, characters = session.plan(), configuration.training.characters
        without, whole = (self._expected(session, planned, finetuned=share) for share in (0.0, 1.0))
        if without is None or whole is None:
            what = "how long an update of this model takes is not known"
            raise ArgumentError(what, where="hours", hint="Give `characters`.")
        spent = time.monotonic() - self._started
        hours, fixed_seconds = self._request.hours or 0.0, spent + without.seconds
        seconds = max(1e-9, whole.seconds - without.seconds) / characters  # of a character, in all trainings
        read = int(max(0.0, 3600 * hours - fixed_seconds) / seconds)
        if read < MIN_TRAINING_CHARACTERS:
            least = _hours_rounded_up(1.1 * (fixed_seconds + MIN_TRAINING_CHARACTERS * seconds))
            hint = (
                f"Give {least:g} or more: starts, dev scores and tests take {duration(fixed_seconds)}, "
                f"{MIN_TRAINING_CHARACTERS:,} characters {duration(MIN_TRAINING_CHARACTERS * seconds)}."
            )
            raise ArgumentError(f"{hours:g} hours are too few for this fit", where="hours", hint=hint)
        return read

    def _read_other(self) -> tuple[list[str], list[str]] | None:
        """Lines of the other text: for an upstream corpus, and a test set. None if there is no other text."""
        request = self._request
        if not request.other:
            return None
        lines = list(chain.from_iterable(TextFiles(request.other, request.field).documents()))
        step = max(2, len(lines) // MAX_OTHER)
        test = lines[::step][:MAX_OTHER]
        if len(test) < FEWEST_OTHER:
            hint = f"Give {2 * FEWEST_OTHER} or more."
            raise ArgumentError(f"{len(lines):,} lines of other text are too few", where="other", hint=hint)
        self._say(f"other text: {len(lines):,} lines, of which {len(test):,} are tested")
        return [line for index, line in enumerate(lines) if index % step], test

    def _extension(self, extender: Extender, train: Sequence[str], characters: int, read: int) -> _Extension:
        """The extension by all subwords that are frequent enough in what is read of the text's characters."""
        old, min_count = extender.tokenizer, examples_needed(characters, read)
        extended = extender.extend_at_most(MAX_ADDED, min_count)
        added = len(extended) - len(old)
        if added < MIN_VOCABULARY_SIZE:
            hint = "Keep the vocabulary, and train the model by `subgraft.finetune` in Python; or give more text."
            if min_count > EXAMPLES:
                hint = f"Read more than {read:,} characters of it (`characters`), or keep the vocabulary."
            raise ArgumentError(
                f"{added} subwords that the model lacks occur {min_count:,} times in the text, as new embeddings need: "
                f"an extension has {MIN_VOCABULARY_SIZE} or more",
                where="text",
                hint=hint,
            )
        self._warn_of_lost_text(old, extended, train)
        return _Extension(added, min_count)

    def _separator(self, text: Split) -> Separator:
        best, bits = text_separator(self._request.model, [line for line, _ in text.dev])
        if bits:
            listed = ", ".join(f"{role} {fixed(bits[role], 3)}" for role in bits)
            self._say(
                f"texts begin and end with the model's {best} token (bits per character before training: {listed})"
            )
        return best

    def _warn_of_lost_text(self, old: Tokenizer, vocabulary: Tokenizer, train: Sequence[str]) -> None:
        loss = lost_text(old, vocabulary, train).warning(self._request.max_lost_lines, "max_lost_lines", ArgumentError)
        if loss:
            self._say(printable(f"warning: {loss}"))


def _hours_rounded_up(seconds: float) -> float:
    """To two digits."""
    hours = seconds / 3600
    step = 10.0 ** (floor(log10(hours)) - 1)
    return round(ceil(hours / step) * step, 6)


def text_separator(model: BaseModelFacts, dev: Sequence[str]) -> tuple[Separator, Mapping[Separator, float]]:
    """The special token with which dev lines begin and end most probably, and bits per character with each.

    A Llama or Gemma has read a beginning before each text, a GPT-2 the end of another text. Nothing is measured for a
    model with one such token.
    """
    special = model.tokenizers["decoder"].special
    roles = [role for role in SEPARATORS if role in special]
    if len({special[role] for role in roles}) < 2:
        return next(iter(roles), "eos"), {}
    bundle, lines = Bundle.load(model.directory), dev[:: max(1, len(dev) // MAX_COMPARED)]
    sums = {
        role: line_bits(bundle, lines, CausalSettings(packed=False, separator=role)).sum(axis=0) for role in SEPARATORS
    }
    del bundle
    return_freed_memory()
    measured = {role: float(bits / max(1.0, characters)) for role, (bits, characters) in sums.items()}
    return min(measured, key=measured.__getitem__), measured


def split_text(files: TextFiles) -> Split:
    """Train, dev and test lines, each as a pair with itself, as the parts of a corpus in one language are."""
    documents = (tuple((line, line) for line in document) for document in files.documents())
    return split(Documents(tuple(documents)), CLEANING, "lines")


def _digests(paths: tuple[Path, ...], field: str) -> list[str]:
    return [file_digest(require_file(file)) for file in TextFiles(paths, field).files]


def text_files(text: Split, language: str) -> dict[str, Sequence[str]]:
    """The lines of each file of a corpus: SPLIT.LANGUAGE."""
    return {f"{name}.{language}": [line for line, _ in pairs] for name, pairs in text.parts.items()}


def _other_files(other: tuple[list[str], list[str]] | None, language: str) -> dict[str, Sequence[str]]:
    if other is None:
        return {}
    return {f"other/train.{language}": other[0], f"other/test.{language}": other[1]}


def characters_to_read(characters: int, *, quick: bool = False) -> int:
    """How many characters of a text of this size each training reads if nothing is requested."""
    return min(PASSES * characters, QUICK_CHARACTERS if quick else MAX_CHARACTERS)


def examples_needed(characters: int, read: int) -> int:
    """How often a new subword occurs in a text of so many characters, if each training reads so many of them."""
    return max(EXAMPLES, ceil(EXAMPLES_READ * characters / read))


class TextTraining(NamedTuple):
    """The updates of each training, and the characters of an update."""

    steps: int
    batch_size: int

    @classmethod
    def of(cls, characters: int) -> TextTraining:
        """Of so many characters, counted as often as they are read."""
        size = LARGE_UPDATE if characters > MANY_CHARACTERS else UPDATE
        return cls(max(10, characters // size), size)

    @property
    def characters(self) -> int:
        return self.steps * self.batch_size

    @property
    def evaluate_at(self) -> list[int]:
        return sorted({max(1, round(share * self.steps)) for share in EVALUATED_AT})


class _Extension(NamedTuple):
    """The subwords that are added to the old vocabulary, and how often each occurs in the text at least."""

    added: int
    min_count: int


@dataclass(frozen=True)
class _Configuration:
    """The contents of a fit's configuration.

    corpus: The source of the task's corpus.
    replaced: The size of the vocabulary that replaces the old one, if any.
    other: Lines of the other text's test set, if there is one.  tested: Test examples; None for all.
    """

    name: str
    model: BaseModelFacts
    task: TaskName
    language: str
    corpus: Section
    separator: Separator
    extension: _Extension
    replaced: int | None
    training: TextTraining
    machine: Machine
    quick: bool
    max_lost_lines: float
    other: int | None
    tested: int | None
    max_length: int

    @property
    def seeds(self) -> tuple[int, ...]:
        return QUICK_SEEDS if self.quick else SEEDS

    @property
    def in_words(self) -> str:
        """The systems and their training."""
        untied = f" {UNTIED}: with output embeddings of its own, which are now tied." if self.model.is_tied else ""
        replaced = "" if self.replaced is None else f" {REPLACED}: {self.replaced:,} subwords of the text alone."
        seeds = f"{len(self.seeds)} seed{'s' * (len(self.seeds) > 1)}"
        return (
            f"{OLD}: the model's own vocabulary.{untied} {EXTENDED}: {self.extension.added:,} subwords more, each "
            f"{self.extension.min_count:,} times or more in the text.{replaced} Each for {self.training.steps:,} "
            f"updates of {self.training.batch_size:,} characters, at {LEARNING_RATE:g}, under {seeds}."
        )

    def yaml(self) -> str:
        """The file's text."""
        return HEADER.format("docs/measurements/pretrained-language-model.md") + to_yaml(self.settings())

    def settings(self) -> Section:
        """All settings, with comments on the choices."""
        model = self.model
        corpora: dict[str, Any] = {"task": self.corpus}
        upstream: dict[str, Any] = {"checkpoint": model.checkpoint}
        if self.other is not None:
            reason = "its test set shows what the model forgets"
            corpora["other"], upstream["corpus"] = Commented({"folder": "text/other"}, reason), "other"
        objectives = [{"kind": "causal", "separator": self.separator}]
        upstream["objectives"] = Commented(objectives, "texts begin and end with this token")
        vocabulary = {"kind": kind_like(model.tokenizers["decoder"]), "mode": "extend", "size": self.extension.added}
        counts = {"min_count": self.extension.min_count, "max_lost_lines": self.max_lost_lines}
        return {
            "name": self.name,
            "preset": "small",
            "task": self.task,
            "languages": {"source": self.language, "target": self.language},
            "seeds": list(self.seeds),
            "corpora": Commented(corpora, "train, dev and test, as the fit has split your files"),
            "cleaning": CLEANING.model_dump(include={"max_characters", "max_ratio"}),
            "upstream": Commented(upstream, model.name),
            "downstream": {"corpus": "task", "vocabulary": vocabulary | counts},
            "systems": self._systems(),
            **self._fitted_training(),
            "finetune": finetuning(self.training, model, self.max_length),
            "evaluation": self._evaluation(),
            "runtime": self._runtime(),
        }

    def _systems(self) -> list[Any]:
        """The old vocabulary, of a tied model also untied like the extended one, which has two changes; the others.

        Untied embeddings that learn as fast as the body gain 0.01 bits, and lose 0.1 on other text, if there is one.
        """
        new: dict[str, Any] = {"new_embedding_learning_rate": NEW_EMBEDDING_LEARNING_RATE}
        untied: dict[str, Any] = {}
        if self.model.is_tied:
            untied = {"untie": True} if self.other else {"untie": True, "embedding_learning_rate": LEARNING_RATE}
        systems: list[Any] = [{"name": OLD, "vocabulary": "upstream"}]
        if untied:
            system = {"name": UNTIED, "vocabulary": "upstream", **untied}
            systems.append(Commented(system, "output embeddings of its own, which the extended vocabulary gets too"))
        start = {"initialiser": "fitted", **untied} if self.model.is_decoder else {"initialiser": "mean"}
        systems.append({"name": EXTENDED, **start, **new})
        if self.replaced is not None:
            replacing = {"vocabulary_mode": "replace", "vocabulary_size": self.replaced, "vocabulary_min_count": 1}
            systems.append({"name": REPLACED, "initialiser": "mean", **new, **replacing})
        return systems

    def _fitted_training(self) -> Section:
        if not self.model.is_decoder:
            return {}
        longest = self.model.max_length or USUAL_LENGTH
        length = {"max_length": longest} if longest < USUAL_LENGTH else {}
        return {"fitted_training": {"epochs": None, "max_steps": FITTED_UPDATES, **length}}

    def _evaluation(self) -> Section:
        return {
            "beam": 1,
            "speed_sentences": 16,
            "max_length_ratio": Commented(1.0, "a continuation is as long as its prompt"),
            **({"speed_repeats": 1} if self.quick else {}),
            **({} if self.tested is None else {"test_sentences": self.tested}),
            **({} if self.other is None else {"upstream_sentences": self.other}),
        }

    def _runtime(self) -> Commented:
        trainings = len(self._systems()) * len(self.seeds)
        return runtime_of(self.machine, trainings=1 if self.model.parameters > LARGE else trainings)


def finetuning(training: TextTraining, model: BaseModelFacts, max_length: int) -> Section:
    """The settings of `finetune`; others are those of language models that others pretrained."""
    longest = max_length if model.max_length is None else min(model.max_length, max_length)
    tied_rate = round(TIED_EMBEDDING_RATIO * LEARNING_RATE, 12)
    rate = Commented(tied_rate, "each update moves all rows of a table that is also the output's")
    return {
        "epochs": None,
        "max_steps": training.steps,
        "evaluate_at": training.evaluate_at,
        "batch_size": Commented(training.batch_size, "the same lines for every vocabulary"),
        "batch_unit": "characters",
        "learning_rate": LEARNING_RATE,
        **({"embedding_learning_rate": rate} if model.is_tied else {}),
        **({} if longest == TextFit.max_length else {"max_length": longest}),
    }
