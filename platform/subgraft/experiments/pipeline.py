"""An experiment as steps, each a stage with a recipe and inputs. Systems share all steps that they have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

from subgraft.config.initialiser_registry import LearningName, initialiser_info, package_of
from subgraft.config.plugins import METRICS, packages
from subgraft.config.settings_base import SideName, StaticAlgorithm
from subgraft.config.systems import System
from subgraft.experiments.conditioning_steps import conditioned_step
from subgraft.experiments.decoding_engine import with_engine
from subgraft.experiments.embedding_steps import generator_step, vocadt_step
from subgraft.experiments.evaluation_steps import Measurements
from subgraft.experiments.manifest import manifest
from subgraft.experiments.system_steps import SystemSteps
from subgraft.orchestration.store.step import Step
from subgraft.pipeline import stages
from subgraft.pipeline.recipes.embeddings import LikelihoodMatchingRecipe, TokenDistillationRecipe
from subgraft.pipeline.recipes.evaluation import EvaluateRecipe, ReportRecipe
from subgraft.pipeline.recipes.models import TransferRecipe
from subgraft.pipeline.recipes.training import FinetuneRecipe, FirstPhase, NewRows
from subgraft.pipeline.recipes.vocabularies import GapRecipe, StaticEmbeddingsRecipe


class Pipeline(Measurements):
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
    def systems(self) -> tuple[SystemSteps, ...]:
        """Every system under every seed."""
        return tuple(self.system(system, seed) for system in self.experiment.systems for seed in self.experiment.seeds)

    @cached_property
    def report(self) -> Step[ReportRecipe]:
        """The last step, which all others lead to."""
        inputs = {
            **({"upstream_corpus": self.upstream_corpus} if self.experiment.upstream.corpus else {}),
            "downstream_corpus": self.downstream_corpus,
            "model": self.pretrained,
            "vocabulary": self.vocabularies["decoder"],
            "gap": self.gap,
        }
        inputs |= {"text": self.text} if self.text else {}
        recipe, of_systems = manifest(self.experiment, self.systems)
        return Step(stages.REPORT, "report", recipe, {**inputs, **of_systems})

    def generator_of(self, system: System) -> Step | None:
        """The generator that a system needs; it does not depend on the task."""
        return generator_step(self, system, self.pretrained)

    def _static(self, algorithm: StaticAlgorithm, side: SideName, vocabulary: Step) -> Step:
        """Static embeddings of a side's new vocabulary; systems that need the same ones share them."""
        experiment = self.experiment
        settings = experiment.static_embeddings
        dimensions = settings.dimensions or experiment.model.width_of_rows
        recipe = StaticEmbeddingsRecipe(
            side=self.text_of(side),
            algorithm=algorithm,
            settings=settings.model_copy(update={"dimensions": dimensions}),
        )
        inputs = {"corpus": self.downstream_corpus, "vocabulary": vocabulary, **self.text_on(recipe.side)}
        return Step(stages.STATIC, f"{recipe.algorithm} embeddings of the {side}", recipe, inputs)

    @property
    def _learnt(self) -> Mapping[LearningName, Callable[[System, Step, Mapping[SideName, Step], Step | None], Step]]:
        """The methods that learn rows of new tokens, each as a step."""
        return {"token-distillation": self._distilled, "likelihood-matching": self._matched, "vocadt": self._vocadt}

    def _distilled(
        self, system: System, model: Step, vocabularies: Mapping[SideName, Step], generator: Step | None
    ) -> Step:
        """Rows of the new tokens of all sides, by Token Distillation; all seeds share them."""
        del system, generator  # it begins with no other initialiser's rows
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
        inputs |= self.text_on("source") if "encoder" in experiment.sides else {}
        inputs |= self.copies if "decoder" in experiment.sides else {}
        return Step(stages.DISTILLATION, "token distillation", recipe, inputs)

    def _vocadt(
        self, system: System, model: Step, vocabularies: Mapping[SideName, Step], generator: Step | None
    ) -> Step:
        del system, generator
        return vocadt_step(self.experiment, model, self.downstream_corpus, vocabularies)

    def _matched(
        self, system: System, model: Step, vocabularies: Mapping[SideName, Step], generator: Step | None
    ) -> Step:
        """Rows of the decoder's new tokens, by likelihood matching; all seeds share them."""
        experiment = self.experiment
        assert experiment.likelihood_matching_training is not None
        recipe = LikelihoodMatchingRecipe(
            languages=experiment.languages,
            starts_from=system.starts_from or "mean",
            max_similar=experiment.generator.max_similar,
            matching=experiment.likelihood_matching,
            training=experiment.likelihood_matching_training,
            seed=experiment.upstream.seed,
        )
        inputs = {"model": model, "corpus": self.downstream_corpus, "vocabulary/decoder": vocabularies["decoder"]}
        inputs |= {"generator": generator} if generator else {}
        inputs |= self.copies if experiment.likelihood_matching.text == "references" else {}
        return Step(stages.MATCHING, f"likelihood matching from {recipe.starts_from}", recipe, inputs)

    def system(self, system: System, seed: int) -> SystemSteps:
        """The steps of any system, whether the experiment has it or not."""
        model = self.begins_with(system, seed)
        generator = generator_step(self, system, model)
        whole = self.ready_to_translate(model)
        transfer = self._transfer(system, seed, whole, generator) if self.experiment.vocabulary_mode(system) else None
        begun = self.embedding_warmup(system, transfer, whole) or transfer or whole
        finetune = self._finetune(system, seed, conditioned_step(self, system, seed, begun), whole)
        pretrained = None if system.pretraining == "none" else model
        by_tokens = self.experiment.evaluation.by_token_count
        return SystemSteps(
            system,
            seed,
            pretrained,
            generator,
            transfer,
            finetune,
            self._evaluate(finetune),
            self.forgetting(system, seed, pretrained, finetune),
            self.intrinsic(system, transfer) if transfer and system.initialiser else None,
            self.likelihood(finetune, finetune.labels) if by_tokens else None,
        )

    def _finetune(self, system: System, seed: int, begun: Step, upstream: Step) -> Step[FinetuneRecipe]:
        """Finetune `begun`, which has the system's vocabulary; `upstream` is the model before the transfer."""
        experiment, sides = self.experiment, self.experiment.sides
        training = system.finetuning(experiment.finetune)
        asks_for_new = training.rare_tokens is not None or training.train == "new-rows"
        new = NewRows(sides=sides, copy_shared_tokens=system.copy_shared_tokens) if asks_for_new else None
        recipe = FinetuneRecipe(
            languages=experiment.languages,
            training=training,
            seed=seed,
            first_phase=FirstPhase(share=system.embeddings_only_fraction, sides=sides)
            if system.embeddings_only_fraction
            else None,
            tie_to_sources=sides if system.tie_to_sources else (),
            fast_tables=sides if training.rate_of_tables is not None else (),
            new_rows=new,
            objective=experiment.finetuned_on,
            text_objective=self.learnt_by(system.text),
            drift=experiment.finetuned_on.source is not None,
        )
        inputs = {"model": begun, "corpus": self.downstream_corpus}
        inputs |= {"upstream": upstream} if system.tie_to_sources or new else {}
        inputs |= self.read_as(system.text)
        labels = {"system": system.name, "seed": str(seed)}
        return with_engine(Step(stages.FINETUNE, f"finetune {system.name} seed {seed}", recipe, inputs, labels))

    def _evaluate(self, finetune: Step) -> Step[EvaluateRecipe]:
        experiment, labels = self.experiment, finetune.labels
        recipe = EvaluateRecipe(
            languages=experiment.languages,
            evaluation=experiment.evaluation.measurement,
            objective=experiment.finetuned_on,
            packages=packages(METRICS, experiment.evaluation.metrics),
            ranking=experiment.evaluation.ranking if experiment.finetuned_on.source else None,
        )
        inputs = {"model": finetune, "corpus": self.downstream_corpus}
        name = f"evaluate {labels['system']} seed {labels['seed']}"
        return with_engine(Step(stages.EVALUATE, name, recipe, inputs, labels))

    def _transfer(self, system: System, seed: int, model: Step, generator: Step | None) -> Step[TransferRecipe]:
        method = system.initialiser or "mean"  # of a trimmed vocabulary, which has no rows to make
        facts = initialiser_info(system.initialiser)
        seeded = facts.seeded
        recipe = TransferRecipe(
            method=method,
            sides=self.experiment.sides,
            max_similar=self.experiment.generator.max_similar,
            # Initialisers without randomness are given one seed, so that all seeds share the transfer.
            seed=seed if seeded else 0,
            package=package_of(method),
            copy_shared_tokens=system.copy_shared_tokens,
            keep_matrices=system.tie_to_sources,
        )
        inputs = {"model": model}
        vocabularies = self.vocabularies_of(system)
        inputs |= {f"vocabulary/{side}": vocabularies[side] for side in self.experiment.sides}
        inputs |= {"generator": generator} if generator and facts.trained else {}
        if facts.static:
            sides = self.experiment.sides
            inputs |= {f"static/{side}": self._static(facts.static, side, vocabularies[side]) for side in sides}
        if facts.learnt_by:
            inputs |= {"distilled": self._learnt[facts.learnt_by](system, model, vocabularies, generator)}
        name = f"transfer {system.name} seed {seed}" if seeded else f"transfer {system.name}"
        labels = {"system": system.name, **({"seed": str(seed)} if seeded else {})}
        return Step(stages.TRANSFER, name, recipe, inputs, labels)
