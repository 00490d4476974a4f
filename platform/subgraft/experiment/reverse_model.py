"""The model that translates a task's targets back, as steps: one that is given, or one that is trained here."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from subgraft import stages
from subgraft.config.corpora import Languages
from subgraft.config.objectives import ObjectiveSettings
from subgraft.config.systems import System
from subgraft.config.training import FinetuneSettings
from subgraft.errors import UserError
from subgraft.experiment.beginnings import Beginnings, checkpoint_digest
from subgraft.jsontext import object_in
from subgraft.models.families import family_of
from subgraft.models.hub import read_config, require_model
from subgraft.models.tokenizers import load_tokenizers
from subgraft.recipes.checkpoint import CheckpointRecipe
from subgraft.recipes.finetune import FinetuneRecipe
from subgraft.recipes.reversed import ReversedRecipe
from subgraft.store.step import Step

WHERE = "back_translation.model"


class ReverseModel(Beginnings):
    """Builds these steps, which all systems and seeds share."""

    @cached_property
    def reverse_model(self) -> Step:
        """Raises UserError for a given model that cannot translate the other way, as far as it tells."""
        named = self.experiment.back_translation.model
        return self._finetuned_back if named is None else self._given(named)

    def _given(self, named: str) -> Step:
        model = self.model_named(named)
        directory = require_model(model)
        _require_reverse(directory, self.experiment.languages.reversed, self.experiment.finetuned_on)
        recipe = CheckpointRecipe(digest=checkpoint_digest(directory), model=model)
        return Step(stages.CHECKPOINT, f"reverse model {named}", recipe)

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
        inputs = {"model": self._pretrained_back, "corpus": _reversed(self.downstream_corpus, experiment.languages)}
        return Step(stages.FINETUNE, "finetune the reverse model", recipe, inputs)

    @property
    def _pretrained_back(self) -> Step:
        """Pretrained as the upstream model, from its target to its source. One that learnt no direction serves both."""
        there = self.pretrained
        if not self.experiment.upstream.translates:
            return self.ready_to_translate(there)
        languages = self.experiment.upstream_languages
        inputs = {
            "corpus": _reversed(self.upstream_corpus, languages),
            "encoder": there.inputs["decoder"],
            "decoder": there.inputs["encoder"],
        }
        recipe = there.recipe.model_copy(update={"languages": languages.reversed})
        return Step(there.stage, f"{there.name}, reversed", recipe, inputs)


def _of_whole_model(training: FinetuneSettings) -> FinetuneSettings:
    """A finetuning as all systems have it, without what is about new rows or a part of a model."""
    whole = System(name="reverse", vocabulary="upstream", train="all").finetuning(training)
    return whole.model_copy(update={"embedding_learning_rate": None})


def _reversed(corpus: Step, languages: Languages) -> Step[ReversedRecipe]:
    return Step(stages.REVERSED, f"{corpus.name}, reversed", ReversedRecipe(languages=languages), {"corpus": corpus})


def _require_reverse(directory: Path, wanted: Languages, learnt: ObjectiveSettings) -> None:
    """Raises UserError for a model that does not translate, or from or into another language than is wanted.

    learnt: the objective of models that translate.
    """
    config, where = read_config(directory), f"{WHERE}: {directory}"
    family = family_of(config)
    if learnt.kind not in family.objectives:
        hint = f"Give an encoder-decoder that translates from {wanted.source} to {wanted.target}."
        raise UserError(f"a {family.model_type} model does not translate", where=where, hint=hint)
    tokenizers = load_tokenizers(directory)
    family.sequence_format(config, tokenizers["encoder"], tokenizers["decoder"], wanted)
    told = _told(directory)
    if told is not None and [_plain(code) for code in told] != [_plain(wanted.source), _plain(wanted.target)]:
        raise UserError(
            f"a model from {told[0]} to {told[1]}, where one from {wanted.source} to {wanted.target} is needed",
            where=where,
        )


def _told(directory: Path) -> tuple[str, str] | None:
    """From which language to which a model translates, where a record or the tokenizer's settings beside it say so."""
    record, settings = (object_in(directory / name) for name in ("record.json", "tokenizer_config.json"))
    recipe = record.get("recipe")
    languages = recipe.get("languages") if isinstance(recipe, dict) else None
    if isinstance(languages, dict) and {"source", "target"} <= languages.keys():
        return str(languages["source"]), str(languages["target"])
    # Of a model of many languages they are only what its tokenizer begins with, or the name of a group.
    told = str(settings.get("source_lang")), str(settings.get("target_lang"))
    single = settings.get("tokenizer_class") in (None, "MarianTokenizer")
    return told if single and all(len(code) == 2 for code in told) else None


def _plain(code: str) -> str:
    """A language's code without a script or country: en_XX is en."""
    return code.replace("-", "_").split("_")[0]
