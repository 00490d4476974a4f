"""Methods that learn rows, as steps: what each reads, who shares it, and that it is in no other's fingerprint."""

from __future__ import annotations

from pathlib import Path

import pytest

from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.runtime import Runtime
from subgraft.embeddings.methods.attention_influence import AttentionInfluenceStage
from subgraft.embeddings.methods.method import LearningStage
from subgraft.embeddings.methods.registry import METHODS
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.steps.system import SystemSteps
from subgraft.orchestration.estimates.estimate import Estimate, estimates
from subgraft.orchestration.execution.plan import make_plan
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store

LEARNING = {name: method.learning for name, method in METHODS.items() if method.learning}
BOTH = "sides=[encoder, decoder]"
# Settings of a method in addition to those of its training.
OWN = {"token-distillation": "token_distillation.layer=1", "likelihood-matching": "likelihood_matching.temperature=10"}
every_method = pytest.mark.parametrize("method", LEARNING)


def experiment(repository: Path, systems: str, *changes: str) -> Experiment:
    return load(repository / "configs" / "quickstart.yaml", Experiment, [f"systems=[{systems}]", *changes])


def pipeline(repository: Path, method: str, *changes: str) -> Pipeline:
    """Systems with mean rows and with a method's, which have the names of their initialisers."""
    systems = f"{{name: mean, initialiser: mean}}, {{name: {method}, initialiser: {method}}}"
    return Pipeline(experiment(repository, systems, *changes), repository / "configs")


def systems(made: Pipeline) -> dict[tuple[str, int], SystemSteps]:
    return {(steps.system.name, steps.seed): steps for steps in made.systems}


def learning(steps: SystemSteps) -> Step:
    assert steps.distilled is not None and isinstance(steps.distilled.stage, LearningStage)
    return steps.distilled


@every_method
def test_all_seeds_share_one_and_the_report_bills_it(repository: Path, method: str) -> None:
    made, stage = pipeline(repository, method), LEARNING[method]
    steps = systems(made)
    first, second = steps[method, 1], steps[method, 2]
    assert first.transfer is not None and second.transfer is not None
    assert first.transfer.fingerprint == second.transfer.fingerprint
    step = learning(first)
    assert isinstance(step.stage, stage) and made.experiment.sides == ("decoder",)
    assert set(step.inputs) == {"model", "corpus", "vocabulary/decoder", *(["other"] * stage.reads_upstream_text)}
    assert step.inputs["model"] is made.models.pretrained and step.inputs["corpus"] is made.inputs.downstream_corpus
    assert made.report.inputs[f"distilled/{method}/1"].fingerprint == step.fingerprint
    assert first.generator is None and "intrinsic" not in first.measured and steps["mean", 1].distilled is None


@every_method
def test_its_settings_are_in_no_other_fingerprint(repository: Path, method: str) -> None:
    training = METHODS[method].training
    assert training is not None
    plain = systems(pipeline(repository, method))
    for change in (f"{training.name}.max_steps=7", *filter(None, [OWN.get(method)])):
        changed = systems(pipeline(repository, method, change))
        assert learning(plain[method, 1]).fingerprint != learning(changed[method, 1]).fingerprint
        assert plain["mean", 1].evaluate.fingerprint == changed["mean", 1].evaluate.fingerprint


@every_method
def test_presets_fill_in_what_is_not_given(repository: Path, method: str) -> None:
    training = METHODS[method].training
    assert training is not None
    settings = getattr(pipeline(repository, method, f"{training.name}.max_steps=7").experiment, training.name)
    assert (settings.max_steps, settings.precision) == (7, "auto")


@pytest.mark.parametrize("method", [name for name, stage in LEARNING.items() if not stage.decoder_alone])
def test_every_side_that_changes_is_learnt_with_its_vocabulary(repository: Path, method: str) -> None:
    step = learning(systems(pipeline(repository, method, BOTH))[method, 1])
    assert step.stage.model_dump()["sides"] == ("encoder", "decoder")
    assert {"vocabulary/encoder", "vocabulary/decoder"} < step.inputs.keys()


def test_attention_influence_is_a_step_of_its_own_with_its_own_settings(repository: Path) -> None:
    made = pipeline(repository, "attention-influence", "attention_influence.layer=1")
    step = learning(systems(made)["attention-influence", 1])
    assert (step.name, step.stage.stage_name) == ("attention influence", "attention-influence")
    assert isinstance(step.stage, AttentionInfluenceStage) and step.stage.distillation.layer == 1


