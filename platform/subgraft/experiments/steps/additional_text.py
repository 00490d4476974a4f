"""The additional text that finetunings read: monolingual text itself or pairs made of it, and the reverse model."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import cast

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.objectives import TranslationSettings
from subgraft.config.synthetic import MADE_PAIRS, TextUse
from subgraft.config.systems import System
from subgraft.config.task_objectives import TaskObjectiveSettings
from subgraft.config.training import FinetuneSettings
from subgraft.data.synthetic_pairs import require_tag
from subgraft.experiments.steps.decoding_engine import with_engine
from subgraft.experiments.steps.inputs import InputSteps, from_checkpoint
from subgraft.experiments.steps.models import ModelSteps
from subgraft.modeling.families import family_of
from subgraft.modeling.hub import read_config, require_model
from subgraft.modeling.tokenizers import checkpoint_languages, load_tokenizers
from subgraft.orchestration.store.step import Step
from subgraft.pipeline import stages
from subgraft.pipeline.recipes.corpora import BackTranslatedRecipe, CopiedRecipe, ReversedRecipe
from subgraft.pipeline.recipes.models import TransferRecipe
from subgraft.pipeline.recipes.training import EmbeddingWarmupRecipe, FinetuneRecipe, NewRows


class AdditionalTextSteps:
    """Copied, back-translated and monolingual text; systems that read the same text share its steps."""

    def __init__(self, inputs: InputSteps, reverse: ReverseModelSteps) -> None:
        self.experiment = inputs.experiment
        self._inputs = inputs
        self._reverse = reverse

    def objective(self, use: TextUse | None) -> TaskObjectiveSettings | None:
        """The objective of the additional text for this use; None without one."""
        experiment = self.experiment
        if use == "denoised":
            denoising = next(each for each in experiment.upstream.objectives if each.denoises)
            return cast(TaskObjectiveSettings, denoising)  # finetuning can continue it
        if use == "lines":
            return experiment.finetuned_on
        return None if use is None else TranslationSettings()

    def inputs_for(self, use: TextUse | None) -> dict[str, Step]:
        """The input with the additional text for this use; empty without one."""
        if use is None:
            return {}
        if use in MADE_PAIRS:
            return {"synthetic": self._copied if use == "copied" else self._back_translated}
        assert self._inputs.text is not None  # validation requires it
        return {"text": self._inputs.text}

    def embedding_warmup(self, system: System, transfer: Step[TransferRecipe] | None, upstream: Step) -> Step | None:
        """The training of a system's new rows alone, shared by systems and seeds with the same initial rows.

        `upstream` is the model before the transfer, by which rows count as new.
        """
        experiment, training = self.experiment, self.experiment.embedding_warmup_training
        if system.embedding_warmup is None or transfer is None or training is None:
            return None
        recipe = EmbeddingWarmupRecipe(
            languages=experiment.languages,
            training=training.finetuning,
            seed=experiment.upstream.seed,
            new_rows=NewRows(sides=experiment.sides, copy_shared_tokens=system.copy_shared_tokens),
            objective=experiment.finetuned_on,
            text_objective=self.objective(system.embedding_warmup),
        )
        inputs = {"model": transfer, "corpus": self._inputs.downstream_corpus, "upstream": upstream}
        name = transfer.name.replace("transfer", "rows first of", 1)
        inputs |= self.inputs_for(system.embedding_warmup)
        return with_engine(Step(stages.EMBEDDING_WARMUP, name, recipe, inputs, transfer.labels))

    @property
    def copies(self) -> dict[str, Step]:
        """The input `synthetic` of steps that learn a decoder's rows: target text with the sources that it lacks."""
        return {"synthetic": self._copied} if self._inputs.text_on("target") else {}

    @cached_property
    def _copied(self) -> Step[CopiedRecipe]:
        """The same lines for all systems and seeds."""
        experiment, text = self.experiment, self._inputs.text
        assert text is not None  # validation requires it
        recipe = CopiedRecipe(
            languages=experiment.languages, copied=experiment.copied_text, seed=experiment.upstream.seed
        )
        return Step(stages.COPIED, "copied text", recipe, {"text": text})

    def _require_tag(self) -> None:
        """Check the tag in a checkpoint's unchanged encoder vocabulary; learnt vocabularies are checked when used."""
        experiment, named = self.experiment, self.experiment.upstream.checkpoint
        if experiment.back_translation.tag and named is not None and "encoder" not in experiment.sides:
            tokenizers = load_tokenizers(self._inputs.checkpoint.recipe.model)
            require_tag(tokenizers["encoder"], f"upstream.checkpoint: {named}")

    @cached_property
    def _back_translated(self) -> Step[BackTranslatedRecipe]:
        experiment, text = self.experiment, self._inputs.text
        assert text is not None  # validation requires it
        settings = experiment.back_translation
        self._require_tag()
        model = self._reverse.model
        recipe = BackTranslatedRecipe(
            languages=experiment.languages,
            beam=None if settings.sample else settings.beam,
            seed=experiment.upstream.seed if settings.sample else None,
            max_length_ratio=settings.max_length_ratio,
            tag=settings.tag,
            model=settings.model or model.name,
            batch_size=settings.batch_size,
        )
        return Step(stages.BACK_TRANSLATED, "back-translated text", recipe, {"text": text, "model": model})


