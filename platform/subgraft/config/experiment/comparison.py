"""All settings of an experiment, before `validation` has checked that they are consistent."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from subgraft.config.corpora import Cleaning, Languages
from subgraft.config.directions import Direction
from subgraft.config.evaluation import EvaluationSettings, IntrinsicSettings
from subgraft.config.experiment.domains import DownstreamSettings, UpstreamSettings
from subgraft.config.experiment.multitask import FurtherTask, MultitaskSettings, MultitaskTrainingSettings
from subgraft.config.experiment.search import SearchSettings
from subgraft.config.experiment.systems import System
from subgraft.config.models import ModelSettings
from subgraft.config.runtime import Runtime
from subgraft.config.settings_base import Seed, Settings, SideName, VocabularyMode
from subgraft.config.synthetic import BackTranslationSettings, CopiedTextSettings, UnsupervisedSettings
from subgraft.config.training import EmbeddingWarmupSettings, FinetuneSettings, PretrainSettings, TrainingSettings
from subgraft.config.vocabularies import JointVocabularySettings
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.tasks.question_generation import QuestionGenerationSettings
from subgraft.data.tasks.registry import LABELLED_TASKS, TASKS, TaskName
from subgraft.embeddings.methods.method import AnyGeneratorStage, LearningStage, MethodSpec, StartName
from subgraft.embeddings.methods.registry import METHODS, MethodGroups, method_spec
from subgraft.modeling.conditioning.settings import ReadingSettings
from subgraft.training.objectives.conversations import ChatSettings, ConversationSettings
from subgraft.training.objectives.labelled import LabelledPairsSettings, LabelledSettings, LabelSettings
from subgraft.training.objectives.registry import OBJECTIVES, TaskObjectiveSettings, task_objective
from subgraft.training.objectives.translation import DocumentTranslationSettings


class ModelsAndData(Settings):
    """The settings before those of methods.

    name: the experiment's name in the tracker, the registry and the report.
    preset: sizes and trainings that the configuration leaves out.
    task: the task that the model is finetuned for.
    question_generation: for the task of that name: the model's input.
    chat: how conversations are learnt, for the task of that name.
    labels: how a task with labels is learnt and judged.
    languages: the languages that the task reads and writes.
    directions: several language pairs for one model, which is tested on each; `languages` and `downstream.corpus` are
    then omitted and follow from the first pair, which also determines the main table, the subword gap and the selected
    model.
    direction_exponent: α of p^α / Σ p^α, the probability that a finetuning pair is drawn from a direction, where p is
    the direction's share of the pairs; pairs of small directions are repeated within an epoch. null reads each pair
    once per epoch.
    seeds: every system is trained once for each seed.
    sides: the sides whose vocabulary changes.
    corpora: every corpus, by name.
    cleaning: the rules that training pairs must pass.
    upstream: pretraining, or the pretrained checkpoint.
    downstream: the task's corpus and vocabulary.
    conditioning: how systems with `conditioning` read a class, a text or features.
    joint_vocabulary: for systems with `pretraining: joint-vocabulary`.
    model: the architecture of a model that is pretrained here.
    pretrain: the training of the upstream model.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    preset: Literal["small", "gpu", "paper"] = "small"
    task: TaskName = "translation"
    question_generation: QuestionGenerationSettings = QuestionGenerationSettings()
    chat: ChatSettings = ChatSettings()
    labels: LabelSettings = LabelSettings()
    languages: Languages
    directions: tuple[Direction, ...] = ()
    direction_exponent: Annotated[float | None, Field(ge=0, le=1)] = None
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1, max_length=1000)] = (1,)
    sides: Annotated[tuple[SideName, ...], Field(min_length=1)] = ("decoder",)
    corpora: dict[str, CorpusSource]
    cleaning: Cleaning = Cleaning()
    upstream: UpstreamSettings
    downstream: DownstreamSettings
    conditioning: ReadingSettings = ReadingSettings()
    joint_vocabulary: JointVocabularySettings = JointVocabularySettings()
    model: ModelSettings
    pretrain: PretrainSettings


