"""Which steps the rows of a comparison take, and which of these they share."""

from __future__ import annotations

from pathlib import Path

import pytest

from subgraft.config import Experiment
from subgraft.configfile import load
from subgraft.experiment.pipeline import Pipeline, RowSteps
from subgraft.experiment.step import Step, in_order
from subgraft.settings import SideName

STRATEGIES = (
    "rows=[{name: plain, vocabulary: upstream}, {name: random, initialiser: random},"
    " {name: single, pretraining: none}, {name: task, pretraining: downstream-vocabulary},"
    " {name: joint, pretraining: joint-vocabulary}, {name: sampled, vocabulary: upstream, pretraining: sampled},"
    " {name: independent, initialiser: random, keep_seen: false, tables_first: 0.25}]"
)


def pipeline(repository: Path, *changes: str) -> Pipeline:
    config = repository / "configs" / "quickstart.yaml"
    return Pipeline(load(config, Experiment, [STRATEGIES, *changes]), config.parent)


def rows(made: Pipeline, seed: int = 1) -> dict[str, RowSteps]:
    return {steps.row.name: steps for steps in made.rows if steps.seed == seed}


def made_with(step: Step | None, side: SideName) -> str:
    assert step is not None
    return step.inputs[side].fingerprint


def test_every_way_of_pretraining_happens_once_whatever_the_seeds(repository: Path) -> None:
    steps = in_order([pipeline(repository).report])
    assert len([step for step in steps if step.stage.name == "pretrain"]) == 4
    assert len([step for step in steps if step.stage.name == "build"]) == 2, "one for each seed"
    upstream, task, joint, source_of_single = 2, 1, 1, 1
    assert len([s for s in steps if s.stage.name == "vocabulary"]) == upstream + task + joint + source_of_single


def test_a_model_is_pretrained_with_the_vocabulary_that_rows_would_be_given(repository: Path) -> None:
    made = pipeline(repository)
    found, vocabulary = rows(made), made.vocabularies["decoder"].fingerprint
    assert made_with(found["task"].pretrained, "decoder") == vocabulary
    assert made_with(found["task"].pretrained, "encoder") == made_with(found["plain"].pretrained, "encoder")
    assert made_with(found["sampled"].pretrained, "decoder") == made_with(found["plain"].pretrained, "decoder")
    single = found["single"].finetune.inputs["model"]
    assert single.stage.name == "build" and made_with(single, "decoder") == vocabulary
    assert made_with(single, "encoder") != made_with(found["plain"].pretrained, "encoder")
    assert found["single"].pretrained is found["single"].transfer is None


def test_a_joint_vocabulary_is_learnt_on_both_texts(repository: Path) -> None:
    made = pipeline(repository)
    joint = rows(made)["joint"].pretrained
    assert joint is not None
    decoder = joint.inputs["decoder"]
    assert decoder.inputs["corpus"] is made.upstream_corpus and decoder.inputs["second"] is made.downstream_corpus
    weighed = rows(pipeline(repository, "joint_vocabulary={weighing: equal}"))["joint"].pretrained
    assert made_with(weighed, "decoder") != decoder.fingerprint
    assert made_with(weighed, "encoder") == joint.inputs["encoder"].fingerprint


def test_both_sides_change_where_the_experiment_says_so(repository: Path) -> None:
    made = pipeline(repository, "sides=[encoder, decoder]")
    found = rows(made)
    for side in ("encoder", "decoder"):
        assert made_with(found["task"].pretrained, side) == made.vocabularies[side].fingerprint  # type: ignore[index]
        assert made_with(found["single"].finetune.inputs["model"], side) == made.vocabularies[side].fingerprint  # type: ignore[index]


def test_an_mbart_is_made_with_one_vocabulary_of_both_languages(repository: Path) -> None:
    found = rows(pipeline(repository, "model={family: mbart}"))
    for name in ("task", "joint", "single"):
        model = found[name].pretrained or found[name].finetune.inputs["model"]
        assert model.inputs["encoder"] is model.inputs["decoder"]
        assert model.inputs["decoder"].recipe.model_dump()["side"] == "both"


def test_rows_differ_from_a_plain_one_only_where_they_say_so(repository: Path) -> None:
    """What other rows need must not enter the fingerprint of a row that has nothing to do with it."""
    everything = rows(pipeline(repository))
    alone = rows(pipeline(repository, "rows=[{name: random, initialiser: random}]"))
    assert alone["random"].evaluate.fingerprint == everything["random"].evaluate.fingerprint
    independent, random = everything["independent"], everything["random"]
    assert independent.transfer is not None and random.transfer is not None
    assert independent.transfer.inputs["model"] is random.transfer.inputs["model"]
    assert independent.transfer.fingerprint != random.transfer.fingerprint
    assert "keep_seen" not in random.transfer.recipe.model_dump()
    assert "first_phase" not in random.finetune.recipe.model_dump()


@pytest.mark.parametrize("seed", [1, 2])
def test_a_row_from_nothing_depends_on_its_seed(repository: Path, seed: int) -> None:
    model = rows(pipeline(repository), seed)["single"].finetune.inputs["model"]
    assert model.recipe.model_dump()["seed"] == seed
