"""An experiment as steps: which stage makes what from what. Rows share every step that they have in common."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from subgraft import stages
from subgraft.config import Row
from subgraft.experiment.beginnings import Beginnings
from subgraft.experiment.step import Step
from subgraft.grafting.initialisers import SEEDED_METHODS, STATIC_METHODS, TRAINED_METHODS
from subgraft.settings import SideName
from subgraft.stages.evaluate import EvaluateRecipe
from subgraft.stages.finetune import FinetuneRecipe
from subgraft.stages.gap import GapRecipe
from subgraft.stages.generator import GeneratorRecipe
from subgraft.stages.phases import FirstPhase
from subgraft.stages.report import ReportRecipe
from subgraft.stages.static_embeddings import StaticEmbeddingsRecipe
from subgraft.stages.transfer import TransferRecipe


@dataclass(frozen=True)
class RowSteps:
    """The steps that one row takes under one seed; pretraining, generator and transfer only where it has them."""

    row: Row
    seed: int
    pretrained: Step | None
    generator: Step | None
    transfer: Step | None
    finetune: Step
    evaluate: Step

    @property
    def static(self) -> dict[str, Step]:
        """The static embeddings that the row rests on, by side."""
        inputs = self.transfer.inputs if self.transfer else {}
        return {key.removeprefix("static/"): step for key, step in inputs.items() if key.startswith("static/")}


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
        return Step(stages.GAP, "subword gap", GapRecipe(), inputs)

    @cached_property
    def rows(self) -> tuple[RowSteps, ...]:
        """Every row under every seed."""
        return tuple(self._row(row, seed) for row in self.experiment.rows for seed in self.experiment.seeds)

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
        return Step(stages.REPORT, "report", ReportRecipe.of(self.experiment), inputs)

    def _generator(self, row: Row, pretrained: Step) -> Step:
        experiment = self.experiment
        recipe = GeneratorRecipe(
            objective=experiment.upstream.objective,
            languages=experiment.languages,
            noise=experiment.upstream.noise,
            sides=experiment.sides,
            kind=row.initialiser,  # type: ignore[arg-type]
            kd_weight=row.kd_weight or 0.0,
            generator=experiment.generator,
            training=experiment.generator_training,
            seed=experiment.upstream.seed,
            masking=self.masking,
        )
        inputs = {"model": pretrained, "corpus": self.upstream_corpus}
        return Step(stages.GENERATOR, f"generator {row.name}", recipe, inputs)

    def _static(self, method: str, side: SideName) -> Step:
        """Static embeddings of a side's new vocabulary; rows that need the same ones share them."""
        experiment = self.experiment
        settings = experiment.static_embeddings
        dimensions = settings.dimensions or experiment.model.d_model
        recipe = StaticEmbeddingsRecipe(
            side="target" if side == "decoder" else "source",
            algorithm=STATIC_METHODS[method],
            settings=settings.model_copy(update={"dimensions": dimensions}),
        )
        inputs = {"corpus": self.downstream_corpus, "vocabulary": self.vocabularies[side]}
        return Step(stages.STATIC, f"{recipe.algorithm} embeddings of the {side}", recipe, inputs)

    def _row(self, row: Row, seed: int) -> RowSteps:
        experiment = self.experiment
        labels = {"row": row.name, "seed": str(seed)}
        model = self.begins_with(row, seed)
        generator = self._generator(row, model) if row.initialiser in TRAINED_METHODS else None
        whole = self.ready_to_translate(model)
        transfer = self._transfer(row, seed, whole, generator) if row.initialiser else None
        phase = FirstPhase(share=row.tables_first, sides=experiment.sides) if row.tables_first else None
        finetune = Step(
            stages.FINETUNE,
            f"finetune {row.name} seed {seed}",
            FinetuneRecipe(
                languages=experiment.languages,
                training=experiment.finetune,
                seed=seed,
                first_phase=phase,
            ),
            {"model": transfer or whole, "corpus": self.downstream_corpus},
            labels,
        )
        evaluate = Step(
            stages.EVALUATE,
            f"evaluate {row.name} seed {seed}",
            EvaluateRecipe(languages=experiment.languages, evaluation=experiment.evaluation),
            {"model": finetune, "corpus": self.downstream_corpus},
            labels,
        )
        pretrained = None if row.pretraining == "none" else model
        return RowSteps(row, seed, pretrained, generator, transfer, finetune, evaluate)

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
        )
        inputs = {"model": model}
        inputs |= {f"vocabulary/{side}": self.vocabularies[side] for side in self.experiment.sides}
        inputs |= {"generator": generator} if generator else {}
        if method in STATIC_METHODS:
            inputs |= {f"static/{side}": self._static(method, side) for side in self.experiment.sides}
        name = f"transfer {row.name} seed {seed}" if seeded else f"transfer {row.name}"
        return Step(stages.TRANSFER, name, recipe, inputs, {"row": row.name, **({"seed": str(seed)} if seeded else {})})
