"""Whole experiments of other shapes than the demo's: denoising upstream, both sides, a local checkpoint."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from whole_runs import run_config

pytestmark = pytest.mark.ray

SMALL = (
    "corpora.everyday.limit={train: 800, dev: 20, test: 20}",
    "corpora.law.limit={train: 300, dev: 20, test: 20}",
    "seeds=[1]",
    "upstream.vocabulary.size=500",
    "upstream.vocabulary.byte_fallback=false",
    "downstream.vocabulary.size=350",
    "downstream.vocabulary.byte_fallback=false",
    "pretrain.epochs=1",
    "generator_training.max_steps=6",
    "generator_training.batch_size=400",
    "finetune.epochs=1",
    "systems=[{name: old, vocabulary: upstream}, {name: mean, initialiser: mean},"
    " {name: patt+kd, initialiser: patt, kd_weight: 0.5}]",
    "evaluation={beam: 1, speed_sentences: 8, speed_repeats: 1}",
)
SHAPE = "d_model: 32, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 64, dropout: 0.1"
SYSTEMS = ("old", "mean", "patt+kd")


# A few steps of each training, on a few lines of each corpus.
FEW = (
    "corpora.everyday.limit={train: 800, dev: 20, test: 20}",
    "corpora.itdocs.limit={train: 300, dev: 20, test: 20}",
    "upstream.vocabulary.size=700",
    "upstream.vocabulary.byte_fallback=false",
    "downstream.vocabulary.size=600",
    "downstream.vocabulary.byte_fallback=false",
    "pretrain.max_steps=20",
    "pretrain.precision=fp32",
    "generator_training={max_steps: 6, batch_size: 400, precision: fp32}",
    "finetune.max_steps=20",
    "finetune.precision=fp32",
    "evaluation={beam: 1, speed_sentences: 8, speed_repeats: 1}",
)


def _run(repository: Path, home: Path, *settings: str) -> str:
    return run_config(repository / "configs" / "quickstart.yaml", home, *SMALL, *settings)


def _artifacts(home: Path, stage: str) -> dict[str, Path]:
    """The directories that a stage has made, by the name of their step."""
    records = sorted((home / "store" / stage).glob("*/record.json"))
    return {json.loads(record.read_text())["name"]: record.parent for record in records}


def _check(home: Path, sides: tuple[str, ...], systems: tuple[str, ...] = SYSTEMS) -> None:
    """Every system has an evaluation, and every transferred model the tables of its new vocabularies."""
    evaluations = _artifacts(home, "evaluate")
    assert set(evaluations) == {f"evaluate {system} seed 1" for system in systems}
    for directory in evaluations.values():
        evaluation = json.loads((directory / "evaluation.json").read_text())
        assert evaluation["sentences"] == 20
        assert 0 <= evaluation["scores"]["BLEU"]["value"] <= 100
    reports = [json.loads((path / "transfer.json").read_text()) for path in _artifacts(home, "transfer").values()]
    assert len(reports) == 2
    for transferred in reports:
        assert set(transferred) == set(sides)
        assert all(side["seen"] and side["unseen"] for side in transferred.values())
    (report,) = _artifacts(home, "report").values()
    assert all(system in (report / "report.md").read_text() for system in systems)


@pytest.mark.slow
def test_a_denoising_mbart_gets_vocabularies_on_both_sides(repository: Path, tmp_path: Path) -> None:
    model = f"model={{family: mbart, {SHAPE}}}"
    settings = (model, "upstream.objectives=[{kind: denoising}]", "sides=[encoder, decoder]", "pretrain.max_steps=30")
    _run(repository, tmp_path, *settings)
    _check(tmp_path, ("encoder", "decoder"))
    finetuned = _artifacts(tmp_path, "finetune")
    for system in SYSTEMS:
        config = json.loads((finetuned[f"finetune {system} seed 1"] / "config.json").read_text())
        assert config["model_type"] == ("mbart" if system == "old" else "split_mbart"), "its sides have parted company"


@pytest.mark.slow
def test_a_checkpoint_of_ones_own_takes_the_place_of_pretraining(repository: Path, tmp_path: Path) -> None:
    model = f"model={{{SHAPE}}}"
    _run(repository, tmp_path / "first", model, "sides=[encoder, decoder]")
    _check(tmp_path / "first", ("encoder", "decoder"))
    (pretrained,) = _artifacts(tmp_path / "first", "pretrain").values()
    _run(repository, tmp_path / "second", model, f"upstream.checkpoint={pretrained}")
    _check(tmp_path / "second", ("decoder",))
    assert not (tmp_path / "second" / "store" / "pretrain").exists()
    record = json.loads((pretrained / "record.json").read_text())
    assert list(_artifacts(tmp_path / "second", "checkpoint")) == [f"checkpoint {record['name']}"]


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("family", ["bert", "mbart"])
def test_what_a_model_of_monolingual_text_knows_is_transferred(
    family: str, repository: Path, mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The configurations of the paper's table 3 as they are shipped, in small; then with a checkpoint, both sides."""
    monkeypatch.setenv("SUBGRAFT_DATA", str(mirror))
    config, systems = repository / "configs" / f"table3-{family}.yaml", ("without", "mean", "patt+kd")
    shape = SHAPE.replace("encoder_layers: 1, decoder_layers: 1", "layers: 1") if family == "bert" else SHAPE
    model = f"model={{family: {family}, {shape}}}"
    run_config(config, tmp_path / "first", *FEW, model)
    _check(tmp_path / "first", ("decoder",), systems)
    finetuned = _artifacts(tmp_path / "first", "finetune")
    described = {
        system: json.loads((finetuned[f"finetune {system} seed 1"] / "config.json").read_text()) for system in systems
    }
    families = {system: config["model_type"] for system, config in described.items()}
    if family == "bert":
        assert set(families.values()) == {"encoder-decoder"}
        sizes = {
            system: (whole["encoder"]["vocab_size"], whole["decoder"]["vocab_size"])
            for system, whole in described.items()
        }
        assert sizes == {"without": (700, 700), "mean": (700, 600), "patt+kd": (700, 600)}
    else:
        assert families == {"without": "mbart", "mean": "split_mbart", "patt+kd": "split_mbart"}
    (pretrained,) = _artifacts(tmp_path / "first", "pretrain").values()
    checkpoint = (f"upstream.checkpoint={pretrained}", "sides=[encoder, decoder]")
    run_config(config, tmp_path / "second", *FEW, model, *checkpoint)
    _check(tmp_path / "second", ("encoder", "decoder"), systems)


