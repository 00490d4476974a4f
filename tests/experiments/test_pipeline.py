"""Which steps the systems of a comparison take, and which of these they share."""

from __future__ import annotations

from pathlib import Path

import pytest

from small_experiments import planned
from subgraft.base.errors import UserError
from subgraft.config.settings_base import SideName
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.steps.system import SystemSteps
from subgraft.orchestration.store.step import Step, in_order

STRATEGIES = (
    "systems=[{name: plain, vocabulary: upstream}, {name: random, initialiser: random},"
    " {name: single, pretraining: none}, {name: task, pretraining: downstream-vocabulary},"
    " {name: joint, pretraining: joint-vocabulary}, {name: sampled, vocabulary: upstream, pretraining: sampled},"
    " {name: independent, initialiser: random, copy_shared_tokens: false, embeddings_only_fraction: 0.25}]"
)


def pipeline(repository: Path, *changes: str) -> Pipeline:
    config = repository / "configs" / "quickstart.yaml"
    return planned(config, STRATEGIES, *changes)


def systems(made: Pipeline, seed: int = 1) -> dict[str, SystemSteps]:
    return {steps.system.name: steps for steps in made.systems if steps.seed == seed}


def made_with(step: Step | None, side: SideName) -> str:
    assert step is not None
    return step.inputs[side].fingerprint


def test_every_way_of_pretraining_happens_once_whatever_the_seeds(repository: Path) -> None:
    steps = in_order([pipeline(repository).report])
    assert len([step for step in steps if step.stage.stage_name == "pretrain"]) == 4
    assert len([step for step in steps if step.stage.stage_name == "build"]) == 2, "one for each seed"
    upstream, task, joint, source_of_single = 2, 1, 1, 1
    assert len([s for s in steps if s.stage.stage_name == "vocabulary"]) == upstream + task + joint + source_of_single


def test_a_model_is_pretrained_with_the_vocabulary_that_systems_would_be_given(repository: Path) -> None:
    made = pipeline(repository)
    result, vocabulary = systems(made), made.vocabularies.downstream["decoder"].fingerprint
    assert made_with(result["task"].pretrained, "decoder") == vocabulary
    assert made_with(result["task"].pretrained, "encoder") == made_with(result["plain"].pretrained, "encoder")
    assert made_with(result["sampled"].pretrained, "decoder") == made_with(result["plain"].pretrained, "decoder")
    single = result["single"].finetune.inputs["model"]
    assert single.stage.stage_name == "build" and made_with(single, "decoder") == vocabulary
    assert made_with(single, "encoder") != made_with(result["plain"].pretrained, "encoder")
    assert result["single"].pretrained is result["single"].transfer is None


def test_an_untrained_model_may_have_the_vocabulary_of_pretraining(repository: Path) -> None:
    """mBART's row Random (Liu et al., TACL 2020): only the weights differ."""
    rows = "systems=[{name: plain, vocabulary: upstream}, {name: random, vocabulary: upstream, pretraining: none}]"
    result = systems(pipeline(repository, rows))
    untrained = result["random"].finetune.inputs["model"]
    assert untrained.stage.stage_name == "build" and result["random"].transfer is None
    for side in ("encoder", "decoder"):
        assert made_with(untrained, side) == made_with(result["plain"].pretrained, side)


def test_a_joint_vocabulary_is_learnt_on_both_texts(repository: Path) -> None:
    made = pipeline(repository)
    joint = systems(made)["joint"].pretrained
    assert joint is not None
    decoder = joint.inputs["decoder"]
    assert (
        decoder.inputs["corpus"] is made.inputs.upstream_corpus
        and decoder.inputs["second"] is made.inputs.downstream_corpus
    )
    weighed = systems(pipeline(repository, "joint_vocabulary={weighing: equal}"))["joint"].pretrained
    assert made_with(weighed, "decoder") != decoder.fingerprint
    assert made_with(weighed, "encoder") == joint.inputs["encoder"].fingerprint


def test_both_sides_change_where_the_experiment_says_so(repository: Path) -> None:
    made = pipeline(repository, "sides=[encoder, decoder]")
    result = systems(made)
    for side in ("encoder", "decoder"):
        assert made_with(result["task"].pretrained, side) == made.vocabularies.downstream[side].fingerprint
        assert (
            made_with(result["single"].finetune.inputs["model"], side) == made.vocabularies.downstream[side].fingerprint
        )


