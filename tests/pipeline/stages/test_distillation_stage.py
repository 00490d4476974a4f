"""The stage: same bytes from the same recipe, exact resume, both sides; and the transfer that takes its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from new_vocabularies import LANGUAGES, TEXTS, stage_inputs
from subgraft.base.errors import UserError
from subgraft.config.settings_base import SideName
from subgraft.config.training import TrainingSettings
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.fields import Field
from subgraft.embeddings.initialisers.learned_embeddings import LearnedEmbeddings
from subgraft.embeddings.methods.attention_influence import AttentionInfluenceSettings, AttentionInfluenceStage
from subgraft.embeddings.methods.token_distillation import (
    DistillationStage,
    TokenDistillationSettings,
    TokenDistillationStage,
)
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import side as side_of
from subgraft.pipeline.compute import transfer
from subgraft.pipeline.stages.models import TransferStage
from watched import KilledError, Watched

BOTH: tuple[SideName, ...] = ("encoder", "decoder")
STEPS = 6
METHODS = ("token-distillation", "attention-influence")
NOWHERE: Any = None  # a transfer does not look at its context


@pytest.fixture(scope="module", params=["marian", "mbart"])
def inputs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return stage_inputs(request.param, tmp_path_factory.mktemp(request.param))


def recipe(
    sides: tuple[SideName, ...] = ("decoder",), layer: int | None = None, method: str = "token-distillation"
) -> DistillationStage:
    training = TrainingSettings(
        max_steps=STEPS, batch_size=300, max_length=40, learning_rate=0.003, warmup_steps=2, dev_sentences=8
    )
    trained: dict[str, Any] = {"languages": LANGUAGES, "sides": sides, "training": training, "seed": 1}
    if method == "attention-influence":
        return AttentionInfluenceStage(distillation=AttentionInfluenceSettings(layer=layer), **trained)
    return TokenDistillationStage(distillation=TokenDistillationSettings(layer=layer), **trained)


def distil(
    place: Path,
    inputs: dict[str, Path],
    sides: tuple[SideName, ...] = ("decoder",),
    die_at: int | None = None,
    method: str = "token-distillation",
) -> tuple[dict[str, Any], list[int]]:
    (place / "out").mkdir(parents=True, exist_ok=True)
    context = Watched(place / "work", die_at, "train_distillation")
    return dict(recipe(sides, method=method).run(inputs, place / "out", context)), context.steps


def contents(folder: Path) -> dict[str, bytes]:
    """Everything but curves, which tell seconds."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith("curve"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("method", METHODS)
def test_the_same_recipe_gives_the_same_bytes_and_a_killed_run_does_too(
    inputs: dict[str, Path], tmp_path: Path, method: str
) -> None:
    _, steps = distil(tmp_path / "one", inputs, BOTH, method=method)
    assert steps == [*range(1, STEPS + 1)] * 2
    distil(tmp_path / "two", inputs, BOTH, method=method)
    with pytest.raises(KilledError):
        distil(tmp_path / "killed", inputs, BOTH, die_at=4, method=method)
    _, resumed = distil(tmp_path / "killed", inputs, BOTH, method=method)
    assert resumed == [4, 5, 6, *range(1, STEPS + 1)], "only what came after the last checkpoint is done again"
    expected = contents(tmp_path / "one" / "out")
    assert {path.split("/")[0] for path in expected} == set(BOTH)
    assert contents(tmp_path / "two" / "out") == contents(tmp_path / "killed" / "out") == expected


@pytest.mark.parametrize("method", METHODS)
def test_the_summary_reports_learnt_tokens_and_distances(inputs: dict[str, Path], tmp_path: Path, method: str) -> None:
    summary, _ = distil(tmp_path, inputs, method=method)
    of_decoder = summary["decoder"]
    distilled = LearnedEmbeddings.load(tmp_path / "out" / "decoder")
    assert of_decoder["trained"] == len(distilled.tokens) == of_decoder["in_text"] < of_decoder["trainable"]
    assert of_decoder["steps"] == STEPS
    assert 0 < of_decoder["distance_after"] < of_decoder["distance_before"]


