"""Steps of measurements other than the task's test set: likelihood, forgetting, rows of held-out tokens."""

from __future__ import annotations

from collections.abc import Mapping

from subgraft.config.evaluation import MeasurementSettings
from subgraft.config.initialiser_registry import initialiser_info
from subgraft.config.systems import System
from subgraft.experiments.decoding_engine import with_engine
from subgraft.experiments.synthetic_data import SyntheticDataSteps
from subgraft.experiments.system_steps import Moment
from subgraft.orchestration.store.step import TEST_SET, Step
from subgraft.pipeline import stages
from subgraft.pipeline.recipes.evaluation import EvaluateRecipe, IntrinsicRecipe, LikelihoodRecipe
from subgraft.pipeline.recipes.models import TransferRecipe


class Measurements(SyntheticDataSteps):
    """Builds these steps, each if the experiment asks for it."""

    def likelihood(self, finetune: Step, labels: Mapping[str, str]) -> Step:
        """Bits of the test references; every system's by the new tokens of the one downstream vocabulary."""
        experiment = self.experiment
        recipe = LikelihoodRecipe(languages=experiment.languages, test_sentences=experiment.evaluation.test_sentences)
        inputs = {
            "model": finetune,
            "corpus": self.downstream_corpus,
            "vocabulary": self.vocabularies["decoder"],
            "upstream": self.pretrained,
        }
        return Step(stages.LIKELIHOOD, finetune.name.replace("finetune", "likelihood of", 1), recipe, inputs, labels)

    def forgetting(self, system: System, seed: int, pretrained: Step | None, finetune: Step) -> dict[Moment, Step]:
        """The upstream test set, translated by the model that the system starts from and by the finetuned one."""
        settings = self.experiment.evaluation
        if settings.upstream_sentences is None:
            return {}
        evaluation = MeasurementSettings(
            beam=settings.beam,
            batch_size=settings.batch_size,
            max_length_ratio=settings.max_length_ratio,
            test_sentences=settings.upstream_sentences,
            calibration=False,
            engine=settings.named_engine,
        )
        recipe = EvaluateRecipe(languages=self.experiment.upstream_languages, evaluation=evaluation, speed=False)

        def evaluated(model: Step, **labels: str) -> Step:
            inputs = {"model": model, "corpus": self.upstream_corpus}
            name = f"evaluate {model.name} on the upstream test set"
            return with_engine(Step(stages.EVALUATE, name, recipe, inputs, {TEST_SET: "upstream", **labels}))

        after = evaluated(finetune, system=system.name, seed=str(seed))
        found: dict[Moment, Step] = {"upstream_after": after}
        if pretrained:
            found["upstream_before"] = evaluated(pretrained)
        return found

    def intrinsic(self, system: System, transfer: Step[TransferRecipe]) -> Step | None:
        """The quality of a transfer on tokens whose rows are known, with the transfer's inputs."""
        sample = self.experiment.intrinsic
        if sample is None or initialiser_info(system.initialiser).learnt_by:  # there, only new tokens' rows are learnt
            return None
        made = transfer.recipe
        recipe = IntrinsicRecipe(
            method=made.method,
            sides=made.sides,
            max_similar=made.max_similar,
            seed=made.seed,
            package=made.package,
            sample=sample,
        )
        name = transfer.name.replace("transfer", "intrinsic quality of", 1)
        return Step(stages.INTRINSIC, name, recipe, transfer.inputs, transfer.labels)