def test_an_mbart_is_made_with_one_vocabulary_of_both_languages(repository: Path) -> None:
    result = systems(pipeline(repository, "model={family: mbart}"))
    for name in ("task", "joint", "single"):
        model = result[name].pretrained or result[name].finetune.inputs["model"]
        assert model.inputs["encoder"] is model.inputs["decoder"]
        assert model.inputs["decoder"].stage.model_dump()["side"] == "both"


def test_systems_differ_from_a_plain_one_only_where_they_say_so(repository: Path) -> None:
    """What other systems need must not enter the fingerprint of a system that has nothing to do with it."""
    everything = systems(pipeline(repository))
    alone = systems(pipeline(repository, "systems=[{name: random, initialiser: random}]"))
    assert alone["random"].evaluate.fingerprint == everything["random"].evaluate.fingerprint
    independent, random = everything["independent"], everything["random"]
    assert independent.transfer is not None and random.transfer is not None
    assert independent.transfer.inputs["model"] is random.transfer.inputs["model"]
    assert independent.transfer.fingerprint != random.transfer.fingerprint
    assert random.transfer.stage.model_dump()["copy_shared_tokens"]
    assert random.finetune.stage.first_phase is None


@pytest.mark.parametrize("seed", [1, 2])
def test_a_system_from_nothing_depends_on_its_seed(repository: Path, seed: int) -> None:
    model = systems(pipeline(repository), seed)["single"].finetune.inputs["model"]
    assert model.stage.model_dump()["seed"] == seed


SWEEPS = (
    "systems=[{name: plain, vocabulary: upstream}, {name: mean, initialiser: mean},"
    " {name: mean-500, initialiser: mean, vocabulary_size: 500}, {name: mean-800, initialiser: mean,"
    " vocabulary_size: 800}, {name: focus-500, initialiser: focus, vocabulary_size: 500},"
    " {name: single-500, pretraining: none, vocabulary_size: 500}, {name: patt, initialiser: patt},"
    " {name: patt-7, initialiser: patt, generator_steps: 7}, {name: patt-60, initialiser: patt, generator_steps: 60}]"
)


def test_a_system_of_another_vocabulary_size_has_its_own_vocabulary_and_nothing_else(repository: Path) -> None:
    result = systems(pipeline(repository, SWEEPS))
    mean, other, same = (result[name].transfer for name in ("mean", "mean-500", "mean-800"))
    assert mean is not None and other is not None and same is not None
    assert same.fingerprint == mean.fingerprint, "the size that all systems have"
    assert other.inputs["model"] is mean.inputs["model"]
    vocabulary = other.inputs["vocabulary/decoder"]
    assert vocabulary.stage.model_dump()["settings"]["size"] == 500
    static = result["focus-500"].static["decoder"]
    assert static.inputs["vocabulary"].fingerprint == vocabulary.fingerprint
    single = result["single-500"].finetune.inputs["model"]
    assert made_with(single, "decoder") == vocabulary.fingerprint


def test_a_system_of_other_generator_steps_has_its_own_generator(repository: Path) -> None:
    result = systems(pipeline(repository, SWEEPS))
    patt, other, same = (result[name].generator for name in ("patt", "patt-7", "patt-60"))
    assert patt is not None and other is not None and same is not None
    assert same.fingerprint == patt.fingerprint, "the steps that all systems have"
    changed = other.stage.model_dump()
    assert changed["training"]["max_steps"] == 7
    changed["training"]["max_steps"] = 60
    assert changed == patt.stage.model_dump()


RATES = (
    "systems=[{name: plain, vocabulary: upstream}, {name: mean, initialiser: mean},"
    " {name: plain-slow, vocabulary: upstream, learning_rate: 0.0005}, {name: plain-same, vocabulary: upstream,"
    " learning_rate: 0.001, embedding_learning_rate: 0.004},"
    " {name: frozen, initialiser: mean, embedding_learning_rate: 0}]"
)


def test_a_system_of_other_rates_is_finetuned_by_them_and_nothing_else_changes(repository: Path) -> None:
    result = systems(pipeline(repository, RATES, "finetune={learning_rate: 0.001, embedding_learning_rate: 0.004}"))
    plain, slow = result["plain"].finetune, result["plain-slow"].finetune
    assert result["plain-same"].finetune.fingerprint == plain.fingerprint, "the rates that all systems have"
    assert slow.inputs == plain.inputs
    changed = slow.stage.model_dump()
    assert changed["training"]["learning_rate"] == 0.0005
    changed["training"]["learning_rate"] = 0.001
    assert changed == plain.stage.model_dump()
    frozen = result["frozen"].finetune.stage.model_dump()
    assert (frozen["training"]["embedding_learning_rate"], frozen["embedding_learning_rate_sides"]) == (0, ("decoder",))
    assert result["frozen"].transfer is not None and result["mean"].transfer is not None
    assert result["frozen"].transfer.fingerprint == result["mean"].transfer.fingerprint


