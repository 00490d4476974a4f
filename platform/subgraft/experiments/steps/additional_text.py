"""Steps of the additional text that finetunings read: monolingual text itself, or pairs made of it."""

from __future__ import annotations

from functools import cached_property

from subgraft.config.objectives import TaskObjectiveSettings, TranslationSettings
from subgraft.config.synthetic import MADE_PAIRS, TextUse
from subgraft.config.systems import System
from subgraft.data.synthetic_pairs import require_tag
from subgraft.experiments.steps.decoding_engine import with_engine
from subgraft.experiments.steps.inputs import InputSteps
from subgraft.experiments.steps.reverse_model import ReverseModelSteps
from subgraft.modeling.tokenizers import load_tokenizers
from subgraft.orchestration.store.step import Step
from subgraft.pipeline import stages
from subgraft.pipeline.recipes.corpora import BackTranslatedRecipe, CopiedRecipe
from subgraft.pipeline.recipes.models import TransferRecipe
from subgraft.pipeline.recipes.training import EmbeddingWarmupRecipe, NewRows


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
            return next(each for each in experiment.upstream.objectives if each.denoises)
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
        """Of a checkpoint whose encoder keeps its vocabulary; others are learnt first, and asked when they read it."""
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
