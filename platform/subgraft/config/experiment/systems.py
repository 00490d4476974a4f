"""The systems of an experiment: the ways of fitting a vocabulary, and which of their settings can be combined."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from subgraft.base.limits import MAX_SEQUENCE_LENGTH, MAX_VOCABULARY_SIZE
from subgraft.config.experiment.multitask import MultitaskUse
from subgraft.config.heads import HeadSettings
from subgraft.config.initialisers import DonorSettings
from subgraft.config.model_shapes import Layers
from subgraft.config.settings_base import UNSET, Count, Settings, VocabularyMode
from subgraft.config.synthetic import Rounds, TextUse
from subgraft.config.training import AdapterSettings, FinetuneSettings, RareTokenSettings, TrainName
from subgraft.embeddings.methods.method import StartName
from subgraft.embeddings.methods.registry import AnyInitialiser, method_spec, names_with
from subgraft.modeling.conditioning.settings import CopyingName
from subgraft.modeling.conditioning.variants.registry import VariantName

PretrainingName = Literal["plain", "sampled", "downstream-vocabulary", "joint-vocabulary", "none"]

# The values of `train` by which all embeddings are frozen.
FROZEN_EMBEDDINGS: frozenset[TrainName] = frozenset({"body", "adapters", "head"})


class SourceEncoderSettings(Settings):
    """A new encoder that reads a foreign source in the place of a BART's embeddings (Lewis et al. 2020, section 3.4).

    layers: the number of layers.
    first_step_fraction: the fraction of finetuning steps, at the start, that trains only the new encoder, positions and
    the input projections of the first self-attention.
    """

    layers: Layers = 2
    first_step_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.8


class System(Settings):
    """One way of fitting the vocabulary: a line of the comparison.

    name: the system's name in tables and figures.
    vocabulary: the task's vocabulary, or the upstream one unchanged.
    initialiser: how the embeddings of new tokens are made, by Subgraft or by an installed package. Required with a
    downstream vocabulary, unless pretraining uses that vocabulary or it is trimmed.
    kd_weight: the weight of distillation, the paper's lambda (equation 5).
    pretraining: how the system's initial model is pretrained: plain; sampled, with sampled segmentations;
    downstream-vocabulary or joint-vocabulary, with that vocabulary; or none, random weights.
    pretraining_step: the updates of pretraining after which its weights are this system's start; by default all. A
    multiple of pretrain.save_every.
    untie: whether a decoder whose output embeddings are tied to its input embeddings gets output embeddings of its own
    before any transfer. It grows by one table, and new tokens need not be read and predicted by the same embedding.
    copy_shared_tokens: whether tokens in both vocabularies keep their embeddings; if not, the initialiser makes them.
    embeddings_only_fraction: the fraction of finetuning steps, at the start, that trains embeddings alone.
    tie_to_sources: whether finetuning trains new embeddings as mixtures of upstream embeddings.
    vocabulary_mode: the mode of this system's downstream vocabulary (replace, extend or trim), in place of
    downstream.vocabulary.mode.
    vocabulary_size: the size of this system's downstream vocabulary, in place of downstream.vocabulary.size.
    vocabulary_min_count: the min_count of this system's downstream vocabulary, in place of
    downstream.vocabulary.min_count.
    generator_steps: the training steps of this system's generator, in place of generator_training.max_steps.
    rare_tokens: how this system's new embeddings of rare tokens are finetuned, in place of finetune.rare_tokens.
    starts_from: the initialiser of the embeddings that likelihood matching starts from; mean by default.
    donor: for initialiser donor: the model whose embeddings of new tokens are mapped.
    learning_rate: the peak of this system's finetuning, in place of finetune.learning_rate.
    embedding_learning_rate: the peak for this system's embeddings, in place of finetune.embedding_learning_rate; 0
    freezes the embeddings.
    new_embedding_learning_rate: the peak for the embeddings of this system's new tokens, in place of
    finetune.new_embedding_learning_rate.
    train: the parameters that this system's finetuning trains, in place of finetune.train.
    embedding_warmup: domain text, as in `text`, on which new embeddings alone are trained before finetuning
    (embedding_warmup_training).
    conditioning: how the system's language model reads its source (a class, a text or features); without it, the system
    does not see the source.
    copying: how the system copies tokens of the source text: pointer-generator, by attention to the source and a gate
    (See et al., 2017); bottom-up, also by a content selector at inference (Gehrmann et al., 2018). Requires
    conditioning.shared_vocabulary.
    shuffled_sources: whether finetuning reads each line with the source of another, drawn once: a control.
    text: the use of downstream.text in finetuning: copied, with copies as its source; back-translated, with
    translations (back_translation); denoised, reconstructed from a noised version, for models pretrained on denoising;
    or lines, for `task: continuation`.
    directions: the names of the directions that this system is finetuned on, in place of all with `train: true`.
    head: for a task with labels: this system's head, in place of labels.head.
    unsupervised: whether the system learns to translate from downstream.text alone, without pairs (`unsupervised`).
    back_translation_rounds: the rounds of this system's back-translated text, in place of back_translation.rounds.
    source_encoder: a new encoder that reads sources in another language and has its own vocabulary, learnt as
    downstream.vocabulary; for models of the family bart, which still write in the upstream vocabulary.
    documents: the maximum number of tokens of a block, for a system that is finetuned on blocks of consecutive pairs of
    a document and translates documents in such blocks (Liu et al., TACL 2020, section 4.2); without it, a system reads
    single sentences. The model must be an mBART. Blocks of the target may have up to finetune.max_length tokens.
    context: han, for an encoder that also attends to the preceding sentences of the document, by words and by sentences
    (HAN; Miculicich et al., EMNLP 2018). The system is finetuned on single sentences first, then with this encoder for
    as many updates. The model must be an mBART with one vocabulary.
    context_sentences: the number of preceding sentences that context reads.
    multitask: a training on several tasks at once (multitask.tasks), for tasks with labels: alone, in place of
    finetuning; or finetuned, before finetuning, which then starts from the task's trained head.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9+._-]*$")]
    vocabulary: Literal["upstream", "downstream"] = "downstream"
    initialiser: AnyInitialiser | None = None
    kd_weight: Annotated[float, Field(ge=0)] | None = None
    pretraining: PretrainingName = "plain"
    pretraining_step: Count | None = None
    untie: bool = False
    copy_shared_tokens: bool = True
    embeddings_only_fraction: Annotated[float, Field(ge=0, lt=1)] = 0.0
    tie_to_sources: bool = False
    vocabulary_mode: VocabularyMode | None = None
    vocabulary_size: Annotated[int, Field(ge=50, le=MAX_VOCABULARY_SIZE)] | None = None
    vocabulary_min_count: Count | None = None
    generator_steps: Count | None = None
    rare_tokens: RareTokenSettings | None = None
    starts_from: StartName | None = None
    donor: DonorSettings | None = None
    learning_rate: Annotated[float, Field(gt=0)] | None = None
    embedding_learning_rate: Annotated[float, Field(ge=0)] | None = None
    new_embedding_learning_rate: Annotated[float | None, Field(gt=0), UNSET] = None
    train: TrainName | None = None
    embedding_warmup: TextUse | None = None
    conditioning: VariantName | None = None
    copying: CopyingName | None = None
    shuffled_sources: bool = False
    text: TextUse | None = None
    unsupervised: bool = False
    back_translation_rounds: Rounds | None = None
    source_encoder: SourceEncoderSettings | None = None
    multitask: MultitaskUse | None = None
    directions: tuple[str, ...] | None = None
    documents: Annotated[int, Field(ge=4, le=MAX_SEQUENCE_LENGTH)] | None = None
    context: Literal["han"] | None = None
    context_sentences: Annotated[int, Field(ge=1, le=20)] = 3
    head: HeadSettings | None = None

    @property
    def generator(self) -> str | None:
        """The kind of the trained generator that the system needs, if any."""
        return method_spec(self.initialiser if self.starts_from is None else self.starts_from).trained

    @property
    def trains_network(self) -> bool:
        """Whether that generator computes embeddings by a network, where others mix existing embeddings."""
        return self.generator is not None and self.starts_from is None and not method_spec(self.initialiser).mixes

    @property
    def made_with_its_vocabulary(self) -> bool:
        """Whether the system's model has its vocabulary from the start, so that there is no transfer."""
        return self.pretraining in ("downstream-vocabulary", "joint-vocabulary", "none")

    def finetuning(self, training: FinetuneSettings) -> FinetuneSettings:
        """The finetuning settings of this system: those of all systems, with its own values and without those it does
        not use.
        """
        rare, train = self.rare_tokens or training.rare_tokens, self.train or training.train
        frozen = train in FROZEN_EMBEDDINGS
        if self.initialiser is None or frozen or (rare is not None and rare.idle):
            rare = None
        names = ("learning_rate", "embedding_learning_rate", "new_embedding_learning_rate")
        own: dict[str, Any] = {name: rate for name in names if (rate := getattr(self, name)) is not None}
        own |= {"embedding_learning_rate": None} if frozen else {}
        own |= {"new_embedding_learning_rate": None} if frozen or self.initialiser is None else {}
        own |= {"shuffled_sources": True} if self.shuffled_sources else {}
        adapters = (training.adapters or AdapterSettings()) if train == "adapters" else None
        settings = training.model_copy(update={"rare_tokens": rare, "train": train, "adapters": adapters, **own})
        return settings if self.text is not None else settings.without_text()

    @model_validator(mode="after")
    def _consistent(self) -> System:
        if self.made_with_its_vocabulary:
            where = f"with `pretraining: {self.pretraining}` the model is made with its vocabulary"
            if self.initialiser is not None:
                raise ValueError(f"{where}: leave out the initialiser")
            if self.vocabulary == "upstream" and self.pretraining != "none":
                raise ValueError(f"{where}: leave out `vocabulary: upstream`")
        if self.initialiser is None and not (self.copy_shared_tokens and self.embeddings_only_fraction == 0):
            raise ValueError(
                "copy_shared_tokens and embeddings_only_fraction need an initialiser: without one there are no new rows"
            )
        has_new_rows = self.vocabulary == "downstream" and self.vocabulary_mode != "trim"
        if not self.made_with_its_vocabulary and (self.initialiser is not None) != has_new_rows:
            if self.initialiser is not None and self.vocabulary_mode == "trim":
                raise ValueError("a trimmed vocabulary has no new tokens: leave out the initialiser")
            if self.initialiser is not None:
                raise ValueError("the upstream vocabulary has no new tokens: leave out the initialiser")
            raise ValueError("new tokens need an initialiser, such as mean; or add `vocabulary: upstream`")
        if self.tie_to_sources and (not method_spec(self.initialiser).mixes or self.embeddings_only_fraction):
            mixing = ", ".join(names_with("mixes"))
            raise ValueError(
                f"tie_to_sources is for systems that mix upstream rows ({mixing}), without embeddings_only_fraction"
            )
        for name in ("kd_weight", "generator_steps"):
            if getattr(self, name) is not None and self.generator is None:
                trained = ", ".join(names_with("trained"))
                raise ValueError(f"{name} applies to {trained} only: the others have nothing to train")
        if self.embedding_warmup is not None and (self.initialiser is None or self.tie_to_sources):
            raise ValueError(
                "embedding_warmup trains new embeddings: it needs an initialiser, and does not work with tie_to_sources"
            )
        if self.back_translation_rounds is not None and "back-translated" not in (self.text, self.embedding_warmup):
            raise ValueError("back_translation_rounds is for systems with `text: back-translated`")
        method = method_spec(self.initialiser)
        if method.learning and not self.copy_shared_tokens:
            raise ValueError(f"{self.initialiser} learns new tokens only: it needs `copy_shared_tokens: true`")
        if self.starts_from is not None and not method.has_start:
            raise ValueError(f"starts_from is for systems of {', '.join(names_with('has_start'))}")
        if (self.donor is not None) != method.donor:
            raise ValueError("`initialiser: donor` and `donor: {model: DIRECTORY}` require each other")
        return self

    @model_validator(mode="after")
    def _reads_a_foreign_source(self) -> System:
        if self.source_encoder is None:
            return self
        if self.vocabulary != "upstream":
            raise ValueError("source_encoder is for a system with `vocabulary: upstream`")
        others = ("conditioning", "text", "multitask", "train")
        for name in others:
            if getattr(self, name) is not None:
                raise ValueError(f"source_encoder cannot be combined with {name}: leave out one of them")
        return self

    @model_validator(mode="after")
    def _without_pairs(self) -> System:
        if not self.unsupervised:
            return self
        others = ("text", "embedding_warmup", "multitask", "conditioning", "source_encoder", "tie_to_sources")
        for name in (*others, "embeddings_only_fraction", "rare_tokens", "shuffled_sources"):
            if getattr(self, name):
                raise ValueError(f"unsupervised cannot be combined with {name}: leave out one of them")
        if method_spec(self.initialiser).learning:
            raise ValueError(f"{self.initialiser} learns new rows on pairs, which an unsupervised system does not read")
        if self.train in ("new-rows", "head", "adapters"):
            raise ValueError(f"unsupervised trains a model in rounds: it needs train all or body, not {self.train}")
        return self

    @model_validator(mode="after")
    def _with_its_vocabulary(self) -> System:
        if self.vocabulary_mode is not None and (self.vocabulary == "upstream" or self.made_with_its_vocabulary):
            raise ValueError(
                "vocabulary_mode changes the vocabulary of a pretrained model, and this system has no such model"
            )
        if self.vocabulary_mode == "trim" and self.vocabulary_size is not None:
            raise ValueError("vocabulary_size does not apply to a trimmed vocabulary: vocabulary_min_count does")
        if self.vocabulary == "upstream" or self.pretraining == "joint-vocabulary":
            for name in ("vocabulary_size", "vocabulary_min_count"):
                if getattr(self, name) is not None:
                    raise ValueError(f"{name} sets a downstream vocabulary, which this system does not get")
        for name in ("rare_tokens", "new_embedding_learning_rate"):
            if getattr(self, name) is not None and self.initialiser is None:
                raise ValueError(f"{name} is about new embeddings, which only systems with an initialiser get")
        return self


