"""The first steps of an experiment: corpora, vocabularies, and models before any transfer."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

from subgraft.base.files import file_digest
from subgraft.config.conditioning import SourceName
from subgraft.config.corpora import Languages
from subgraft.config.experiment import Experiment
from subgraft.config.settings_base import SideName, Split, TextSide
from subgraft.config.systems import System
from subgraft.config.tasks import TASKS
from subgraft.config.vocabularies import SamplingSettings, TaskVocabularySettings, VocabularySettings
from subgraft.data.sources.registry import resolve
from subgraft.data.tasks.pairings import pairing
from subgraft.data.text.fields import texts
from subgraft.data.text.languages import code_token
from subgraft.experiments.decoding_engine import with_engine
from subgraft.experiments.monolingual_data import text_step
from subgraft.experiments.preflight import require_checkpoint, require_corpus, require_source
from subgraft.experiments.vocabulary_steps import adapted_vocabulary_step, imported_vocabulary_step, language_exponent
from subgraft.modeling.hub import pinned, with_revision
from subgraft.orchestration.store.step import Step
from subgraft.pipeline import stages
from subgraft.pipeline.recipes.corpora import CorpusRecipe, TextRecipe
from subgraft.pipeline.recipes.models import AssembleRecipe, BuildRecipe, CheckpointRecipe
from subgraft.pipeline.recipes.training import PretrainRecipe
from subgraft.pipeline.recipes.vocabularies import VocabularyRecipe


class UpstreamSteps:
    """Builds the first steps of an experiment. base: the configuration's folder, where relative paths begin."""

    def __init__(self, experiment: Experiment, base: Path) -> None:
        self.experiment = experiment
        self._base = base.absolute()

    def beside(self, path: str) -> Path:
        """A path of the configuration: relative ones begin where it lies."""
        return self._base / path

    def model_named(self, named: str) -> str:
        """A model of the configuration: a directory relative to it, or else a hub id."""
        beside = self.beside(named)
        return str(beside) if beside.is_dir() else named

    @cached_property
    def upstream_corpus(self) -> Step[CorpusRecipe]:
        """The upstream corpus. Only steps that read it may use this: with a checkpoint there may be none."""
        upstream = self.experiment.upstream
        assert upstream.corpus is not None  # config.agreement has seen to it
        judged = any(objective.needs_dev for objective in upstream.objectives) and self.experiment.pretrains
        needed: tuple[Split, ...] = ("train", "dev") if judged else ("train",)
        purpose = ""
        if self.experiment.evaluation.upstream_sentences is not None:
            needed, purpose = (*needed, "test"), "evaluation.upstream_sentences"
        pairs = any(objective.needs_pairs for objective in upstream.objectives)
        languages = None if upstream.languages == "all" else self.experiment.upstream_languages
        return self._corpus(upstream.corpus, languages, needed, purpose, pairs=pairs)

    @cached_property
    def downstream_corpus(self) -> Step[CorpusRecipe]:
        experiment, pairs = self.experiment, self.experiment.finetuned_on.needs_pairs
        return self._corpus(
            experiment.downstream.corpus,
            experiment.languages,
            ("train", "dev", "test"),
            pairs=pairs,
            one_text=not pairs,
            source=TASKS[experiment.task].source,
        )

    @cached_property
    def text(self) -> Step[TextRecipe] | None:
        """Monolingual text of the task's domain, if there is any."""
        return text_step(self.experiment, self._base, self.downstream_corpus)

    def text_on(self, *sides: TextSide) -> dict[str, Step]:
        """The input `text` of a step that is about these sides; none where there is no such text."""
        return {"text": self.text} if self.text and any(side in self.text.recipe.sides for side in sides) else {}

    def text_of(self, side: SideName) -> TextSide:
        """Which text of the task a side of the model reads or writes: where it is of one text, that one."""
        return "target" if side == "decoder" and self.experiment.finetuned_on.needs_pairs else "source"

    @cached_property
    def pretrained(self) -> Step:
        """The upstream model: learnt here, or a checkpoint, as it is or pretrained further."""
        upstream = self.experiment.upstream
        if upstream.checkpoint is None:
            return self._pretrain(f"pretrain on {upstream.corpus}", _by_role(self.upstream_vocabularies))
        if upstream.continue_pretraining:
            return self._pretrain(f"pretrain further on {upstream.corpus}", {"model": self.checkpoint})
        return self.checkpoint

    @cached_property
    def checkpoint(self) -> Step[CheckpointRecipe]:
        upstream = self.experiment.upstream
        named = upstream.checkpoint or ""
        model = with_revision(self.model_named(named), upstream.revision)
        return from_checkpoint(f"checkpoint {named}", model, require_checkpoint(model, self.experiment))

    def ready_to_translate(self, model: Step) -> Step:
        """The model itself, or the encoder-decoder made from it where it is a masked language model."""
        if all(objective.writes for objective in self.experiment.upstream.objectives):
            return model
        recipe = AssembleRecipe(seed=self.experiment.upstream.seed)
        return Step(stages.ASSEMBLE, f"encoder-decoder of {model.name}", recipe, {"model": model})

    @cached_property
    def vocabularies(self) -> dict[SideName, Step]:
        """The task's own vocabularies; beside a checkpoint they take over the checkpoint's special tokens.

        The decoder's is always there: it is what the report is about.
        """
        return self._own_vocabularies(self.experiment.downstream.vocabulary)

    def vocabularies_of(self, system: System) -> dict[SideName, Step]:
        """The vocabularies of a system's model: the task's, or others by the system's size or count."""
        settings = self._sized(system)
        same = settings == self.experiment.downstream.vocabulary
        return self.vocabularies if same else self._own_vocabularies(settings)

    def _sized(self, system: System) -> TaskVocabularySettings:
        own = {
            "mode": system.vocabulary_mode,
            "size": system.vocabulary_size,
            "min_count": system.vocabulary_min_count,
        }
        given = {name: value for name, value in own.items() if value is not None}
        return self.experiment.downstream.vocabulary.model_copy(update=given)

    def _own_vocabularies(self, settings: TaskVocabularySettings) -> dict[SideName, Step]:
        found: dict[SideName, Step] = {}
        shared = self.experiment.downstream.shared
        sides: tuple[SideName, ...] = ("decoder", "encoder") if "encoder" in self.experiment.sides else ("decoder",)
        for side in sides:
            language = self.text_of("decoder" if shared else side)
            if settings.mode != "replace":
                found[side] = self._adapted(settings, "decoder" if shared else side, "both" if shared else language)
                continue
            step = self._vocabulary(settings, language, self.downstream_corpus, shared=shared)
            if self.experiment.upstream.checkpoint is not None:
                step = Step(step.stage, step.name, step.recipe, {**step.inputs, "model": self.checkpoint})
            found[side] = step
        return found

    def _adapted(self, settings: TaskVocabularySettings, side: SideName, text: TextSide | Literal["both"]) -> Step:
        given = self.experiment.upstream.checkpoint is not None
        upstream = {"model": self.checkpoint} if given else {"vocabulary": self.upstream_vocabularies[side]}
        beside = self.text_on("source", "target") if text == "both" else self.text_on(text)
        return adapted_vocabulary_step(settings, side, text, {"corpus": self.downstream_corpus, **upstream, **beside})

    @cached_property
    def upstream_vocabularies(self) -> dict[SideName, Step]:
        named = self.experiment.upstream.given_vocabulary
        if named is None:
            return self._both_sides(self.experiment.upstream.vocabulary, self.upstream_corpus)
        codes = self._language_codes if self.experiment.model.needs_language_codes else ()
        mask = any(objective.needs_mask for objective in self.experiment.upstream.objectives)
        step = imported_vocabulary_step(self.beside(named), codes=codes, mask=mask, named=named)
        return {"encoder": step, "decoder": step}

    def _task_vocabularies(self, system: System) -> dict[SideName, Step]:
        return self._both_sides(self._sized(system), self.downstream_corpus, shared=self.experiment.downstream.shared)

    @cached_property
    def _joint_vocabularies(self) -> dict[SideName, Step]:
        settings = self.experiment.joint_vocabulary
        return self._both_sides(settings, self.upstream_corpus, self.downstream_corpus)

    def _both_sides(
        self, settings: VocabularySettings, corpus: Step, second: Step | None = None, *, shared: bool = False
    ) -> dict[SideName, Step]:
        """What a model is made with: a vocabulary for each side; where its family has one, of both languages."""
        one = shared or self.experiment.model.one_vocabulary
        decoder = self._vocabulary(settings, "target", corpus, second, shared=one)
        return {"encoder": decoder if one else self._vocabulary(settings, "source", corpus, second), "decoder": decoder}

    def _on_changed_sides(self, vocabularies: Mapping[SideName, Step]) -> dict[SideName, Step]:
        """The given vocabularies on the sides that the experiment changes, the upstream ones elsewhere."""
        if vocabularies["encoder"] is vocabularies["decoder"]:
            return dict(vocabularies)
        return self.upstream_vocabularies | {side: vocabularies[side] for side in self.experiment.sides}

    def begins_with(self, system: System, seed: int) -> Step:
        """The model that a system begins with, before any transfer."""
        corpus = self.experiment.upstream.corpus
        if system.pretraining == "none":
            recipe = BuildRecipe(model=self.experiment.model, seed=seed)
            return Step(stages.BUILD, f"untrained model seed {seed}", recipe, _by_role(self._task_vocabularies(system)))
        if system.pretraining == "sampled":
            sampling = self.experiment.upstream.sampling
            return self._pretrain(f"pretrain on {corpus}, sampled", _by_role(self.upstream_vocabularies), sampling)
        if system.pretraining == "downstream-vocabulary":
            name = f"pretrain on {corpus} with the downstream vocabulary"
            return self._pretrain(name, _by_role(self._on_changed_sides(self._task_vocabularies(system))))
        if system.pretraining == "joint-vocabulary":
            name = f"pretrain on {corpus} with a joint vocabulary"
            return self._pretrain(name, _by_role(self._on_changed_sides(self._joint_vocabularies)))
        return self.pretrained

    def _pretrain(self, name: str, begins: Mapping[str, Step], sampling: SamplingSettings | None = None) -> Step:
        """begins: the vocabularies of a model that is built, or the model that is pretrained further."""
        experiment, upstream = self.experiment, self.experiment.upstream
        recipe = PretrainRecipe(
            objectives=upstream.objectives,
            languages=experiment.upstream_languages,
            model=None if "model" in begins else experiment.model,
            training=experiment.pretrain,
            seed=upstream.seed,
            sampling=sampling,
            language_exponent=language_exponent(upstream, self._base),
        )
        return with_engine(Step(stages.PRETRAIN, name, recipe, {"corpus": self.upstream_corpus} | dict(begins)))

    def _corpus(
        self,
        name: str,
        languages: Languages | None,
        needed: Sequence[Split],
        purpose: str = "",
        *,
        pairs: bool,
        one_text: bool = False,
        source: SourceName | None = None,
    ) -> Step[CorpusRecipe]:
        """languages: of the pair that is wanted; every text of the corpus where None.  pairs: whether it must have two
        sides.  one_text: whether it must have one.  source: what its segments must have to be read, beside texts.
        """
        experiment = self.experiment
        given = experiment.corpora[name]
        resolved = resolve(given, languages, self._base, pairing=pairing(experiment.question_generation))
        require_corpus(resolved, needed, name, purpose, pairs=pairs, one_text=one_text)
        require_source(resolved, source, name)
        recipe = CorpusRecipe(
            identity=dict(resolved.identity()),
            languages=languages,
            texts=None if languages else {text.name: str(text.language) for text in texts(resolved.fields)},
            cleaning=experiment.cleaning,
            questions=experiment.question_generation if given.squad else None,
            source=given,
            base=self._base,
        )
        return Step(stages.CORPUS, f"corpus {name}", recipe)

    def _vocabulary(
        self,
        settings: VocabularySettings,
        side: TextSide,
        corpus: Step,
        second: Step | None = None,
        shared: bool = False,
    ) -> Step:
        """second: a corpus to learn from beside the first.  shared: between both sides, and so of both languages."""
        experiment = self.experiment
        coded = experiment.model.needs_language_codes and experiment.upstream.checkpoint is None
        upstream = experiment.upstream.corpus is not None and corpus is self.upstream_corpus
        own = experiment.upstream_languages if upstream else experiment.languages
        recipe = VocabularyRecipe(
            side="both" if shared else side,
            # A joint vocabulary's weighing has a field of its own.
            settings=VocabularySettings(**settings.model_dump(include=set(VocabularySettings.model_fields))),
            languages=self._language_codes if coded else (),
            weighing=experiment.joint_vocabulary.weighing if second else None,
            marks=self.experiment.marks if upstream and (shared or side == "source") else (),
        )
        language = own.source if side == "source" else own.target
        name = f"vocabulary {language} of {corpus.name}" + (f" and {second.name}" if second else "")
        inputs = {"corpus": corpus} | ({"second": second} if second else {})
        if self.downstream_corpus in (corpus, second):
            inputs |= self.text_on(*(("source", "target") if shared else (side,)))
        return Step(stages.VOCABULARY, name, recipe, inputs)

    @property
    def _language_codes(self) -> tuple[str, ...]:
        """Special tokens of all languages that upstream or downstream text is in, each once."""
        task, texts = self.experiment.languages, self.upstream_corpus.recipe.texts
        pair = self.experiment.upstream_languages
        upstream = (pair.source, pair.target) if texts is None else tuple(texts.values())
        return tuple(dict.fromkeys(code_token(code) for code in (*upstream, task.source, task.target)))


def _by_role(vocabularies: Mapping[SideName, Step]) -> dict[str, Step]:
    return {str(side): step for side, step in vocabularies.items()}


def from_checkpoint(name: str, model: str, directory: Path) -> Step[CheckpointRecipe]:
    """An imported checkpoint: a user's directory, or a model of the hub at the commit of its snapshot."""
    found = pinned(model, directory)
    digest = checkpoint_digest(directory) if Path(model).is_dir() else found
    return Step(stages.CHECKPOINT, name, CheckpointRecipe(digest=digest, model=found))


def checkpoint_digest(directory: Path) -> str:
    """SHA-256 over the names and contents of a checkpoint's files."""
    digest = hashlib.sha256()
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(directory).as_posix()} {file_digest(path)}\n".encode())
    return digest.hexdigest()