def test_a_table_rate_of_a_system_alone_is_for_the_sides_that_change(repository: Path) -> None:
    result = systems(pipeline(repository, RATES, "finetune={learning_rate: 0.001, embedding_learning_rate: null}"))
    assert result["plain-same"].finetune.stage.model_dump()["embedding_learning_rate_sides"] == ("decoder",)
    assert result["plain"].finetune.stage.embedding_learning_rate_sides == ()


WHAT = (
    "systems=[{name: plain, vocabulary: upstream}, {name: mean, initialiser: mean},"
    " {name: rows, initialiser: mean, train: new-rows}, {name: body, initialiser: mean, train: body},"
    " {name: held, initialiser: mean, rare_tokens: {l2_to_init: 2}}]"
)
OLD_AND_NEW = "systems=[{name: plain, vocabulary: upstream}, {name: mean, initialiser: mean}]"


def test_what_a_system_trains_is_its_finetunings_alone(repository: Path) -> None:
    rate = "finetune={learning_rate: 0.001, embedding_learning_rate: 0.004}"
    result = {name: steps.finetune for name, steps in systems(pipeline(repository, WHAT, rate)).items()}
    inputs = {name: {role: made.fingerprint for role, made in step.inputs.items()} for name, step in result.items()}
    mean, rows, body = (result[name].stage.model_dump() for name in ("mean", "rows", "body"))
    assert mean["training"]["train"] == "all" and mean["new_rows"] is None
    assert rows["training"] == {**mean["training"], "train": "new-rows"}
    assert (
        rows["new_rows"]
        == result["held"].stage.model_dump()["new_rows"]
        == {
            "sides": ("decoder",),
            "copy_shared_tokens": True,
        }
    )
    assert inputs["rows"] == {**inputs["mean"], "upstream": result["plain"].inputs["model"].fingerprint}
    assert body["training"]["train"] == "body" and body["training"]["embedding_learning_rate"] is None
    assert body["embedding_learning_rate_sides"] == ("decoder",) and inputs["body"] == inputs["mean"]
    everywhere = systems(pipeline(repository, OLD_AND_NEW, "finetune={train: body, rare_tokens: {l2_to_init: 1}}"))
    recipe = everywhere["plain"].finetune.stage
    assert (recipe.training.train, recipe.embedding_learning_rate_sides, recipe.new_rows) == (
        "body",
        ("decoder",),
        None,
    )


MEASURED = ("evaluation.upstream_sentences=30", "intrinsic={tokens: 40}")


def test_a_generator_knows_the_tasks_vocabulary_only_where_it_simulates_tokens_like_its_own(repository: Path) -> None:
    patt = "systems=[{name: plain, vocabulary: upstream}, {name: patt, initialiser: patt}]"
    plain, matched = (
        systems(pipeline(repository, patt, *changes))["patt"]
        for changes in ((), ("generator.resegmentation={match: downstream}",))
    )
    assert plain.generator is not None and matched.generator is not None and matched.transfer is not None
    assert set(plain.generator.inputs) == {"model", "corpus"}
    assert matched.generator.inputs["vocabulary/decoder"] is matched.transfer.inputs["vocabulary/decoder"]


def test_a_measurement_next_to_the_task_changes_no_other_step(repository: Path) -> None:
    plain, measured = systems(pipeline(repository)), systems(pipeline(repository, *MEASURED))
    for name, steps in plain.items():
        assert measured[name].evaluate.fingerprint == steps.evaluate.fingerprint
        assert list(steps.measured) == ["likelihood"]
    settings = pipeline(repository).report.stage.model_dump(mode="json")["settings"]
    assert settings["systems"][0].keys() <= {"name", "vocabulary", "initialiser", "pretraining"}, "without defaults"


