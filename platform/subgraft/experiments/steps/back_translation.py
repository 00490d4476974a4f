"""Back-translated text, the models that translate it, and the rounds in which these train on each other's text.

In unsupervised rounds, a single model of both languages trains on its own translations, without any pairs.
"""

from __future__ import annotations

from functools import cached_property, partial
from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.experiment.systems import System
from subgraft.config.settings_base import OTHER_SIDE, TextSide
from subgraft.data.synthetic_pairs import require_tag
from subgraft.experiments.steps.decoding_engine import with_engine
from subgraft.experiments.steps.inputs import InputSteps, from_checkpoint
from subgraft.experiments.steps.models import ModelSteps
from subgraft.modeling.families import family_of
from subgraft.modeling.hub import read_config, require_model
from subgraft.modeling.tokenizers import checkpoint_languages, load_tokenizers
from subgraft.orchestration.store.step import Step
from subgraft.pipeline.stages.corpora import BackTranslatedStage, ReversedStage, TextPart
from subgraft.pipeline.stages.training import FinetuneStage, UnsupervisedStage
from subgraft.training.objectives.registry import TaskObjectiveSettings
from subgraft.training.objectives.translation import TranslationSettings

WHERE = "back_translation.model"
# A model is named by the text that it reads: the task's is `source`, the reverse model's is `target`.
_NAMES: dict[TextSide, str] = {"source": "forward", "target": "reverse"}