def test_vocadt_reads_as_many_pairs_as_the_finetuning(repository: Path) -> None:
    """Else the rows would know text that no other system of the comparison has."""
    for changes, expected in ((("finetune.max_train_examples=50",), 50), ((), None)):
        step = learning(systems(pipeline(repository, "vocadt", *changes))["vocadt", 1])
        assert step.stage.max_train_examples == expected  # type: ignore[attr-defined]


def test_matching_on_top_of_a_generator_reads_that_system_s_generator(repository: Path) -> None:
    generated = "{name: patt+kd, initialiser: patt, kd_weight: 0.5}"
    on_patt = "{name: on-patt, initialiser: likelihood-matching, starts_from: patt%s}"
    matched = "{name: matched, initialiser: likelihood-matching}"
    settings = experiment(repository, f"{generated}, {matched}, {on_patt % ', kd_weight: 0.5'}")
    made = Pipeline(settings, repository / "configs")
    steps = systems(made)
    system, other = steps["on-patt", 1], steps["patt+kd", 1]
    assert system.generator is not None and other.generator is not None and system.transfer is not None
    assert system.generator.fingerprint == other.generator.fingerprint
    assert learning(system).inputs["generator"].fingerprint == other.generator.fingerprint
    assert set(system.transfer.inputs) == {"model", "vocabulary/decoder", "distilled"}, "its rows are whole"
    keys = {reported.name: reported.inputs.generator for reported in made.report.stage.systems}
    generators = {made.report.inputs[keys[name] or ""].fingerprint for name in ("on-patt", "patt+kd")}
    assert generators == {other.generator.fingerprint}
    assert learning(system).fingerprint != learning(steps["matched", 1]).fingerprint
    weightless = systems(Pipeline(experiment(repository, on_patt % ""), repository / "configs"))["on-patt", 1]
    assert weightless.generator is not None and weightless.generator.fingerprint != other.generator.fingerprint


def planned(made: Pipeline, home: Path) -> dict[str, Estimate]:
    store = Store(home)
    return {each.step.name: each for each in estimates(store, make_plan(store, [made.report]), Runtime())}


def test_a_plan_of_vocadt_estimates_a_weight_for_every_new_and_old_token(repository: Path, tmp_path: Path) -> None:
    made = pipeline(repository, "vocadt")
    result, settings = planned(made, tmp_path), made.experiment
    old, new = settings.upstream.vocabulary.size, settings.downstream.vocabulary.size
    parameters = result["vocadt"].parameters
    assert parameters.trained == old * new
    neighbour = old * new + (old + new) * settings.model.d_model
    whole = result["finetune mean seed 1"].parameters.total
    assert parameters.total == whole + neighbour - (new - old) * settings.model.d_model


def test_a_plan_of_matching_estimates_a_student_s_whole_tables(repository: Path, tmp_path: Path) -> None:
    """Input rows and a bias are trained, of at most all tokens."""
    made = pipeline(repository, "likelihood-matching", "likelihood_matching_training.max_steps=7")
    result, settings = planned(made, tmp_path), made.experiment
    old, new = settings.upstream.vocabulary.size, settings.downstream.vocabulary.size
    parameters = result["likelihood matching from mean"].parameters
    assert parameters.trained == new * (settings.model.d_model + 1)
    whole = result["finetune mean seed 1"].parameters.total
    assert parameters.total == whole + 2 * parameters.trained - (new - old) * settings.model.d_model


@pytest.mark.parametrize(
    ("system", "changes", "message"),
    [
        ("initialiser: vocadt, copy_shared_tokens: false", (), "vocadt learns new tokens only"),
        (
            "initialiser: token-distillation",
            ("model.decoder_layers=2", "token_distillation.layer=3"),
            r"token_distillation\.layer 3 is beyond the 2 layers of a side",
        ),
        (
            "initialiser: attention-influence",
            ("model.decoder_layers=2", "attention_influence.layer=3"),
            r"attention_influence\.layer 3 is beyond the 2 layers of a side",
        ),
    ],
)
def test_what_a_method_cannot_do_is_refused(
    repository: Path, system: str, changes: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        experiment(repository, f"{{name: a, {system}}}", *changes)
