"""An experiment as steps: which stage makes what from what. Rows share every step that they have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from subgraft import stages
from subgraft.config.base import SideName
from subgraft.config.evaluation import MeasurementSettings
from subgraft.config.rows import Row
from subgraft.config.training import TrainingSettings
from subgraft.experiment.beginnings import Beginnings
from subgraft.initialisers.methods import DISTILLED_METHODS, SEEDED_METHODS, STATIC_METHODS, TRAINED_METHODS
from subgraft.recipes.evaluate import EvaluateRecipe
from subgraft.recipes.finetune import FinetuneRecipe, FirstPhase, NewRows
from subgraft.recipes.gap import GapRecipe
from subgraft.recipes.generator import GeneratorRecipe
from subgraft.recipes.intrinsic import IntrinsicRecipe
from subgraft.recipes.likelihood import LikelihoodRecipe
from subgraft.recipes.likelihood_matching import LikelihoodMatchingRecipe
from subgraft.recipes.report import ReportRecipe
from subgraft.recipes.static_embeddings import StaticEmbeddingsRecipe
from subgraft.recipes.token_distillation import TokenDistillationRecipe
from subgraft.recipes.transfer import TransferRecipe
from subgraft.store.step import TEST_SET, Step

Moment = Literal["upstream_before", "upstream_after"]


@dataclass(frozen=True)
class RowSteps:
    """The steps that one row takes under one seed; pretraining, generator and transfer only where it has them.

    forgetting: translations of the upstream test set, before finetuning and after, where they are wanted. intrinsic:
    the quality of held-out tokens' rows, likewise.  likelihood: bits of the test references, likewise.
    """

    row: Row
    seed: int
    pretrained: Step | None
    generator: Step | None
    transfer: Step | None
    finetune: Step
    evaluate: Step
    forgetting: Mapping[Moment, Step]
    intrinsic: Step | None
    likelihood: Step | None

    @property
    def static(self) -> dict[str, Step]:
        """The static embeddings that the row rests on, by side."""
        inputs = self.transfer.inputs if self.transfer else {}
        return {key.removeprefix("static/"): step for key, step in inputs.items() if key.startswith("static/")}

    @property
    def distilled(self) -> Step | None:
        """The training of the row's new tokens on the task's text."""
        return self.transfer.inputs.get("distilled") if self.transfer else None


class Pipeline(Beginnings):
    """Builds the steps of an experiment."""

    @cached_property
    def gap(self) -> Step:
        """How badly the upstream vocabulary fits the task's text."""
        inputs = {
            "model": self.pretrained,
            "vocabulary": self.vocabularies["decoder"],
            "corpus": self.downstream_corpus,
        }
        inputs |= {"encoder": self.vocabularies["encoder"]} if "encoder" in self.experiment.sides else {}
        return Step(stages.GAP, "subword gap", GapRecipe(), inputs)

    @cached_property
    def rows(self) -> tuple[RowSteps, ...]:
        """Every row under every seed."""
        return tuple(self.row(row, seed) for row in self.experiment.rows for seed in self.experiment.seeds)

    @cached_property
    def report(self) -> Step:
        """What everything leads to."""
        inputs = {
            "upstream_corpus": self.upstream_corpus,
            "downstream_corpus": self.downstream_corpus,
            "model": self.pretrained,
            "vocabulary": self.vocabularies["decoder"],
            "gap": self.gap,
        }
        for steps in self.rows:
            key = f"{steps.row.name}/{steps.seed}"
            inputs |= {f"finetune/{key}": steps.finetune, f"evaluate/{key}": steps.evaluate}
            inputs |= {f"pretrained/{key}": steps.pretrained} if steps.pretrained else {}
            inputs |= {f"transfer/{key}": steps.transfer} if steps.transfer else {}
            inputs |= {f"generator/{key}": steps.generator} if steps.generator else {}
            inputs |= {f"static/{side}/{key}": step for side, step in steps.static.items()}
            inputs |= {f"distilled/{key}": steps.distilled} if steps.distilled else {}
            inputs |= {f"{moment}/{key}": step for moment, step in steps.forgetting.items()}
            inputs |= {f"intrinsic/{key}": steps.intrinsic} if steps.intrinsic else {}
            inputs |= {f"likelihood/{key}": steps.likelihood} if steps.likelihood else {}
        return Step(stages.REPORT, "report", ReportRecipe.of(self.experiment), inputs)

    def _generator(self, row: Row, pretrained: Step) -> Step | None:
        experiment = self.experiment
        if row.generator is None:
            return None
        recipe = GeneratorRecipe(
            objectives=experiment.upstream.objectives,
            languages=experiment.upstream_languages,
            sides=experiment.sides,
            kind=row.generator,
            kd_weight=row.kd_weight or 0.0,
            generator=experiment.generator,
            training=_training(experiment.generator_training, row),
            seed=experiment.upstream.seed,
        )
        inputs = {"model": pretrained, "corpus": self.upstream_corpus}
        if experiment.generator.resegmentation.match:
            vocabularies = self.vocabularies_of(row)
            inputs |= {f"vocabulary/{side}": vocabularies[side] for side in experiment.sides}
        return Step(stages.GENERATOR, f"generator {row.name}", recipe, inputs)

    def _static(self, method: str, side: SideName, vocabulary: Step) -> Step:
        """Static embeddings of a side's new vocabulary; rows that need the same ones share them."""
        experiment = self.experiment
        settings = experiment.static_embeddings
        dimensions = settings.dimensions or experiment.model.d_model
        recipe = StaticEmbeddingsRecipe(
            side="target" if side == "decoder" else "source",
            algorithm=STATIC_METHODS[method],
            settings=settings.model_copy(update={"dimensions": dimensions}),
        )
        inputs = {"corpus": self.downstream_corpus, "vocabulary": vocabulary}
        return Step(stages.STATIC, f"{recipe.algorithm} embeddings of the {side}", recipe, inputs)

    def _distilled(self, model: Step, vocabularies: Mapping[SideName, Step]) -> Step:
        """Rows of the new tokens of all sides, by Token Distillation; all seeds share them."""
        experiment = self.experiment
        assert experiment.token_distillation_training is not None
        recipe = TokenDistillationRecipe(
            languages=experiment.languages,
            sides=experiment.sides,
            distillation=experiment.token_distillation,
            training=experiment.token_distillation_training,
            seed=experiment.upstream.seed,
        )
        inputs = {"model": model, "corpus": self.downstream_corpus}
        inputs |= {f"vocabulary/{side}": vocabularies[side] for side in experiment.sides}
        return Step(stages.DISTILLATION, "token distillation", recipe, inputs)

    def _matched(self, row: Row, model: Step, vocabularies: Mapping[SideName, Step], generator: Step | None) -> Step:
        """Rows of the decoder's new tokens, by likelihood matching; all seeds share them."""
        experiment = self.experiment
        assert experiment.likelihood_matching_training is not None
        recipe = LikelihoodMatchingRecipe(
            languages=experiment.languages,
            starts_from=row.starts_from or "mean",
            max_similar=experiment.generator.max_similar,
            matching=experiment.likelihood_matching,
            training=experiment.likelihood_matching_training,
            seed=experiment.upstream.seed,
        )
        inputs = {"model": model, "corpus": self.downstream_corpus, "vocabulary/decoder": vocabularies["decoder"]}
        inputs |= {"generator": generator} if generator else {}
        return Step(stages.MATCHING, f"likelihood matching from {recipe.starts_from}", recipe, inputs)

    def row(self, row: Row, seed: int) -> RowSteps:
        """The steps of any row, whether the experiment has it or not."""
        experiment = self.experiment
        labels = {"row": row.name, "seed": str(seed)}
        model = self.begins_with(row, seed)
        generator = self._generator(row, model)
        whole = self.ready_to_translate(model)
        transfer = self._transfer(row, seed, whole, generator) if row.initialiser else None
        phase = FirstPhase(share=row.tables_first, sides=experiment.sides) if row.tables_first else None
        inputs = {"model": transfer or whole, "corpus": self.downstream_corpus}
        training = row.finetuning(experiment.finetune)
        new = NewRows(sides=experiment.sides, keep_seen=row.keep_seen) if training.rare_tokens else None
        finetune = Step(
            stages.FINETUNE,
            f"finetune {row.name} seed {seed}",
            FinetuneRecipe(
                languages=experiment.languages,
                training=training,
                seed=seed,
                first_phase=phase,
                attached=experiment.sides if row.attached else (),
                fast_tables=experiment.sides if training.embedding_learning_rate is not None else (),
                new_rows=new,
            ),
            inputs | ({"upstream": whole} if row.attached or new else {}),
            labels,
        )
        evaluate = Step(
            stages.EVALUATE,
            f"evaluate {row.name} seed {seed}",
            EvaluateRecipe(languages=experiment.languages, evaluation=experiment.evaluation.measurement),
            {"model": finetune, "corpus": self.downstream_corpus},
            labels,
        )
        pretrained = None if row.pretraining == "none" else model
        forgetting = self._forgetting(row, seed, pretrained, finetune)
        intrinsic = self._intrinsic(row, transfer) if transfer else None
        likelihood = self._likelihood(finetune, labels) if experiment.evaluation.by_token_count else None
        return RowSteps(
            row, seed, pretrained, generator, transfer, finetune, evaluate, forgetting, intrinsic, likelihood
        )

    def _likelihood(self, finetune: Step, labels: Mapping[str, str]) -> Step:
        """Bits of the test references; every row's by the new tokens of the one downstream vocabulary."""
        experiment = self.experiment
        recipe = LikelihoodRecipe(languages=experiment.languages, test_sentences=experiment.evaluation.test_sentences)
        inputs = {
            "model": finetune,
            "corpus": self.downstream_corpus,
            "vocabulary": self.vocabularies["decoder"],
            "upstream": self.pretrained,
        }
        return Step(stages.LIKELIHOOD, finetune.name.replace("finetune", "likelihood of", 1), recipe, inputs, labels)

    def _forgetting(self, row: Row, seed: int, pretrained: Step | None, finetune: Step) -> dict[Moment, Step]:
        """The upstream test set, translated by the model that the row begins with and by the finetuned one."""
        settings = self.experiment.evaluation
        if settings.upstream_sentences is None:
            return {}
        evaluation = MeasurementSettings(
            beam=settings.beam,
            batch_size=settings.batch_size,
            max_length_ratio=settings.max_length_ratio,
            test_sentences=settings.upstream_sentences,
            calibration=False,
        )
        recipe = EvaluateRecipe(languages=self.experiment.upstream_languages, evaluation=evaluation, speed=False)

        def evaluated(model: Step, **labels: str) -> Step:
            inputs = {"model": model, "corpus": self.upstream_corpus}
            name = f"evaluate {model.name} on the upstream test set"
            return Step(stages.EVALUATE, name, recipe, inputs, {TEST_SET: "upstream", **labels})

        after = evaluated(finetune, row=row.name, seed=str(seed))
        found: dict[Moment, Step] = {"upstream_after": after}
        if pretrained:
            found["upstream_before"] = evaluated(pretrained)
        return found

    def _intrinsic(self, row: Row, transfer: Step) -> Step | None:
        """What a transfer makes of tokens whose rows are known; it is given what the transfer is given."""
        sample = self.experiment.intrinsic
        if sample is None or row.initialiser in DISTILLED_METHODS:  # there, only new tokens' rows are learnt
            return None
        made = transfer.recipe
        assert isinstance(made, TransferRecipe)
        recipe = IntrinsicRecipe(
            method=made.method, sides=made.sides, max_similar=made.max_similar, seed=made.seed, sample=sample
        )
        name = transfer.name.replace("transfer", "intrinsic quality of", 1)
        return Step(stages.INTRINSIC, name, recipe, transfer.inputs, transfer.labels)

    def _transfer(self, row: Row, seed: int, model: Step, generator: Step | None) -> Step:
        method = row.initialiser or ""
        seeded = method in SEEDED_METHODS
        recipe = TransferRecipe(
            method=method,
            sides=self.experiment.sides,
            max_similar=self.experiment.generator.max_similar,
            # Initialisers without randomness are given one seed, so that all seeds share the transfer.
            seed=seed if seeded else 0,
            keep_seen=row.keep_seen,
            keep_matrices=row.attached,
        )
        inputs = {"model": model}
        vocabularies = self.vocabularies_of(row)
        inputs |= {f"vocabulary/{side}": vocabularies[side] for side in self.experiment.sides}
        inputs |= {"generator": generator} if generator and method in TRAINED_METHODS else {}
        if method in STATIC_METHODS:
            inputs |= {
                f"static/{side}": self._static(method, side, vocabularies[side]) for side in self.experiment.sides
            }
        if method == "likelihood-matching":
            inputs |= {"distilled": self._matched(row, model, vocabularies, generator)}
        elif method in DISTILLED_METHODS:
            inputs |= {"distilled": self._distilled(model, vocabularies)}
        name = f"transfer {row.name} seed {seed}" if seeded else f"transfer {row.name}"
        return Step(stages.TRANSFER, name, recipe, inputs, {"row": row.name, **({"seed": str(seed)} if seeded else {})})


def _training(training: TrainingSettings, row: Row) -> TrainingSettings:
    """The generator's training, for as many steps as the row says."""
    return training.model_copy(update={"max_steps": row.generator_steps}) if row.generator_steps else training