class Comparison(MethodGroups, ModelsAndData):
    """A whole comparison. Omitted settings come from the preset and the task (see `presets`).

    copied_text: how pairs are made for systems of `text: copied`.
    back_translation: the reverse model, for systems of `text: back-translated`, and how it translates.
    unsupervised: for systems with `unsupervised`: how they learn from text without pairs.
    embedding_warmup_training: the training of systems with `embedding_warmup`; required if there is such a system.
    multitask: for systems with `multitask`: the tasks that are learnt together with this one.
    multitask_training: their training; required if there is such a system.
    finetune: the finetuning of all systems.
    systems: the systems to compare.
    evaluation: how models are evaluated.
    intrinsic: also evaluates new embeddings without finetuning; skipped by default.
    search: settings of `subgraft search`; the other commands ignore it.
    runtime: where and how steps run.
    """

    copied_text: CopiedTextSettings = CopiedTextSettings()
    back_translation: BackTranslationSettings = BackTranslationSettings()
    unsupervised: UnsupervisedSettings = UnsupervisedSettings()
    embedding_warmup_training: EmbeddingWarmupSettings | None = None
    multitask: MultitaskSettings | None = None
    multitask_training: MultitaskTrainingSettings | None = None
    finetune: FinetuneSettings
    systems: Annotated[tuple[System, ...], Field(min_length=1, max_length=1000)]
    evaluation: EvaluationSettings = EvaluationSettings()
    intrinsic: IntrinsicSettings | None = None
    search: SearchSettings | None = None
    runtime: Runtime = Runtime()

    @property
    def marks(self) -> tuple[str, ...]:
        """The marks around an answer, which every vocabulary that reads a passage must be able to spell."""
        return self.question_generation.marks if TASKS[self.task].of_questions else ()

    @property
    def upstream_languages(self) -> Languages:
        """The languages of the upstream corpus: the task's, unless upstream.languages names others."""
        languages = self.upstream.languages
        return languages if isinstance(languages, Languages) else self.languages

    @property
    def finetuned_on(self) -> TaskObjectiveSettings:
        """How the task's text is learnt."""
        learnt = task_objective(self.task)
        if isinstance(learnt, ConversationSettings):
            return ConversationSettings(chat=self.chat)
        if learnt.understands:
            return self._labelled_by(self.task, self.downstream.corpus, self.labels)
        return learnt.after(self.upstream.objectives)

    def objective_of(self, system: System) -> TaskObjectiveSettings:
        """How a system learns the task's text: a task with labels by the system's head, documents in blocks."""
        learnt = self.finetuned_on
        if system.documents is not None:
            return DocumentTranslationSettings(block_tokens=system.documents)
        if system.context is not None:
            return OBJECTIVES["context-translation"].model_validate({"sentences": system.context_sentences})
        if system.head is None or not isinstance(learnt, LabelledSettings | LabelledPairsSettings):
            return learnt
        return learnt.model_copy(update={"labels": learnt.labels.model_copy(update={"head": system.head})})

    def trained_on(self, system: System) -> tuple[Direction, ...]:
        """The directions of a system's finetuning; empty in an experiment without directions."""
        names = system.directions
        return tuple(
            direction
            for direction in self.directions
            if (direction.train if names is None else direction.name in names)
        )

    def learnt_with(self, further: FurtherTask) -> TaskObjectiveSettings:
        """How the examples of a task of `multitask` are learnt."""
        return self._labelled_by(further.task, further.corpus, further.labels)

    def _labelled_by(self, task: TaskName, corpus: str, labels: LabelSettings) -> TaskObjectiveSettings:
        """How the labels of a task are learnt; its corpus may decide whether it has pairs of texts."""
        spec, source = LABELLED_TASKS[task], self.corpora.get(corpus)
        examples = source.labelled if source is not None else None
        two = spec.pairs if examples is None else spec.has_pairs(examples)
        return (LabelledPairsSettings if two else LabelledSettings)(task=task, labels=labels)

    @property
    def pretrains(self) -> bool:
        """Whether the upstream model is pretrained here, from scratch or continued from its checkpoint."""
        return self.upstream.checkpoint is None or self.upstream.continue_pretraining

    @property
    def longest_of_checkpoint(self) -> int:
        """The maximum sequence length, in tokens, over all trainings of a checkpoint."""
        continued = self.pretrain.longest if self.upstream.continue_pretraining else 0
        return max(continued, self.longest_after_pretraining)

    @property
    def longest_after_pretraining(self) -> int:
        """The maximum sequence length, in tokens, over the trainings after pretraining that some system needs."""
        systems = self.systems
        methods = [method_spec(name) for system in systems for name in (system.initialiser, system.starts_from)]
        trainings: list[TrainingSettings | None] = [
            self.finetune,
            *(getattr(self, method.training.name) for method in methods if method.training),
            self.embedding_warmup_training if any(system.embedding_warmup for system in systems) else None,
            self.multitask_training if any(system.multitask for system in systems) else None,
        ]
        return max(training.max_length for training in trainings if training is not None)

    def rounds(self, system: System) -> int:
        """The rounds of back-translation behind the text of a system."""
        return system.back_translation_rounds or self.back_translation.rounds

    def vocabulary_mode(self, system: System) -> VocabularyMode | None:
        """How a system changes the upstream vocabulary; None if it does not."""
        if system.vocabulary == "upstream" or system.made_with_its_vocabulary:
            return None
        return system.vocabulary_mode or self.downstream.vocabulary.mode

    def trains(self, system: System) -> bool:
        """Whether the system's generator is trained here."""
        is_loaded = system.trains_network and self.network.trained is not None
        return system.generator is not None and not is_loaded

    @property
    def starts_from_body(self) -> bool:
        """Whether only a checkpoint's body is needed, because a head for labels replaces the head for tokens."""
        needs_token_head = self.upstream.continue_pretraining or any(
            self.trains(system) or method_spec(system.initialiser).learning for system in self.systems
        )
        replaces_head = self.finetuned_on.understands and self.labels.zero_shot is None
        return replaces_head and self.upstream.checkpoint is not None and not needs_token_head

    def generator_steps(self, system: System) -> int | None:
        """The training steps of the system's generator, if it is trained here."""
        if not self.trains(system):
            return None
        training = self.network_training if system.trains_network else self.generator_training
        return system.generator_steps or (None if training is None else training.max_steps)

    @property
    def learned(self) -> list[MethodSpec]:
        """The methods whose rows a step learns for some system."""
        used = {system.initialiser for system in self.systems}
        return [method for name, method in METHODS.items() if method.learning and name in used]

    @property
    def distilled_layers(self) -> dict[str, int]:
        """The layers at which systems distil, by the name of the setting; without those that are left to the model."""
        groups = {method.group: getattr(self, method.group, None) for method in self.learned}
        named = {f"{name}.layer": getattr(settings, "layer", None) for name, settings in groups.items()}
        return {name: layer for name, layer in named.items() if layer}

    def learning_stage(self, method: MethodSpec, starts_from: StartName | None = None) -> LearningStage:
        """The step that learns a method's rows. Raises ValueError without the settings of its training."""
        stage, training = method.learning, method.training
        assert stage is not None and training is not None
        if (settings := getattr(self, training.name)) is None:
            raise ValueError(f"systems of {method.name} need {training.name}")
        return stage.of(
            languages=self.languages,
            sides=self.sides,
            training=settings,
            seed=self.upstream.seed,
            starts_from=starts_from or "mean",
            max_similar=self.generator.max_similar,
            max_train_examples=self.finetune.max_train_examples,
            objectives=self.upstream.objectives,
            **{stage.settings_field: getattr(self, method.group, None)},
        )

    def generator_stage(self, system: System) -> AnyGeneratorStage:
        """The step that trains the generator of a system that has one."""
        method = method_spec(system.starts_from or system.initialiser)
        assert method.trains is not None and method.training is not None
        training: TrainingSettings = getattr(self, method.training.name)
        steps = {"max_steps": system.generator_steps} if system.generator_steps else {}
        return method.trains.of(
            objectives=self.upstream.objectives,
            languages=self.upstream_languages,
            sides=self.sides,
            one_vocabulary=self.downstream.shared,
            kind=method.trained,
            kd_weight=system.kd_weight or 0.0,
            generator=self.generator,
            network=self.network,
            training=training.model_copy(update=steps),
            seed=self.upstream.seed,
        )
