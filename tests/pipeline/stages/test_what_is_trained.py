"""What a finetuning trains: new rows alone, the body, or adapters; all else stays to the byte."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from new_vocabularies import LANGUAGES, TEXTS, new_vocabulary, upstream
from subgraft.config.corpora import Cleaning
from subgraft.config.settings_base import SideName
from subgraft.config.training import AdapterSettings, FinetuneSettings, RareTokenSettings
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import family_of
from subgraft.modeling.sides import tables_of
from subgraft.pipeline.compute.finetune import run
from subgraft.pipeline.stages.training import FinetuneStage, NewRows
from subgraft.subwords.vocabulary.alignment import new_tokens
from subgraft.training.context import Json
from subgraft.training.objectives.compute.translation import DevScores
from watched import KilledError, Watched

STEPS = 5
Weights = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Case:
    """A finetuning's inputs, and the sides whose vocabulary is new."""

    inputs: dict[str, Path]
    sides: tuple[SideName, ...]

    @property
    def model(self) -> Bundle:
        return Bundle.load(self.inputs["model"])


FAMILIES: dict[str, tuple[SideName, ...]] = {
    "marian": ("decoder",),
    "mbart": ("encoder", "decoder"),
    "encoder-decoder": ("decoder",),
}


@pytest.fixture(scope="module", params=FAMILIES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    place, family = tmp_path_factory.mktemp(request.param), str(request.param)
    for split, count in (("train", 60), ("dev", 3), ("test", 3)):
        for column, language in enumerate(("en", "de")):
            (place / f"{split}.{language}").write_text("".join(f"{pair[column]}\n" for pair in TEXTS[:count]))
    cleaning = Cleaning(drop_held_out=False, deduplicate=False)
    build(CorpusSource(folder=str(place)), LANGUAGES, cleaning, place / "corpus")
    before, sides = upstream(family), FAMILIES[family]
    before.save(place / "upstream")
    target = new_vocabulary(family, "decoder")
    made = transplant(before.model, before.tokenizers, dict.fromkeys(sides, target), Method("mean"))
    Bundle(made.model, target if "encoder" in sides else before.encoder, target).save(place / "model")
    return Case({name: place / name for name in ("model", "corpus", "upstream")}, sides)


def settings(**changed: Any) -> FinetuneSettings:
    base: dict[str, Any] = {
        "max_steps": STEPS,
        "batch_size": 300,
        "max_length": 40,
        "learning_rate": 0.01,
        "warmup_steps": 1,
    }
    return FinetuneSettings(**base | {"weight_decay": 0.1, "dev_sentences": 2, "select": "last"} | changed)


def finetune(
    place: Path, case: Case, training: FinetuneSettings, die_at: int | None = None, copy_shared_tokens: bool = True
) -> tuple[Weights, dict[str, Json]]:
    """The weights after a finetuning, or after one that went on where it was killed, and what its record says."""
    about_new = training.train == "new-rows" or training.rare_tokens is not None
    recipe = FinetuneStage(
        languages=LANGUAGES,
        training=training,
        seed=1,
        embedding_learning_rate_sides=case.sides if training.applied_embedding_learning_rate is not None else (),
        new_rows=NewRows(sides=case.sides, copy_shared_tokens=copy_shared_tokens) if about_new else None,
    )
    out = place / "out"
    out.mkdir(parents=True, exist_ok=True)
    if die_at is not None:
        with pytest.raises(KilledError):
            run(recipe, case.inputs, out, Watched(place / "work", die_at))
    summary = run(recipe, case.inputs, out, Watched(place / "work", None))
    return load_file(out / "model.safetensors"), summary


def whole(directory: Path) -> Weights:
    return dict(Bundle.load(directory).model.state_dict())


def of_tables(case: Case) -> set[str]:
    """Names of the tables and trained biases of the sides whose vocabulary is new, as weights are called."""
    model = case.model.model
    tables = {id(table) for table in tables_of(model, case.sides).values()}
    return {name for name, parameter in model.named_parameters(remove_duplicate=False) if id(parameter) in tables}


def test_new_rows_are_trained_and_all_else_stays_to_the_byte(case: Case, tmp_path: Path) -> None:
    _, summary = finetune(tmp_path, case, settings(train="new-rows"))
    before, after = whole(case.inputs["model"]), whole(tmp_path / "out")
    new = new_tokens(Bundle.load(case.inputs["upstream"]).decoder, case.model.decoder)
    tables, trained = of_tables(case), 0
    assert 10 < len(new) < len(case.model.decoder) - 10
    for name, tensor in after.items():
        if name not in tables:
            assert torch.equal(tensor, before[name]), name
            continue
        old = np.setdiff1d(np.arange(len(tensor)), new)
        assert torch.equal(tensor[old], before[name][old]), name
        moved = (tensor[new] != before[name][new]).reshape(len(new), -1).any(dim=1)
        assert moved.all(), name
    for table in {id(table): table for table in tables_of(case.model.model, case.sides).values()}.values():
        trained += len(new) * (table.shape[1] if table.ndim == 2 else 1)
    assert summary["trained_parameters"] == trained
    assert int(str(summary["peak_memory"])) > 2**20


def test_where_no_system_was_kept_all_but_special_tokens_are_new(case: Case, tmp_path: Path) -> None:
    finetune(tmp_path, case, settings(train="new-rows"), copy_shared_tokens=False)
    before, after = whole(case.inputs["model"]), whole(tmp_path / "out")
    special = sorted(case.model.decoder.special_ids)
    others = np.setdiff1d(np.arange(len(case.model.decoder)), special)
    for name in of_tables(case):
        assert torch.equal(after[name][special], before[name][special])
        assert (after[name][others] != before[name][others]).reshape(len(others), -1).any(dim=1).all()


def test_rare_ones_among_new_rows_are_held_back(case: Case, tmp_path: Path) -> None:
    """Frozen here: the trained rows of new-rows are frequent subwords and special tokens."""
    held = RareTokenSettings(min_count=10**6, learning_rate_factor=0.0)
    finetune(tmp_path, case, settings(train="new-rows", rare_tokens=held))
    before, after = whole(case.inputs["model"]), whole(tmp_path / "out")
    subwords = [token for token, entry in enumerate(case.model.decoder.entries) if entry is not None]
    assert all(torch.equal(after[name][subwords], before[name][subwords]) for name in of_tables(case))


def test_the_body_is_trained_and_tables_stay_to_the_byte(case: Case, tmp_path: Path) -> None:
    """As with tables at a rate of zero."""
    after, summary = finetune(tmp_path / "body", case, settings(train="body"))
    zero, _ = finetune(tmp_path / "zero", case, settings(embedding_learning_rate=0))
    before, tables = load_file(case.inputs["model"] / "model.safetensors"), of_tables(case)
    assert all(torch.equal(after[name], zero[name]) for name in after)
    assert all(torch.equal(after[name], before[name]) == (name in tables) for name in trainable_names(case, after))
    model = case.model.model
    still = {id(table) for table in tables_of(model, case.sides).values()}
    assert summary["trained_parameters"] == sum(
        parameter.numel() for parameter in model.parameters() if parameter.requires_grad and id(parameter) not in still
    )


def trainable_names(case: Case, weights: Weights) -> set[str]:
    """Weights that a whole training changes, but for those that no batch of pairs reaches."""
    names = {name for name, parameter in case.model.model.named_parameters() if parameter.requires_grad}
    return {name for name in names & weights.keys() if "token_type" not in name and "pooler" not in name}


def test_adapters_change_projections_alone(case: Case, tmp_path: Path) -> None:
    """The model that is written is of the usual shape, and its dev scores are those of the model with adapters."""
    training = settings(train="adapters", adapters=AdapterSettings(rank=2, dropout=0.1), learning_rate=0.05)
    after, summary = finetune(tmp_path, case, training)
    before = load_file(case.inputs["model"] / "model.safetensors")
    model = case.model.model
    projections = family_of(model).projections(model.config.to_dict())
    changed = {name for name, tensor in after.items() if not torch.equal(tensor, before[name])}
    assert after.keys() == before.keys() and len(changed) == sum(each.times for each in projections)
    assert all(name.removesuffix(".weight").endswith(tuple(each.name for each in projections)) for name in changed)
    assert summary["trained_parameters"] == sum(2 * (each.inputs + each.outputs) * each.times for each in projections)
    case.model.save(tmp_path / "same")
    assert (tmp_path / "out" / "config.json").read_text() == (tmp_path / "same" / "config.json").read_text()
    last = json.loads((tmp_path / "out" / "curve.json").read_text())[-1]["values"]
    finished = Bundle.load(tmp_path / "out")
    scores = DevScores(finished, TEXTS[:3], LANGUAGES, training)()
    assert scores["bits_per_character"] == pytest.approx(last["bits_per_character"], rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("train", ["new-rows", "body", "adapters"])
def test_a_killed_finetuning_ends_with_the_same_weights(case: Case, tmp_path: Path, train: str) -> None:
    training = settings(train=train, adapters=AdapterSettings(rank=2, dropout=0.1) if train == "adapters" else None)
    uninterrupted, _ = finetune(tmp_path / "whole", case, training)
    resumed, _ = finetune(tmp_path / "killed", case, training, die_at=3)
    assert all(torch.equal(resumed[name], tensor) for name, tensor in uninterrupted.items())


def test_the_best_weights_by_chrf_are_kept(case: Case, tmp_path: Path) -> None:
    """Dev scores are of the rows as they stand, and the model that is written has those of the best step."""
    training = settings(train="new-rows", select="chrf", evaluate_at=(1, 2, 3, 4), learning_rate=0.05)
    _, summary = finetune(tmp_path, case, training)
    curve = json.loads((tmp_path / "out" / "curve.json").read_text())
    best = max(curve, key=lambda point: float(point["values"]["chrf"]))
    assert summary["best_step"] == best["step"]
    assert len({point["values"]["bits_per_character"] for point in curve}) == len(curve)
