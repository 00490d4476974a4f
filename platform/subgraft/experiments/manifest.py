"""What the report is given: every system under every seed, with the report's inputs that belong to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from subgraft.experiments.sweep_settings import design
from subgraft.pipeline.recipes.evaluation import ReportedSystem, ReportRecipe, SystemInputs

if TYPE_CHECKING:
    from subgraft.config.experiment import Experiment
    from subgraft.experiments.system_steps import SystemSteps
    from subgraft.orchestration.store.step import Step


def manifest(experiment: Experiment, systems: Sequence[SystemSteps]) -> tuple[ReportRecipe, Mapping[str, Step]]:
    """The report's recipe, and the steps of the systems under the keys that it names them by."""
    keys = _Keys()
    reported = tuple(
        ReportedSystem(
            name=steps.system.name,
            seed=steps.seed,
            design=design(steps.system, experiment),
            inputs=_inputs(steps, keys),
        )
        for steps in systems
    )
    baselines = (
        system.name
        for system in experiment.systems
        if system.vocabulary == "upstream" and system.pretraining == "plain"
    )
    recipe = ReportRecipe(
        name=experiment.name,
        languages=experiment.languages,
        upstream=experiment.upstream.corpus,
        downstream=experiment.downstream.corpus,
        systems=reported,
        baseline=next(baselines, None),
        speed_batch_size=experiment.evaluation.batch_size,
        bootstrap_samples=experiment.evaluation.bootstrap_samples,
        select=experiment.finetune.select or "bleu",
        objective=experiment.finetuned_on,
        settings=experiment.model_dump(mode="json", exclude={"runtime", "corpora", "search"}),
    )
    return recipe, keys.steps


class _Keys:
    """Steps by keys that people can read; a step that systems share has one key."""

    def __init__(self) -> None:
        self.steps: dict[str, Step] = {}
        self._keys: dict[str, str] = {}

    def of(self, step: Step, key: str) -> str:
        """The step's key: this one, unless it has another already."""
        found = self._keys.setdefault(step.fingerprint, key)
        self.steps.setdefault(found, step)
        return found


def _inputs(steps: SystemSteps, keys: _Keys) -> SystemInputs:
    whose, forgetting = f"{steps.system.name}/{steps.seed}", steps.forgetting

    def key(role: str, step: Step | None) -> str | None:
        return keys.of(step, f"{role}/{whose}") if step else None

    return SystemInputs(
        finetune=keys.of(steps.finetune, f"finetune/{whose}"),
        evaluate=keys.of(steps.evaluate, f"evaluate/{whose}"),
        pretrained=key("pretrained", steps.pretrained),
        transfer=key("transfer", steps.transfer),
        generator=key("generator", steps.generator),
        static={side: keys.of(step, f"static/{side}/{whose}") for side, step in steps.static.items()},
        distilled=key("distilled", steps.distilled),
        rows_first=key("rows_first", steps.rows_first),
        made_text=tuple(keys.of(step, f"{step.stage.name}/text/{whose}") for step in steps.made_text),
        upstream_before=key("upstream_before", forgetting.get("upstream_before")),
        upstream_after=key("upstream_after", forgetting.get("upstream_after")),
        intrinsic=key("intrinsic", steps.intrinsic),
        likelihood=key("likelihood", steps.likelihood),
    )