def test_forgetting_is_measured_before_and_after_without_speed(repository: Path) -> None:
    made = pipeline(repository, *MEASURED)
    result = systems(made)
    before, after = (result["random"].measured[moment] for moment in ("upstream_before", "upstream_after"))
    assert before.inputs["model"] is made.models.pretrained and after.inputs["model"] is result["random"].finetune
    assert before.inputs["corpus"] is after.inputs["corpus"] is made.inputs.upstream_corpus
    recipe = before.stage.model_dump()
    assert recipe == after.stage.model_dump()
    assert recipe["speed"] is False and recipe["evaluation"]["calibration"] is False
    assert recipe["evaluation"]["test_sentences"] == 30
    as_on_the_task = pipeline(repository, *MEASURED, "evaluation={upstream_sentences: 30, metrics: [ROUGE-1]}")
    steps = systems(as_on_the_task)["random"]
    both = (steps.evaluate, steps.measured["upstream_after"])
    task, upstream = (each.stage.model_dump()["evaluation"] for each in both)
    assert {name for name in task if task[name] != upstream[name]} == {"test_sentences", "calibration"}
    assert before.fingerprint == result["plain"].measured["upstream_before"].fingerprint
    assert "upstream_before" not in result["single"].measured, "it has no upstream model"
    befores = [s for s in in_order([made.report]) if s.name.endswith("upstream test set") and "system" not in s.labels]
    assert len(befores) == 4, "one for each way of pretraining, whatever the seeds"


def test_intrinsic_quality_is_measured_on_what_the_transfer_is_given(repository: Path) -> None:
    result = systems(pipeline(repository, *MEASURED))
    random = result["random"]
    assert random.transfer is not None
    assert random.measured["intrinsic"].inputs == random.transfer.inputs
    assert random.measured["intrinsic"].stage.model_dump()["sample"] == {"tokens": 40, "seed": 1}
    assert not any("intrinsic" in result[name].measured for name in ("plain", "single"))


def test_likelihood_is_a_step_of_its_own_by_one_downstream_vocabulary(repository: Path) -> None:
    made = pipeline(repository, SWEEPS)
    result = systems(made)
    for steps in result.values():
        assert steps.measured["likelihood"].inputs["model"] is steps.finetune
        assert steps.measured["likelihood"].inputs["vocabulary"] is made.vocabularies.downstream["decoder"]
        assert steps.measured["likelihood"].inputs["upstream"] is made.models.pretrained
    without = systems(pipeline(repository, SWEEPS, "evaluation.by_token_count=false"))
    for name, steps in without.items():
        assert "likelihood" not in steps.measured
        assert steps.evaluate.fingerprint == result[name].evaluate.fingerprint


def test_the_gap_looks_at_the_encoders_vocabulary_where_it_gets_one(repository: Path) -> None:
    assert "encoder" not in pipeline(repository).evaluation.gap.inputs
    both = pipeline(repository, "sides=[encoder, decoder]")
    assert both.evaluation.gap.inputs["encoder"] is both.vocabularies.downstream["encoder"]


def test_an_upstream_corpus_without_a_test_split_is_refused_early(repository: Path, tmp_path: Path) -> None:
    for split in ("train", "dev"):
        for language in ("en", "de"):
            (tmp_path / f"{split}.{language}").write_text("a b\n" * 5)
    corpus = f"corpora.everyday={{folder: {tmp_path}}}"
    assert pipeline(repository, corpus).report
    with pytest.raises(UserError, match=r"needs its test split for evaluation\.upstream_sentences"):
        _ = pipeline(repository, corpus, *MEASURED).report


def test_rare_tokens_and_counts_are_of_the_systems_that_have_them_alone(repository: Path) -> None:
    """A system may have its own; they do not change systems without new rows."""
    both = (
        "systems=[{name: plain, vocabulary: upstream}, {name: mean, initialiser: mean},"
        " {name: held, initialiser: mean, rare_tokens: {l2_to_init: 2.0}},"
        " {name: used, initialiser: mean, vocabulary_min_count: 3}]"
    )
    result = systems(pipeline(repository, both))
    before = systems(pipeline(repository, both, "finetune.rare_tokens={min_count: 7, learning_rate_factor: 1.0}"))
    assert {name: steps.finetune.fingerprint for name, steps in result.items()} == {
        name: steps.finetune.fingerprint for name, steps in before.items()
    }, "settings that change nothing are dropped"
    mean, held = result["mean"].transfer, result["held"].transfer
    assert mean is not None and held is not None and held.fingerprint == mean.fingerprint
    assert (
        result["held"].finetune.inputs["upstream"].fingerprint == result["plain"].finetune.inputs["model"].fingerprint
    )
    assert "upstream" not in result["mean"].finetune.inputs
    after = systems(pipeline(repository, both, "finetune.rare_tokens={learning_rate_factor: 0.5}"))
    changed = {name for name in result if result[name].finetune.fingerprint != after[name].finetune.fingerprint}
    assert changed == {"mean", "used"}
    made = result["used"].transfer
    assert made is not None
    assert made.inputs["vocabulary/decoder"].stage.model_dump()["settings"]["min_count"] == 3