WHERE = "back_translation.model"


class ReverseModelSteps:
    """The reverse model and its training, which all systems and seeds share."""

    def __init__(self, inputs: InputSteps, models: ModelSteps) -> None:
        self.experiment = inputs.experiment
        self._inputs = inputs
        self._models = models

    @cached_property
    def model(self) -> Step:
        """The reverse model. Raises UserError for a configured one that is known not to translate this way."""
        named = self.experiment.back_translation.model
        return self._finetuned_back if named is None else self._imported(named)

    def _imported(self, named: str) -> Step:
        model = self._inputs.model_named(named)
        directory = require_model(model)
        _require_reverse(directory, self.experiment.languages.reversed, self.experiment.finetuned_on)
        return from_checkpoint(f"reverse model {named}", model, directory)

    @property
    def _finetuned_back(self) -> Step[FinetuneRecipe]:
        """Finetuned on the task's pairs the other way round, with the upstream vocabularies."""
        experiment = self.experiment
        recipe = FinetuneRecipe(
            languages=experiment.languages.reversed,
            training=_of_whole_model(experiment.finetune),
            seed=experiment.upstream.seed,
            objective=experiment.finetuned_on,
        )
        inputs = {
            "model": self._pretrained_back,
            "corpus": _reversed(self._inputs.downstream_corpus, experiment.languages),
        }
        return with_engine(Step(stages.FINETUNE, "finetune the reverse model", recipe, inputs))

    @property
    def _pretrained_back(self) -> Step:
        """Pretrained from target to source like the upstream model, which itself serves if it has no direction."""
        upstream = self._models.pretrained
        if not self.experiment.upstream.translates:
            return self._models.ready_to_translate(upstream)
        languages = self.experiment.upstream_languages
        inputs = {
            "corpus": _reversed(self._inputs.upstream_corpus, languages),
            "encoder": upstream.inputs["decoder"],
            "decoder": upstream.inputs["encoder"],
        }
        recipe = upstream.recipe.model_copy(update={"languages": languages.reversed})
        return Step(upstream.stage, f"{upstream.name}, reversed", recipe, inputs)


def _of_whole_model(training: FinetuneSettings) -> FinetuneSettings:
    """The systems' finetuning without settings for new rows or for a part of the model."""
    whole = System(name="reverse", vocabulary="upstream", train="all").finetuning(training)
    return whole.model_copy(update={"embedding_learning_rate": None})


def _reversed(corpus: Step, languages: Languages) -> Step[ReversedRecipe]:
    return Step(stages.REVERSED, f"{corpus.name}, reversed", ReversedRecipe(languages=languages), {"corpus": corpus})


def _require_reverse(directory: Path, wanted: Languages, objective: TaskObjectiveSettings) -> None:
    """Raises UserError for a model that does not translate, or from or into another language than is wanted.

    objective: the objective of models that translate.
    """
    config, where = read_config(directory), f"{WHERE}: {directory}"
    family = family_of(config)
    if objective.kind not in family.objectives:
        hint = f"Give an encoder-decoder that translates from {wanted.source} to {wanted.target}."
        raise UserError(f"a {family.model_type} model does not translate", where=where, hint=hint)
    tokenizers = load_tokenizers(directory)
    family.sequence_format(config, tokenizers["encoder"], tokenizers["decoder"], wanted)
    known = checkpoint_languages(directory)
    if known is not None and _plain(known) != _plain(wanted):
        raise UserError(
            f"a model from {known.source} to {known.target}, but one from {wanted.source} to {wanted.target} is needed",
            where=where,
        )


def _plain(languages: Languages) -> list[str]:
    """Both codes without a script or country: en_XX is en."""
    return [code.replace("-", "_").split("_")[0] for code in (languages.source, languages.target)]
