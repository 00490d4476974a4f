"""The vocabularies of an experiment as steps: learnt, imported, extended or trimmed."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import Literal

from subgraft.base.entries import imported
from subgraft.base.errors import UserError
from subgraft.config.experiment.domains import UpstreamSettings
from subgraft.config.experiment.systems import System
from subgraft.config.settings_base import SideName, TextSide
from subgraft.config.vocabularies import TaskVocabularySettings, VocabularySettings
from subgraft.data.tasks.entities import ENTITY_TOKENS
from subgraft.experiments.steps.inputs import InputSteps
from subgraft.orchestration.store.step import Step
from subgraft.pipeline.stages.vocabularies import (
    AdaptedVocabularyStage,
    ImportedVocabularyStage,
    VocabularyStage,
)
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

_WHERE = "upstream.vocabulary_path"
# Records of how a vocabulary was made, which have the exponent of its languages, and what reads them.
RECORDS = {"allocation.json": "subgraft.contrib.allocation.choice:Allocated"}


def imported_vocabulary_step(
    path: Path, *, codes: Collection[str], mask: bool, name: str
) -> Step[ImportedVocabularyStage]:
    """The step that imports a vocabulary.

    name: its name in the configuration.  codes, mask: special tokens that the model needs.

    Raises UserError if the directory does not exist, or a token is missing.
    """
    if not path.is_dir():
        raise UserError("no such directory", where=f"{_WHERE}: {path}", hint="Give the directory of a vocabulary.")
    tokenizer = Tokenizer.load(path)
    missing = [code for code in codes if code not in tokenizer.languages]
    if missing:
        hint = "Allocate with language_codes: true, over all languages of upstream and downstream text."
        raise UserError(f"it has no token {missing[0]}", where=f"{_WHERE}: {path}", hint=hint)
    if mask and "mask" not in tokenizer.special:
        raise UserError("it has no mask token, which the objective needs", where=f"{_WHERE}: {path}")
    stage = ImportedVocabularyStage(digest=vocabulary_digest(tokenizer), place=path)
    return Step(stage, f"vocabulary {name}")


def vocabulary_digest(tokenizer: Tokenizer) -> str:
    """SHA-256 hex of a vocabulary's entries and its segmentation rules, independent of its location."""
    return hashlib.sha256(f"{tokenizer.fingerprint} {tokenizer.digest}".encode()).hexdigest()


def language_exponent(upstream: UpstreamSettings, base: Path) -> float | None:
    """The exponent of the sampling of upstream languages: configured, or else that of the allocated vocabulary.

    None if all text is used, without sampling. base: the folder to which paths are relative.
    """
    if upstream.language_exponent is not None or upstream.vocabulary_path is None:
        return upstream.language_exponent
    path = base / upstream.vocabulary_path
    if any(objective.needs_pairs for objective in upstream.objectives):
        return None
    readers = (imported(reader) for name, reader in RECORDS.items() if (path / name).is_file())
    return next((reader.read(path).language_exponent for reader in readers), None)


# By default, pieces that occur once are not added, and those that never occur are removed.
MIN_COUNT_ADDED, MIN_COUNT_RETAINED = 2, 1


def adapted_vocabulary_step(
    settings: TaskVocabularySettings,
    side: SideName,
    text: TextSide | Literal["both"],
    inputs: Mapping[str, Step],
) -> Step[AdaptedVocabularyStage]:
    """The vocabulary of a side of the upstream model, by one text of the task or by both.

    inputs: the task's `corpus`, the upstream `vocabulary` or `model`, and further `text`, if any.
    """
    extends = settings.mode == "extend"
    stage = AdaptedVocabularyStage(
        side=text,
        model_side=side,
        added=settings.size if extends else None,
        min_count=settings.min_count or (MIN_COUNT_ADDED if extends else MIN_COUNT_RETAINED),
        words=settings.user_defined_symbols if extends else (),
        max_lost_lines=settings.max_lost_lines,
    )
    owner = "model" if text == "both" else side
    name = f"vocabulary of the {owner}, {'extended' if extends else 'trimmed'} by {inputs['corpus'].name}"
    return Step(stage, name, inputs)