class BackTranslationSteps:
    """The rounds of back-translation, shared by all systems and seeds since they use the upstream vocabularies.

    A model after r rounds has trained on the text of round r, and a text of round r is translated by a model after
    r - 1 rounds. After zero rounds, models have trained on the task's pairs alone.
    """

    def __init__(self, inputs: InputSteps, models: ModelSteps) -> None:
        self.experiment = inputs.experiment
        self._inputs = inputs
        self._models = models
        # Dictionaries, as a search pickles this object for its trials.
        self._texts: dict[tuple[TextSide, int], Step[BackTranslatedStage]] = {}
        self._finetuned: dict[tuple[TextSide, int], Step] = {}

    def pairs(self, rounds: int) -> Step[BackTranslatedStage]:
        """The pairs of the last of `rounds` rounds, for the task's models.

        Raises UserError for a configured model that is known not to translate this way, and for a checkpoint that
        cannot spell the tag.
        """
        self._require_tag(rounds)
        return self._text("target", rounds)

    def model(self, reads: TextSide, rounds: int) -> Step:
        """The model that reads a side of the task, after a number of rounds."""
        key = reads, rounds
        if key not in self._finetuned:
            self._finetuned[key] = self._finetuned_model(reads, rounds)
        return self._finetuned[key]

    def _text(self, side: TextSide, number: int) -> Step[BackTranslatedStage]:
        """Pairs whose targets are the text of a side, in a round."""
        key = side, number
        if key not in self._texts:
            self._texts[key] = self._translation(side, number)
        return self._texts[key]

    def _translation(self, side: TextSide, number: int) -> Step[BackTranslatedStage]:
        experiment, text = self.experiment, self._inputs.text
        assert text is not None  # validation requires it
        settings, model = experiment.back_translation, self.model(side, number - 1)
        stage = BackTranslatedStage(
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
        return with_engine(Step(stage, _in_round(name, number, 2), inputs))

    def _finetuned_model(self, reads: TextSide, rounds: int) -> Step:
        path = self.experiment.back_translation.model
        if reads == "target" and path is not None and not rounds:
            return self._imported(path)
        experiment = self.experiment
        # The systems' finetuning without settings for new rows or for a part of the model.
        whole = System(
            name="whole", vocabulary="upstream", train="all", text="back-translated" if rounds else None
        ).finetuning(experiment.finetune)
        stage = FinetuneStage(
            languages=self._languages(reads),
            training=whole.model_copy(update={"embedding_learning_rate": None}),
            seed=experiment.upstream.seed,
            objective=experiment.finetuned_on,
            text_objective=TranslationSettings() if rounds else None,
        )
        corpus: Step = self._inputs.downstream_corpus
        if reads != "source":
            corpus = _reversed(corpus, experiment.languages)
        inputs = {"model": self._start(reads), "corpus": corpus}
        inputs |= {"synthetic": self._text(OTHER_SIDE[reads], rounds)} if rounds else {}
        name = _in_round(f"finetune the {_NAMES[reads]} model", rounds, 1)
        return with_engine(Step(stage, name, inputs))

    def _languages(self, reads: TextSide) -> Languages:
        languages = self.experiment.languages
        return languages if reads == "source" else languages.reversed

    def _start(self, reads: TextSide) -> Step:
        """The model before any finetuning: for the reverse direction a configured one, or else one pretrained here."""
        if reads == "source":
            return self._models.ready_to_translate(self._models.pretrained)
        path = self.experiment.back_translation.model
        return self._pretrained_reverse if path is None else self._imported(path)

    def _imported(self, path: str) -> Step:
        model = self._inputs.locate_model(path)
        directory = require_model(model)
        _require_reverse(directory, self.experiment.languages.reversed, self.experiment.finetuned_on)
        return from_checkpoint("reverse model", model, directory)

    @cached_property
    def _pretrained_reverse(self) -> Step:
        """Pretrained from target to source like the upstream model, or that model itself if it has no direction."""
        upstream = self._models.pretrained
        if not self.experiment.upstream.translates:
            return self._models.ready_to_translate(upstream)
        languages = self.experiment.upstream_languages
        inputs = {
            "corpus": _reversed(self._inputs.upstream_corpus, languages),
            "encoder": upstream.inputs["decoder"],
            "decoder": upstream.inputs["encoder"],
        }
        stage = upstream.stage.model_copy(update={"languages": languages.reversed})
        return Step(stage, f"{upstream.name}, reversed", inputs)

    def _require_tag(self, rounds: int) -> None:
        """Check the tag in a checkpoint's unchanged vocabularies; learnt vocabularies are checked when used."""
        experiment, checkpoint = self.experiment, self.experiment.upstream.checkpoint
        if not experiment.back_translation.tag or checkpoint is None:
            return
        tokenizers, where = self._inputs.checkpoint_tokenizers, f"upstream.checkpoint: {checkpoint}"
        if "encoder" not in experiment.sides or rounds > 1:
            require_tag(tokenizers["encoder"], where)
        if rounds > 1 and experiment.back_translation.model is None:
            require_tag(tokenizers["decoder"], where)


def _in_round(name: str, number: int, first: int) -> str:
    """The name, with the round's number from round `first` on."""
    return name if number < first else f"{name}, round {number}"


def _reversed(corpus: Step, languages: Languages) -> Step[ReversedStage]:
    return Step(ReversedStage(languages=languages), f"{corpus.name}, reversed", {"corpus": corpus})


def _require_reverse(directory: Path, required: Languages, objective: TaskObjectiveSettings) -> None:
    """Raises UserError for a model that does not translate, or not between the required languages.

    objective: the objective of models that translate.
    """
    config, where = read_config(directory), f"{WHERE}: {directory}"
    family = family_of(config)
    if objective.kind not in family.objectives:
        hint = f"Give an encoder-decoder that translates from {required.source} to {required.target}."
        raise UserError(f"a {family.model_type} model does not translate", where=where, hint=hint)
    tokenizers = load_tokenizers(directory)
    format_of = partial(family.sequence_format, config, tokenizers["encoder"], tokenizers["decoder"])
    required_format, trained = format_of(required), checkpoint_languages(directory)
    if (
        trained is not None
        and _primary_codes(trained)[1] == _primary_codes(required)[1]
        and format_of(trained) != required_format
    ):
        return  # it marks the source language, so that another one than in its finetuning is zero-shot
    if trained is not None and _primary_codes(trained) != _primary_codes(required):
        raise UserError(
            f"a model from {trained.source} to {trained.target}, "
            f"but one from {required.source} to {required.target} is needed",
            where=where,
        )


def _primary_codes(languages: Languages) -> list[str]:
    """Both codes without a script or country: en_XX is en."""
    return [code.replace("-", "_").split("_")[0] for code in (languages.source, languages.target)]


class UnsupervisedSteps:
    """In each round, the model of the previous round translates text of both languages, and is trained on both."""

    def __init__(self, inputs: InputSteps) -> None:
        self.experiment = inputs.experiment
        self._inputs = inputs

    def training(self, system: System, seed: int, prepared: Step) -> Step[UnsupervisedStage]:
        """The last round of a system; `prepared` has its vocabulary.

        Raises UserError for a checkpoint that cannot be asked for one language or the other.
        """
        self._require_codes()
        rounds = self.experiment.unsupervised.rounds
        step = self._round(system, seed, prepared, 1, rounds)
        for number in range(2, rounds + 1):
            step = self._round(system, seed, step, number, rounds)
        return step

    def _round(self, system: System, seed: int, model: Step, number: int, rounds: int) -> Step[UnsupervisedStage]:
        experiment = self.experiment
        training = experiment.unsupervised.training(system.finetuning(experiment.finetune))
        has_embedding_rate = training.applied_embedding_learning_rate is not None
        stage = UnsupervisedStage(
            languages=experiment.languages,
            training=training,
            seed=seed,
            embedding_learning_rate_sides=experiment.sides if has_embedding_rate else (),
            text_objective=TranslationSettings(),
        )
        inputs = {
            "model": model,
            "corpus": self._inputs.downstream_corpus,
            "synthetic": self._translation("target", model, seed, number),
            "synthetic/reversed": self._translation("source", model, seed, number),
        }
        labels = {"system": system.name, "seed": str(seed)}
        name = f"finetune {system.name} seed {seed}" + (f", round {number}" if number < rounds else "")
        return with_engine(Step(stage, name, inputs, labels))

    def _translation(self, side: TextSide, model: Step, seed: int, number: int) -> Step[BackTranslatedStage]:
        """Lines of a side as targets, with their translations as sources."""
        experiment, text = self.experiment, self._inputs.text
        settings, languages = experiment.unsupervised, experiment.languages
        assert text is not None  # validation requires it
        stage = BackTranslatedStage(
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
        return with_engine(Step(stage, name, {"text": text, "model": model}))

    def _require_codes(self) -> None:
        checkpoint, languages = self.experiment.upstream.checkpoint, self.experiment.languages
        if checkpoint is None:
            return
        directory = require_model(self._inputs.checkpoint.stage.model)
        config, tokenizers = read_config(directory), self._inputs.checkpoint_tokenizers
        family, decoder = family_of(config), tokenizers["decoder"]
        encoder = tokenizers.get("encoder", decoder)
        formats = [family.sequence_format(config, encoder, decoder, pair) for pair in (languages, languages.reversed)]
        if formats[0] == formats[1]:
            raise UserError(
                f"a {family.model_type} model without language codes writes one language only",
                where=f"upstream.checkpoint: {checkpoint}",
                hint="An unsupervised system needs a model of both languages, such as an mBART.",
            )
