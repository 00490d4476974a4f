"""A system whose new embeddings are a donor's: the donor's digest is in the recipe, and no other recipe changes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from small_experiments import TINY, finish, planned, written
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.steps.system import SystemSteps
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import side
from toys import SHAPE, build_marian, english_tokenizer, german_tokenizer

LINEAR = "{name: linear, initialiser: donor, donor: {model: donor, mapping: linear}}"
OMP = "{name: omp, initialiser: donor, donor: {model: donor, atoms: 4}}"
SYSTEMS = f"systems=[{{name: plain, vocabulary: upstream}}, {{name: mean, initialiser: mean}}, {LINEAR}, {OMP}]"
CHANGES = (SYSTEMS, "intrinsic={tokens: 4}", "pretrain.epochs=1")


def save_donor(place: Path, seed: int = 3) -> None:
    sources, targets = english_tokenizer(100), german_tokenizer(160)
    model = build_marian(sources, targets, seed=seed, **{**SHAPE, "d_model": 24})
    Bundle(model, sources, targets).save(place)


def steps_of(config: Path, *changes: str) -> dict[str, SystemSteps]:
    pipeline = planned(config, *CHANGES, *changes)
    return {steps.system.name: steps for steps in pipeline.systems}


def fingerprint(steps: dict[str, SystemSteps], name: str) -> str:
    transfer = steps[name].transfer
    assert transfer is not None
    return transfer.fingerprint


def test_both_mappings_run_from_text_to_scores_and_are_measured(tmp_path: Path) -> None:
    config = written(tmp_path, TINY)
    save_donor(tmp_path / "donor")
    pipeline, store = finish(config, *CHANGES)
    by_name = {steps.system.name: steps for steps in pipeline.systems}
    for name in ("linear", "omp"):
        transfer = by_name[name].transfer
        assert transfer is not None and transfer.stage.donor is not None
        report = json.loads((store.path(transfer) / "transfer.json").read_text())["decoder"]
        assert report["unseen"] > sum(report["fallbacks"].values()) > 0 and report["method"] == "donor"
    made = [Bundle.load(store.path(by_name[name].transfer)) for name in ("linear", "omp", "mean")]  # type: ignore[arg-type]
    weights = [side(each.model, "decoder").input.weight for each in made]
    assert not (weights[0].equal(weights[1]) or weights[0].equal(weights[2]))


def test_the_donors_digest_counts_and_its_place_does_not(tmp_path: Path) -> None:
    config = written(tmp_path, TINY)
    save_donor(tmp_path / "donor")
    first = steps_of(config)
    shutil.copytree(tmp_path / "donor", tmp_path / "elsewhere")
    moved = steps_of(config, SYSTEMS.replace("model: donor", "model: elsewhere"))
    assert fingerprint(first, "omp") == fingerprint(moved, "omp") != fingerprint(first, "linear")
    shutil.rmtree(tmp_path / "donor")
    save_donor(tmp_path / "donor", seed=4)
    assert fingerprint(steps_of(config), "omp") != fingerprint(first, "omp")
    assert fingerprint(steps_of(config), "mean") == fingerprint(first, "mean")
    mean = first["mean"].transfer
    assert mean is not None and mean.stage.donor is None
    omp = first["omp"].transfer
    assert omp is not None and omp.stage.model_dump(mode="json")["donor"] == {
        "mapping": "omp",
        "atoms": 4,
        "ridge": None,
    }


def test_a_donor_that_is_absent_or_not_asked_for_is_refused(tmp_path: Path) -> None:
    config = written(tmp_path, TINY)
    (tmp_path / "donor").mkdir()
    with pytest.raises(UserError, match=r"system (linear|omp), donor.model: donor: not a model directory"):
        steps_of(config)
    for system in ("{name: a, initialiser: donor}", "{name: a, initialiser: mean, donor: {model: donor}}"):
        with pytest.raises(UserError, match=r"`initialiser: donor` and `donor: .* require each other"):
            load(config, Experiment, [f"systems=[{system}]"])
    wrong = "{name: a, initialiser: donor, donor: {model: donor, mapping: linear, atoms: 3}}"
    with pytest.raises(UserError, match="atoms applies to mapping: omp"):
        load(config, Experiment, [f"systems=[{wrong}]"])
