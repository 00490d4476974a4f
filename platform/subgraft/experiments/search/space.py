"""A trial as a system of the experiment, and as the steps that measure it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

from subgraft.config.experiment.search import DEFAULT_TRIALS, Range, SearchSettings, SearchSpace
from subgraft.config.experiment.systems import System
from subgraft.config.plugins import METRICS, packages
from subgraft.embeddings.methods.registry import method_spec
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.search.trial_results import TrialResult, Value
from subgraft.experiments.steps.decoding_engine import with_engine
from subgraft.orchestration.store.step import Step, sha256_of
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.artifacts import read_evaluation
from subgraft.pipeline.stages.evaluation import TEST_SET, EvaluateStage
from subgraft.pipeline.stages.training import FinetuneStage
from subgraft.training.progress import SelectedWeights, selected_weights

ONLY_TRAINED = ("kd_weight", "generator_steps")
# Fields that a system with a trimmed vocabulary does not use, and their values in such a system.
ONLY_NEW_ROWS = (*ONLY_TRAINED, "initialiser", "vocabulary_size")
TRIMMED: Mapping[str, Any] = {
    **dict.fromkeys((*ONLY_NEW_ROWS, "starts_from", "rare_tokens", "new_embedding_learning_rate", "embedding_warmup")),
    "copy_shared_tokens": True,
    "embeddings_only_fraction": 0.0,
    "tie_to_sources": False,
}
DIGITS = 3


def draw(space: SearchSpace, system: System, choose: Callable[[str, Any], Value]) -> dict[str, Value]:
    """Values of a trial, picked by `choose`; those of a generator's training only if its initialiser is trained."""
    values: dict[str, Value] = {}
    for name, choices in space.varied.items():  # the vocabulary's mode comes first, then the initialiser
        if name in ONLY_NEW_ROWS and values.get("vocabulary_mode", system.vocabulary_mode) == "trim":
            continue
        if name not in ONLY_TRAINED or _is_trained(values.get("initialiser", system.generator)):
            value = choose(name, choices)
            values[name] = round_to_digits(float(value), choices) if isinstance(choices, Range) else value
    return values


def _is_trained(initialiser: Any) -> bool:
    return method_spec(initialiser).trained is not None


def grid(space: SearchSpace, system: System) -> list[dict[str, Value]]:
    """Every combination of the choices, each once, without values that its initialiser does not use."""
    points: list[dict[str, Value]] = []
    for combination in product(*space.varied.values()):
        values = draw(space, system, partial(_pick, dict(zip(space.varied, combination, strict=True))))
        points += [values] if values not in points else []
    return points


def _pick(combination: Mapping[str, Value], name: str, choices: object) -> Value:
    del choices
    return combination[name]


def round_to_digits(value: float, within: Range) -> float:
    """Round to three significant digits, so that a system copied from the page has the same steps."""
    digits = DIGITS - 1 - math.floor(math.log10(value)) if value else 0
    return min(max(round(value, digits), within.min), within.max)


def trial_system(system: System, trial: TrialResult) -> System:
    """The searched system with a trial's values; settings of a generator's training only if its initialiser has one."""
    fields = {**system.model_dump(), **trial.values, "name": trial.name}
    if "initialiser" in trial.values:
        fields["starts_from"] = None
    if fields.get("vocabulary_mode") == "trim":
        return System(**{**fields, **TRIMMED})
    if not _is_trained(fields.get("starts_from") or fields["initialiser"]):
        fields |= dict.fromkeys(ONLY_TRAINED)
    return System(**fields)


def as_yaml(system: System) -> str:
    """The system as a line of a configuration."""
    fields = system.model_dump(mode="json", exclude_defaults=True)
    return "{" + ", ".join(f"{name}: {json.dumps(value)}" for name, value in fields.items()) + "}"


@dataclass(frozen=True)
class TrialSteps:
    """The last steps of a trial; `speed` measures generation speed on dev, if that is an objective."""

    finetune: Step
    speed: Step | None

    @property
    def targets(self) -> list[Step]:
        return [self.finetune, *([self.speed] if self.speed else [])]

    def objectives(self, store: Store) -> dict[str, float]:
        """Its results: the dev score of the selected weights, and the speed. Raises OperationalError."""
        weights = self._selected_weights(store)
        results = {"dev_score": weights.value} if weights.bits is None else {"dev_bits_per_character": weights.bits}
        if weights.bleu is not None:
            results["dev_bleu"] = weights.bleu
        if self.speed is not None:
            evaluation = read_evaluation(store.artifact(self.speed))
            results["sentences_per_second"] = float(evaluation["speed"]["median"])
        return results

    def remarks(self, store: Store) -> list[str]:
        """Caveats of its dev score."""
        trained = self._selected_weights(store).step > 0
        return [] if trained else ["its dev score was best before any training"]

    def _selected_weights(self, store: Store) -> SelectedWeights:
        stage = self.finetune.stage
        assert isinstance(stage, FinetuneStage)
        return selected_weights(store.artifact(self.finetune), stage.training.select)


def trial_steps(pipeline: Pipeline, trial: TrialResult) -> TrialSteps:
    """The steps of a trial's system up to its finetuning, as a run has them; the test set has no part in them."""
    return _steps(pipeline, trial_system(template(pipeline), trial))


def _steps(pipeline: Pipeline, system: System) -> TrialSteps:
    search = search_settings(pipeline)
    finetune = pipeline.system(system, pipeline.experiment.seeds[0]).finetune
    if "sentences_per_second" not in search.objectives:
        return TrialSteps(finetune, None)
    settings = pipeline.experiment.evaluation
    changes = {"test_sentences": settings.speed_sentences, "calibration": False}
    stage = EvaluateStage(
        languages=pipeline.experiment.languages,
        evaluation=settings.measurement.model_copy(update=changes),
        split="dev",
        objective=pipeline.experiment.finetuned_on,
        packages=packages(METRICS, settings.metrics),
    )
    inputs = {"model": finetune, "corpus": pipeline.inputs.downstream_corpus}
    labels = {**finetune.labels, TEST_SET: "dev"}
    return TrialSteps(finetune, with_engine(Step(stage, f"speed of {system.name}", inputs, labels)))


def search_settings(pipeline: Pipeline) -> SearchSettings:
    """The settings of the search, which must exist."""
    search = pipeline.experiment.search
    assert search is not None
    return search


def planned_trials(pipeline: Pipeline) -> int:
    """The planned number of trials."""
    search = search_settings(pipeline)
    if search.sampler == "grid":
        return len(grid(search.space, template(pipeline)))
    return search.trials or DEFAULT_TRIALS


def template(pipeline: Pipeline) -> System:
    """The system that is varied."""
    return next(system for system in pipeline.experiment.systems if system.name == search_settings(pipeline).system)


def identity(pipeline: Pipeline) -> str:
    """SHA-256 hex of all settings that trials and their results depend on, but not of the number of trials."""
    excluded = {"trials", "concurrent", "system", "systems"}
    settings: Mapping[str, Any] = search_settings(pipeline).model_dump(mode="json", exclude=excluded)
    steps = _steps(pipeline, template(pipeline)).targets
    return sha256_of({"search": settings, "steps": [step.fingerprint for step in steps]})