@pytest.mark.parametrize("method", METHODS)
def test_a_transfer_takes_the_systems_and_gives_the_others_the_mean(
    inputs: dict[str, Path], tmp_path: Path, method: str
) -> None:
    distil(tmp_path, inputs, BOTH, method=method)
    (tmp_path / "model").mkdir()
    made = TransferStage(method=method, sides=BOTH, max_similar=10, seed=0)
    directories = {name: path for name, path in inputs.items() if name != "corpus"} | {"distilled": tmp_path / "out"}
    summary: Any = transfer.run_transfer(made, directories, tmp_path / "model", NOWHERE)
    after, before = Bundle.load(tmp_path / "model"), Bundle.load(inputs["model"])
    vocabularies = {side: after.tokenizers[side] for side in BOTH}
    means = transplant(before.model, before.tokenizers, vocabularies, Method("mean")).model
    for side in BOTH:
        distilled = LearnedEmbeddings.load(tmp_path / "out" / side)
        row, mean = side_of(after.model, side).input.weight, side_of(means, side).input.weight
        assert torch.equal(row[distilled.tokens], distilled.rows)
        assert not torch.equal(mean[distilled.tokens], distilled.rows)
        rest = torch.ones(len(row), dtype=torch.bool).index_fill(0, distilled.tokens, False)
        assert torch.equal(row[rest], mean[rest])
        of_side = summary["sides"][side]
        assert sum(of_side["fallbacks"].values()) == of_side["unseen"] - len(distilled.tokens) > 0
    bias = side_of(after.model, "decoder").bias
    assert bias is not None and torch.equal(bias, side_of(means, "decoder").bias)  # type: ignore[arg-type]


def test_a_text_without_any_new_token_leaves_the_means(inputs: dict[str, Path], tmp_path: Path) -> None:
    bundle = Bundle.load(inputs["model"])
    bundle.decoder.save(tmp_path / "own")
    summary, steps = distil(tmp_path, {**inputs, "vocabulary/decoder": tmp_path / "own"})
    assert steps == []
    assert summary["decoder"] == {"steps": 0, "trainable": 0, "in_text": 0, "trained": 0, "sentences": 0}
    assert len(LearnedEmbeddings.load(tmp_path / "out" / "decoder").tokens) == 0


def test_a_layer_that_the_model_does_not_have_is_refused(inputs: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no more than 2 layers"):
        recipe(layer=3).run(inputs, tmp_path, Watched(tmp_path / "work", None))


def test_monolingual_text_trains_the_side_that_reads_it(inputs: dict[str, Path], tmp_path: Path) -> None:
    more = TEXTS[60:160]
    for at, field in enumerate(("source", "target")):
        (tmp_path / f"train.{field}").write_text("".join(f"{pair[at]}\n" for pair in more))
    sides = tuple(Field(name, language=code) for name, code in (("source", "en"), ("target", "de")))
    sizes: dict[str, Any] = {"fields": sides, "generated": False, "sizes": {"train": 100}, "counts": {}, "identity": {}}
    Corpus(directory=tmp_path, aligned=False, field_sizes={"train": {"source": 100, "target": 100}}, **sizes).save()
    (tmp_path / "made").mkdir()
    for field in ("source", "target"):
        (tmp_path / "made" / f"train.{field}").write_text((tmp_path / "train.target").read_text())
    Corpus(directory=tmp_path / "made", **sizes).save()
    plain, _ = distil(tmp_path / "plain", inputs, BOTH)
    of_encoder, _ = distil(tmp_path / "text", {**inputs, "text": tmp_path}, BOTH)
    of_decoder, _ = distil(tmp_path / "pairs", {**inputs, "synthetic": tmp_path / "made"}, BOTH)
    assert of_encoder["decoder"]["sentences"] == plain["decoder"]["sentences"]
    assert of_encoder["encoder"]["in_text"] > plain["encoder"]["in_text"]
    assert of_decoder["decoder"]["in_text"] > plain["decoder"]["in_text"]
    assert of_decoder["encoder"]["sentences"] == plain["encoder"]["sentences"]


@pytest.mark.parametrize("method", METHODS)
def test_embeddings_that_stay_shared_are_learnt_once(method: str, tmp_path: Path) -> None:
    shared = stage_inputs("mbart", tmp_path)
    shared["vocabulary/encoder"] = shared["vocabulary/decoder"]
    context, out = Watched(tmp_path / "work", None, "train_distillation"), tmp_path / "out"
    out.mkdir()
    assert set(recipe(BOTH, method=method).run(shared, out, context)) == {"decoder"}
    assert [path.name for path in out.iterdir() if path.is_dir()] == ["decoder"]
    assert context.shown and all(now.startswith("decoder, distillation ") for now in context.shown)
