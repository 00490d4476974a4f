"""Likelihood matching as a step: what it is given, who shares it, and that it is in no other system's fingerprint."""

from __future__ import annotations

from pathlib import Path

from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.runtime import Runtime
from subgraft.embeddings.methods.likelihood_matching import LikelihoodMatchingStage
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.steps.system import SystemSteps
from subgraft.orchestration.estimates.estimate import estimates
from subgraft.orchestration.execution.plan import make_plan
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store

SYSTEMS = (
    "systems=[{name: mean, initialiser: mean}, {name: patt+kd, initialiser: patt, kd_weight: 0.5}, "
    "{name: matched, initialiser: likelihood-matching}, "
    "{name: on-patt, initialiser: likelihood-matching, starts_from: patt, kd_weight: 0.5}]"
)


def experiment(repository: Path, *changes: str) -> Experiment:
    return load(repository / "configs" / "quickstart.yaml", Experiment, [SYSTEMS, *changes])


def pipeline(repository: Path, *changes: str) -> Pipeline:
    return Pipeline(experiment(repository, *changes), repository / "configs")


def systems(repository: Path, *changes: str) -> dict[tuple[str, int], SystemSteps]:
    return {(steps.system.name, steps.seed): steps for steps in pipeline(repository, *changes).systems}


def matching(steps: SystemSteps) -> Step:
    assert steps.distilled is not None and isinstance(steps.distilled.stage, LikelihoodMatchingStage)
    return steps.distilled


def test_all_seeds_share_one_and_the_report_bills_it(repository: Path) -> None:
    made = pipeline(repository)
    steps = {(steps.system.name, steps.seed): steps for steps in made.systems}
    first, second = steps["matched", 1], steps["matched", 2]
    assert first.transfer is not None and second.transfer is not None
    assert first.transfer.fingerprint == second.transfer.fingerprint
    step = matching(first)
    assert set(step.inputs) == {"model", "corpus", "vocabulary/decoder"}
    assert step.inputs["model"] is made.models.pretrained and step.inputs["corpus"] is made.inputs.downstream_corpus
    assert made.report.inputs["distilled/matched/1"].fingerprint == step.fingerprint
    assert first.generator is None and "intrinsic" not in first.measured


def test_on_top_of_a_generator_it_is_given_that_system_s_generator(repository: Path) -> None:
    made = pipeline(repository)
    steps = {(steps.system.name, steps.seed): steps for steps in made.systems}
    system, other = steps["on-patt", 1], steps["patt+kd", 1]
    assert system.generator is not None and other.generator is not None and system.transfer is not None
    assert system.generator.fingerprint == other.generator.fingerprint
    assert matching(system).inputs["generator"].fingerprint == other.generator.fingerprint
    assert set(system.transfer.inputs) == {"model", "vocabulary/decoder", "distilled"}, "its rows are whole"
    keys = {reported.name: reported.inputs.generator for reported in made.report.stage.systems}
    generators = {made.report.inputs[keys[name] or ""].fingerprint for name in ("on-patt", "patt+kd")}
    assert generators == {other.generator.fingerprint}
    assert matching(system).fingerprint != matching(steps["matched", 1]).fingerprint
    weight = "systems=[{name: on-patt, initialiser: likelihood-matching, starts_from: patt}]"
    assert systems(repository, weight)["on-patt", 1].generator.fingerprint != other.generator.fingerprint  # type: ignore[union-attr]


def test_its_settings_are_in_no_other_fingerprint(repository: Path) -> None:
    changes = ("likelihood_matching.temperature=10", "likelihood_matching_training.max_steps=7")
    before, after = systems(repository), systems(repository, *changes)
    assert matching(before["matched", 1]).fingerprint != matching(after["matched", 1]).fingerprint
    for name in ("mean", "patt+kd"):
        assert before[name, 1].evaluate.fingerprint == after[name, 1].evaluate.fingerprint


def test_presets_fill_in_what_is_not_given(repository: Path) -> None:
    training = experiment(repository, "likelihood_matching_training.max_steps=7").likelihood_matching_training
    assert training is not None
    assert (training.max_steps, training.precision) == (7, "auto")


def test_a_plan_estimates_it(repository: Path, tmp_path: Path) -> None:
    """Input rows and a bias are trained, of at most all tokens, in addition to the student's whole tables."""
    made = pipeline(repository, "likelihood_matching_training.max_steps=7")
    store = Store(tmp_path)
    result = {each.step.name: each for each in estimates(store, make_plan(store, [made.report]), Runtime())}
    each, settings = result["likelihood matching from mean"], made.experiment
    added = settings.downstream.vocabulary.size * (settings.model.d_model + 1)
    assert each.parameters.trained == added
    assert (
        each.parameters.total
        == result["finetune mean seed 1"].parameters.total
        + 2 * added
        - (settings.downstream.vocabulary.size - settings.upstream.vocabulary.size) * settings.model.d_model
    )