@pytest.mark.slow
def test_what_is_finished_is_shown_from_a_store_that_can_only_be_read(repository: Path, tmp_path: Path) -> None:
    """In a name space of its own, where this user may mount the store for reading alone."""
    home, few = tmp_path / "home", (f"model={{{SHAPE}}}", "systems=[{name: old, vocabulary: upstream}]")
    _run(repository, home, *few)
    before = sorted((path, path.stat().st_mtime_ns) for path in home.rglob("*"))
    mounted = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec"]
    read_only = f"mount --bind {home} {home} && mount -o remount,bind,ro {home}"
    allowed = subprocess.run([*mounted, read_only], capture_output=True, text=True, check=False)
    if allowed.returncode:
        pytest.skip(f"needs a mount, which is not permitted here: {allowed.stderr.strip()}")

    def again(*settings: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "subgraft", "run", str(repository / "configs" / "quickstart.yaml")]
        asked = shlex.join([*command, *SMALL, *few, *settings])
        environment = {**os.environ, "SUBGRAFT_HOME": str(home)}
        return subprocess.run(
            [*mounted, f"{read_only}; {asked}"], env=environment, capture_output=True, text=True, check=False
        )

    shown = again()
    assert shown.returncode == 0, shown.stderr
    assert "the store is read-only" in shown.stdout and "report.html" in shown.stdout
    other = again("seeds=[2]")
    assert (other.returncode, other.stdout) == (1, "")
    assert "cannot write there, and" in other.stderr and "Traceback" not in other.stderr
    assert sorted((path, path.stat().st_mtime_ns) for path in home.rglob("*")) == before