def require_trained_parameters(system: System, training: FinetuneSettings) -> None:
    """Raise ValueError if a system lacks the parameters that it would train, or freezes them."""
    of_system = system.finetuning(training)
    train, where = of_system.train, f"system {system.name}"
    table_settings = [name for name in ("tie_to_sources", "embeddings_only_fraction") if getattr(system, name)]
    if train == "all":
        if table_settings and of_system.embedding_learning_rate == 0:
            raise ValueError(
                f"{where}: {table_settings[0]} trains embeddings, which embedding_learning_rate: 0 freezes"
            )
        return
    if train == "new-rows" and system.initialiser is None:
        raise ValueError(f"{where} has no new rows for train: new-rows: give it a `train: all` of its own")
    if of_system.embedding_learning_rate == 0 and of_system.new_embedding_learning_rate is not None:
        raise ValueError(
            f"{where}: new_embedding_learning_rate trains embeddings, which embedding_learning_rate: 0 freezes"
        )
    if train == "new-rows" and of_system.embedding_learning_rate == 0:
        raise ValueError(f"{where}: train: new-rows trains embeddings, which embedding_learning_rate: 0 freezes")
    if table_settings:
        raise ValueError(f"{where}: {table_settings[0]} trains all embeddings: it needs `train: all`, not `{train}`")
    frozen = train in FROZEN_EMBEDDINGS
    for name in ("embedding_learning_rate", "new_embedding_learning_rate", "rare_tokens"):
        if frozen and getattr(system, name):
            raise ValueError(f"{where}: train: {train} freezes the embeddings: leave out {name}")
