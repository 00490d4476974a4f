"""The rounds of a system that learns to translate from text of both languages alone."""

from __future__ import annotations

from subgraft.base.errors import UserError
from subgraft.config.objectives import TranslationSettings
from subgraft.config.settings_base import TextSide
from subgraft.config.systems import System
from subgraft.experiments.steps.decoding_engine import with_engine
from subgraft.experiments.steps.inputs import InputSteps
from subgraft.modeling.families import family_of
from subgraft.modeling.hub import read_config, require_model
from subgraft.orchestration.store.step import Step
from subgraft.pipeline import stages
from subgraft.pipeline.recipes.corpora import BackTranslatedRecipe, TextPart
from subgraft.pipeline.recipes.training import UnsupervisedRecipe


class UnsupervisedSteps:
    """Each round is two texts, translated by the model of the round before, and a training on both."""

    def __init__(self, inputs: InputSteps) -> None:
        self.experiment = inputs.experiment
        self._inputs = inputs

    def training(self, system: System, seed: int, prepared: Step) -> Step[UnsupervisedRecipe]:
        """The last round of a system; `prepared` has its vocabulary.

        Raises UserError for a checkpoint that cannot be asked for one language or the other.
        """
        self._require_codes()
        rounds = self.experiment.unsupervised.rounds
        step = self._round(system, seed, prepared, 1, rounds)
        for number in range(2, rounds + 1):
            step = self._round(system, seed, step, number, rounds)
        return step

    def _round(self, system: System, seed: int, model: Step, number: int, rounds: int) -> Step[UnsupervisedRecipe]:
        experiment = self.experiment
        training = experiment.unsupervised.training(system.finetuning(experiment.finetune))
        own_rate = training.applied_embedding_learning_rate is not None
        recipe = UnsupervisedRecipe(
            languages=experiment.languages,
            training=training,
            seed=seed,
            embedding_learning_rate_sides=experiment.sides if own_rate else (),
            text_objective=TranslationSettings(),
        )
        inputs = {
            "model": model,
            "corpus": self._inputs.downstream_corpus,
            "synthetic": self._translated("target", model, seed, number),
            "synthetic/reversed": self._translated("source", model, seed, number),
        }
        labels = {"system": system.name, "seed": str(seed)}
        name = f"finetune {system.name} seed {seed}" + (f", round {number}" if number < rounds else "")
        return with_engine(Step(stages.UNSUPERVISED, name, recipe, inputs, labels))

    def _translated(self, side: TextSide, model: Step, seed: int, number: int) -> Step[BackTranslatedRecipe]:
        """Lines of a side with their translations as sources."""
        experiment, text = self.experiment, self._inputs.text
        settings, languages = experiment.unsupervised, experiment.languages
        assert text is not None  # validation requires it
        recipe = BackTranslatedRecipe(
            languages=languages if side == "target" else languages.reversed,
            side=side,
            beam=settings.beam,
            seed=None,
            max_length_ratio=settings.max_length_ratio,
            engine=settings.engine_of(number),
            part=TextPart(size=settings.sentences, number=number - 1, seed=seed),
            min_count=settings.min_count if settings.is_constrained(number) else None,
            tag=False,
            model=model.name,
            batch_size=settings.batch_size,
        )
        name = f"{side} text translated by {model.name}"
        return with_engine(Step(stages.BACK_TRANSLATED, name, recipe, {"text": text, "model": model}))

    def _require_codes(self) -> None:
        named, languages = self.experiment.upstream.checkpoint, self.experiment.languages
        if named is None:
            return
        directory = require_model(self._inputs.checkpoint.recipe.model)
        config, tokenizers = read_config(directory), self._inputs.checkpoint_tokenizers
        family, decoder = family_of(config), tokenizers["decoder"]
        encoder = tokenizers.get("encoder", decoder)
        forms = [family.sequence_format(config, encoder, decoder, pair) for pair in (languages, languages.reversed)]
        if forms[0] == forms[1]:
            raise UserError(
                f"a {family.model_type} model without language codes writes one language only",
                where=f"upstream.checkpoint: {named}",
                hint="An unsupervised system needs a model of both languages, such as an mBART.",
            )
