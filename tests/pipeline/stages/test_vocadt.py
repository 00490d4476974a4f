"""The stage: same bytes from the same recipe, exact resume, both sides; and the transfer that takes its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from new_vocabularies import LANGUAGES, stage_inputs
from subgraft.base.errors import UserError
from subgraft.config.settings_base import SideName
from subgraft.config.training import TrainingSettings
from subgraft.embeddings.initialisers.learned_embeddings import LearnedEmbeddings
from subgraft.embeddings.learned_rows.vocadt import run
from subgraft.embeddings.methods.vocadt import VocadtStage
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import side as side_of
from subgraft.pipeline.compute import transfer
from subgraft.pipeline.stages.models import TransferStage
from watched import KilledError, Watched

BOTH: tuple[SideName, ...] = ("encoder", "decoder")
STEPS = 6
NOWHERE: Any = None  # a transfer does not look at its context


@pytest.fixture(scope="module", params=["marian", "mbart"])
def inputs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return stage_inputs(request.param, tmp_path_factory.mktemp(request.param))


def recipe(
    sides: tuple[SideName, ...] = BOTH, rate: float = 0.01, max_train_examples: int | None = None
) -> VocadtStage:
    training = TrainingSettings(
        max_steps=STEPS,
        batch_size=300,
        max_length=40,
        learning_rate=rate,
        warmup_steps=2,
        label_smoothing=0.0,
        dev_sentences=8,
    )
    return VocadtStage(
        languages=LANGUAGES, sides=sides, training=training, seed=1, max_train_examples=max_train_examples
    )


def learn(
    place: Path, inputs: dict[str, Path], chosen: VocadtStage | None = None, die_at: int | None = None
) -> tuple[dict[str, Any], list[int]]:
    (place / "out").mkdir(parents=True, exist_ok=True)
    context = Watched(place / "work", die_at)
    return dict(run(chosen or recipe(), inputs, place / "out", context)), context.steps


def transferred(inputs: dict[str, Path], rows: Path, out: Path, method: str = "vocadt") -> dict[str, Any]:
    out.mkdir()
    made = TransferStage(method=method, sides=BOTH, max_similar=10, seed=0)
    directories = {name: path for name, path in inputs.items() if name != "corpus"} | {"distilled": rows}
    return dict(transfer.run_transfer(made, directories, out, NOWHERE))


def contents(folder: Path) -> dict[str, bytes]:
    """Everything but curves, which tell seconds."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith("curve"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_the_same_recipe_gives_the_same_bytes_and_a_killed_run_does_too(
    inputs: dict[str, Path], tmp_path: Path
) -> None:
    _, steps = learn(tmp_path / "one", inputs)
    assert steps == [*range(1, STEPS + 1)], "sides are trained together"
    learn(tmp_path / "two", inputs)
    with pytest.raises(KilledError):
        learn(tmp_path / "killed", inputs, die_at=4)
    _, resumed = learn(tmp_path / "killed", inputs)
    assert resumed == [4, 5, 6], "only what came after the last checkpoint is done again"
    expected = contents(tmp_path / "one" / "out")
    assert {f"{side}/distilled_rows.safetensors" for side in BOTH} < set(expected)
    assert contents(tmp_path / "two" / "out") == contents(tmp_path / "killed" / "out") == expected


def test_the_summary_reports_learnt_tokens_and_losses(inputs: dict[str, Path], tmp_path: Path) -> None:
    summary, _ = learn(tmp_path / "all", inputs)
    sizes = {side: len(LearnedEmbeddings.load(tmp_path / "all" / "out" / side).tokens) for side in BOTH}
    assert summary["trainable"] == sizes and min(sizes.values()) > 20
    assert summary["steps"] == STEPS and summary["pairs"] == 40
    assert 0 < summary["loss_best"] < summary["loss_before"]
    fewer, _ = learn(tmp_path / "some", inputs, recipe(max_train_examples=10))
    assert fewer["pairs"] == 10
    assert all(0 < fewer["old_tokens"][side] < summary["old_tokens"][side] for side in BOTH), "of fewer sentences"
    assert contents(tmp_path / "some" / "out") != contents(tmp_path / "all" / "out")


def test_a_transfer_merges_the_rows_into_all_tables(inputs: dict[str, Path], tmp_path: Path) -> None:
    learn(tmp_path, inputs)
    summary = transferred(inputs, tmp_path / "out", tmp_path / "model")
    after, before = Bundle.load(tmp_path / "model"), Bundle.load(inputs["model"])
    vocabularies = {side: after.tokenizers[side] for side in BOTH}
    means = transplant(before.model, before.tokenizers, vocabularies, Method("mean")).model
    for name in BOTH:
        distilled, made, mean = (
            LearnedEmbeddings.load(tmp_path / "out" / name),
            side_of(after.model, name),
            side_of(means, name),
        )
        assert torch.equal(made.input.weight[distilled.tokens], distilled.rows)
        assert not torch.equal(mean.input.weight[distilled.tokens], distilled.rows)
        rest = torch.ones(len(made.input.weight), dtype=torch.bool).index_fill(0, distilled.tokens, False)
        assert torch.equal(made.input.weight[rest], mean.input.weight[rest])
        assert set(distilled.others) == ({"bias"} if name == "decoder" else set())
        if made.bias is not None:
            assert torch.equal(made.bias.flatten()[distilled.tokens], distilled.others["bias"])
        assert sum(summary["sides"][name]["fallbacks"].values()) == 0


def test_a_step_that_moves_nothing_leaves_the_means(inputs: dict[str, Path], tmp_path: Path) -> None:
    learn(tmp_path, inputs, recipe(rate=1e-12))
    transferred(inputs, tmp_path / "out", tmp_path / "model")
    after, before = Bundle.load(tmp_path / "model"), Bundle.load(inputs["model"])
    vocabularies = {side: after.tokenizers[side] for side in BOTH}
    means = transplant(before.model, before.tokenizers, vocabularies, Method("mean")).model.state_dict()
    for name, tensor in after.model.state_dict().items():
        torch.testing.assert_close(tensor, means[name], rtol=0, atol=1e-7)


def test_rows_for_another_model_or_method_are_refused(inputs: dict[str, Path], tmp_path: Path) -> None:
    learn(tmp_path, inputs)
    with pytest.raises(UserError, match="rows are of vocadt, not of token-distillation"):
        transferred(inputs, tmp_path / "out", tmp_path / "one", "token-distillation")
    bundle = Bundle.load(inputs["model"])
    with torch.no_grad():
        side_of(bundle.model, "decoder").input.weight.add_(0.1)
    bundle.save(tmp_path / "other")
    with pytest.raises(UserError, match=r"distilled for another model's (en|de)coder"):
        transferred(inputs | {"model": tmp_path / "other"}, tmp_path / "out", tmp_path / "two")


def test_a_vocabulary_without_new_tokens_leaves_nothing_to_learn(inputs: dict[str, Path], tmp_path: Path) -> None:
    Bundle.load(inputs["model"]).decoder.save(tmp_path / "own")
    summary, steps = learn(tmp_path, {**inputs, "vocabulary/decoder": tmp_path / "own"}, recipe(("decoder",)))
    assert steps == [] and summary == {"steps": 0, "trainable": {"decoder": 0}}
    assert len(LearnedEmbeddings.load(tmp_path / "out" / "decoder").tokens) == 0