class VocabularySteps:
    """The vocabulary of each side: of the upstream model, of the task, of a system, or of both corpora."""

    def __init__(self, inputs: InputSteps) -> None:
        self.experiment = inputs.experiment
        self._inputs = inputs

    @cached_property
    def downstream(self) -> dict[SideName, Step]:
        """The task's own vocabularies; with a checkpoint they have the checkpoint's special tokens.

        There is always one for the decoder, as the report analyses it.
        """
        return self._own_vocabularies(self.experiment.downstream.vocabulary)

    def of_system(self, system: System) -> dict[SideName, Step]:
        """The vocabularies of a system's model: the task's, or others by the system's size or count."""
        settings = self._sized(system)
        same = settings == self.experiment.downstream.vocabulary
        return self.downstream if same else self._own_vocabularies(settings)

    def _sized(self, system: System) -> TaskVocabularySettings:
        overrides = {
            "mode": system.vocabulary_mode,
            "size": system.vocabulary_size,
            "min_count": system.vocabulary_min_count,
        }
        changes = {name: value for name, value in overrides.items() if value is not None}
        return self.experiment.downstream.vocabulary.model_copy(update=changes)

    def _own_vocabularies(self, settings: TaskVocabularySettings) -> dict[SideName, Step]:
        steps: dict[SideName, Step] = {}
        shared = self.experiment.downstream.shared
        sides: tuple[SideName, ...] = ("decoder", "encoder") if "encoder" in self.experiment.sides else ("decoder",)
        for side in sides:
            language = self._inputs.text_of("decoder" if shared else side)
            if settings.mode != "replace":
                steps[side] = self._adapted(settings, "decoder" if shared else side, "both" if shared else language)
                continue
            step = self._vocabulary(settings, language, self._inputs.downstream_corpus, shared=shared)
            if self.experiment.upstream.checkpoint is not None:
                step = Step(step.stage, step.name, {**step.inputs, "model": self._inputs.checkpoint})
            steps[side] = step
        return steps

    def _adapted(self, settings: TaskVocabularySettings, side: SideName, text: TextSide | Literal["both"]) -> Step:
        has_checkpoint = self.experiment.upstream.checkpoint is not None
        upstream = {"model": self._inputs.checkpoint} if has_checkpoint else {"vocabulary": self.upstream[side]}
        more_text = self._inputs.text_on("source", "target") if text == "both" else self._inputs.text_on(text)
        return adapted_vocabulary_step(settings, side, text, {**self._inputs.training_corpora, **upstream, **more_text})

    @cached_property
    def upstream(self) -> dict[SideName, Step]:
        path = self.experiment.upstream.vocabulary_path
        if path is None:
            return self._both_sides(self.experiment.upstream.vocabulary, self._inputs.upstream_corpus)
        codes = self._inputs.language_codes if self.experiment.model.needs_language_codes else ()
        step = imported_vocabulary_step(self._inputs.path(path), codes=codes, mask=self._needs_mask, name=path)
        return {"encoder": step, "decoder": step}

    @property
    def _needs_mask(self) -> bool:
        return any(objective.needs_mask for objective in self.experiment.upstream.objectives)

    def of_new_model(self, system: System) -> dict[SideName, Step]:
        return self._both_sides(
            self._sized(system), self._inputs.downstream_corpus, shared=self.experiment.downstream.shared
        )

    @cached_property
    def joint(self) -> dict[SideName, Step]:
        settings = self.experiment.joint_vocabulary
        return self._both_sides(settings, self._inputs.upstream_corpus, self._inputs.downstream_corpus)

    def _both_sides(
        self, settings: VocabularySettings, corpus: Step, second: Step | None = None, *, shared: bool = False
    ) -> dict[SideName, Step]:
        """The vocabularies of a new model: one for each side, or a shared one of both languages."""
        is_shared = shared or self.experiment.model.one_vocabulary
        decoder = self._vocabulary(settings, "target", corpus, second, shared=is_shared)
        return {
            "encoder": decoder if is_shared else self._vocabulary(settings, "source", corpus, second),
            "decoder": decoder,
        }

    def on_changed_sides(self, vocabularies: Mapping[SideName, Step]) -> dict[SideName, Step]:
        """The given vocabularies on the sides that the experiment changes, the upstream ones elsewhere."""
        if vocabularies["encoder"] is vocabularies["decoder"]:
            return dict(vocabularies)
        return self.upstream | {side: vocabularies[side] for side in self.experiment.sides}

    def _vocabulary(
        self,
        settings: VocabularySettings,
        side: TextSide,
        corpus: Step,
        second: Step | None = None,
        shared: bool = False,
    ) -> Step:
        """second: another corpus to learn from.  shared: whether both sides share it, so that it has both languages."""
        experiment = self.experiment
        new_model = experiment.upstream.checkpoint is None
        has_codes = experiment.model.needs_language_codes and new_model
        marks = ENTITY_TOKENS if experiment.model.width_of_entities and new_model else ()
        upstream = experiment.upstream.corpus is not None and corpus is self._inputs.upstream_corpus
        pair = experiment.upstream_languages if upstream else experiment.languages
        stage = VocabularyStage(
            side="both" if shared else side,
            # A joint vocabulary's weighing is in a separate field.
            settings=VocabularySettings(**settings.model_dump(include=set(VocabularySettings.model_fields))),
            languages=(*(self._inputs.language_codes if has_codes else ()), *marks),
            mask=has_codes or (self._needs_mask and new_model),
            weighing=experiment.joint_vocabulary.weighing if second else None,
            marks=self.experiment.marks if upstream and (shared or side == "source") else (),
            max_lost_lines=self.experiment.downstream.vocabulary.max_lost_lines,
        )
        language = pair.source if side == "source" else pair.target
        name = f"vocabulary {language} of {corpus.name}" + (f" and {second.name}" if second else "")
        inputs = {"corpus": corpus} | ({"second": second} if second else {})
        if self._inputs.downstream_corpus in (corpus, second):
            inputs = {**self._inputs.training_corpora, **inputs}
            inputs |= self._inputs.text_on(*(("source", "target") if shared else (side,)))
        return Step(stage, name, inputs)
