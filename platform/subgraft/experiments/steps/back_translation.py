"""Back-translated text: the models that translate it, and the rounds in which these train on each other's text.

Or in which one model trains on its own, of both languages and without any pairs.
"""

from __future__ import annotations

from functools import cached_property, partial
from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.objectives import TranslationSettings
from subgraft.config.settings_base import OTHER_SIDE, TextSide
from subgraft.config.synthetic import TextUse
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
from subgraft.pipeline.recipes.corpora import BackTranslatedRecipe, ReversedRecipe, TextPart
from subgraft.pipeline.recipes.training import FinetuneRecipe, UnsupervisedRecipe

WHERE = "back_translation.model"
# A model is named by the text that it reads: the task's is `source`, the reverse model's is `target`.
_NAMES: dict[TextSide, str] = {"source": "forward", "target": "reverse"}


class BackTranslationSteps:
    """The rounds of back-translation, which all systems and seeds share: models and text have the old vocabularies.

    A model after r rounds has trained on the text of round r, and a text of round r is translated by a model after
    r - 1 rounds. After no round, models have trained on the task's pairs alone.
    """

    def __init__(self, inputs: InputSteps, models: ModelSteps) -> None:
        self.experiment = inputs.experiment
        self._inputs = inputs
        self._models = models
        # Dictionaries, since a search sends the object to its trials.
        self._texts: dict[tuple[TextSide, int], Step[BackTranslatedRecipe]] = {}
        self._finetuned: dict[tuple[TextSide, int], Step] = {}

    def pairs(self, rounds: int) -> Step[BackTranslatedRecipe]:
        """The pairs of the last of so many rounds, for the task's models.

        Raises UserError for a configured model that is known not to translate this way, and for a checkpoint that
        cannot spell the tag.
        """
        self._require_tag(rounds)
        return self._text("target", rounds)

    def model(self, reads: TextSide, rounds: int) -> Step:
        """The model that reads a side of the task, after so many rounds."""
        key = reads, rounds
        if key not in self._finetuned:
            self._finetuned[key] = self._after(reads, rounds)
        return self._finetuned[key]

    def _text(self, side: TextSide, number: int) -> Step[BackTranslatedRecipe]:
        """Pairs whose targets are the text of a side, in a round."""
        key = side, number
        if key not in self._texts:
            self._texts[key] = self._translated(side, number)
        return self._texts[key]

    def _translated(self, side: TextSide, number: int) -> Step[BackTranslatedRecipe]:
        experiment, text = self.experiment, self._inputs.text
        assert text is not None  # validation requires it
        settings, model = experiment.back_translation, self.model(side, number - 1)
        recipe = BackTranslatedRecipe(
            languages=self._languages(OTHER_SIDE[side]),
            side=side,
            beam=None if settings.sample else settings.beam,
            seed=experiment.upstream.seed if settings.sample else None,
            max_length_ratio=settings.max_length_ratio,
            engine=settings.named_engine,
            tag=settings.tag,
            model=settings.model if settings.model and (side, number) == ("target", 1) else model.name,
            batch_size=settings.batch_size,
        )
        name = "back-translated text" if side == "target" else "text translated forwards"
        inputs = {"text": text, "model": model}
        return with_engine(Step(stages.BACK_TRANSLATED, _in_round(name, number, 2), recipe, inputs))

    def _after(self, reads: TextSide, rounds: int) -> Step:
        named = self.experiment.back_translation.model
        if reads == "target" and named is not None and not rounds:
            return self._imported(named)
        experiment = self.experiment
        recipe = FinetuneRecipe(
            languages=self._languages(reads),
            training=_of_whole_model(experiment.finetune, "back-translated" if rounds else None),
            seed=experiment.upstream.seed,
            objective=experiment.finetuned_on,
            text_objective=TranslationSettings() if rounds else None,
        )
        inputs = {"model": self._start(reads), "corpus": self._corpus(reads)}
        inputs |= {"synthetic": self._text(OTHER_SIDE[reads], rounds)} if rounds else {}
        name = _in_round(f"finetune the {_NAMES[reads]} model", rounds, 1)
        return with_engine(Step(stages.FINETUNE, name, recipe, inputs))

    def _languages(self, reads: TextSide) -> Languages:
        own = self.experiment.languages
        return own if reads == "source" else own.reversed

    def _corpus(self, reads: TextSide) -> Step:
        corpus = self._inputs.downstream_corpus
        return corpus if reads == "source" else _reversed(corpus, self.experiment.languages)

    def _start(self, reads: TextSide) -> Step:
        """The model before any finetuning: for the reverse direction a configured one, or else one pretrained here."""
        if reads == "source":
            return self._models.ready_to_translate(self._models.pretrained)
        named = self.experiment.back_translation.model
        return self._pretrained_back if named is None else self._imported(named)

    def _imported(self, named: str) -> Step:
        model = self._inputs.model_named(named)
        directory = require_model(model)
        _require_reverse(directory, self.experiment.languages.reversed, self.experiment.finetuned_on)
        return from_checkpoint(f"reverse model {named}", model, directory)

    @cached_property
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

    def _require_tag(self, rounds: int) -> None:
        """Check the tag in a checkpoint's unchanged vocabularies; learnt vocabularies are checked when used."""
        experiment, named = self.experiment, self.experiment.upstream.checkpoint
        if not experiment.back_translation.tag or named is None:
            return
        tokenizers, where = self._inputs.checkpoint_tokenizers, f"upstream.checkpoint: {named}"
        if "encoder" not in experiment.sides or rounds > 1:
            require_tag(tokenizers["encoder"], where)
        if rounds > 1 and experiment.back_translation.model is None:
            require_tag(tokenizers["decoder"], where)


def _in_round(name: str, number: int, first: int) -> str:
    """The name with the round from the `first` numbered one on."""
    return name if number < first else f"{name}, round {number}"


def _of_whole_model(training: FinetuneSettings, text: TextUse | None) -> FinetuneSettings:
    """The systems' finetuning without settings for new rows or for a part of the model."""
    whole = System(name="whole", vocabulary="upstream", train="all", text=text).finetuning(training)
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
    form = partial(family.sequence_format, config, tokenizers["encoder"], tokenizers["decoder"])
    marked, known = form(wanted), checkpoint_languages(directory)
    if known is not None and _plain(known)[1] == _plain(wanted)[1] and form(known) != marked:
        return  # it marks its sources: one of another language than it was finetuned on is zero-shot
    if known is not None and _plain(known) != _plain(wanted):
        raise UserError(
            f"a model from {known.source} to {known.target}, but one from {wanted.source} to {wanted.target} is needed",
            where=where,
        )


def _plain(languages: Languages) -> list[str]:
    """Both codes without a script or country: en_XX is en."""
    return [code.replace("-", "_").split("_")[0] for code in (languages.source, languages.target)]


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
