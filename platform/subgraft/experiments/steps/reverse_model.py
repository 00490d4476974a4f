"""Steps of the model that translates a task's targets back: a configured one, or one that is trained here."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.objectives import TaskObjectiveSettings
from subgraft.config.systems import System
from subgraft.config.training import FinetuneSettings
from subgraft.experiments.steps.decoding_engine import with_engine
from subgraft.experiments.steps.inputs import InputSteps, from_checkpoint
from subgraft.experiments.steps.models import ModelSteps
from subgraft.modeling.families import family_of
from subgraft.modeling.hub import read_config, require_model
from subgraft.modeling.tokenizers import checkpoint_languages, load_tokenizers
from subgraft.orchestration.store.step import Step
from subgraft.pipeline import stages
from subgraft.pipeline.recipes.corpora import ReversedRecipe
from subgraft.pipeline.recipes.training import FinetuneRecipe

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
    """A finetuning as all systems have it, without what is about new rows or a part of a model."""
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
