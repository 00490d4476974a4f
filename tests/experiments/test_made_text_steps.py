"""Systems that read the domain's text in addition to the pairs: their steps, the shared ones, and refused settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from small_experiments import finish, planned, tiny
from small_experiments import written as written_experiment
from subgraft.base.errors import UserError
from subgraft.data.text.corpus import Corpus
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import tables_of
from subgraft.orchestration.estimates.workload import workload
from subgraft.subwords.vocabulary.alignment import new_tokens
from subgraft.training.objectives.translation import TranslationSettings
from toy_steps import record_of
from toys import english, german

SYSTEMS = """
  - {name: old, vocabulary: upstream}
  - {name: old+text, vocabulary: upstream, text: copied}
  - {name: mean+text, initialiser: mean, text: copied}
"""


def written(place: Path, text: str = "{target: [more.txt]}", systems: str = SYSTEMS, **sections: str) -> Path:
    downstream = f"{{corpus: downstream, text: {text}, vocabulary: {{size: 75, byte_fallback: false}}}}"
    config = written_experiment(place, tiny(downstream=downstream, systems=systems, **sections))
    for name, lines in (("more.txt", german(40, 9)), ("read.txt", english(40, 9))):
        (place / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return config


def test_systems_and_seeds_share_the_pairs_that_are_made(tmp_path: Path) -> None:
    result = planned(written(tmp_path), "seeds=[1, 2]")
    finetunes = {(steps.system.name, steps.seed): steps.finetune for steps in result.systems}
    made = {finetunes[name, seed].inputs["synthetic"] for name in ("old+text", "mean+text") for seed in (1, 2)}
    (copied,) = made
    assert copied.inputs == {"text": result.inputs.text}
    assert finetunes["mean+text", 1].stage.text_objective == TranslationSettings()
    plain = finetunes["old", 1]
    assert "synthetic" not in plain.inputs and plain.stage.text_objective is None


def test_a_share_moves_only_those_that_have_text(tmp_path: Path) -> None:
    config = written(tmp_path)
    before, after = planned(config), planned(config, "finetune.monolingual_fraction=0.25")
    same = [
        one.finetune.fingerprint == other.finetune.fingerprint
        for one, other in zip(before.systems, after.systems, strict=True)
    ]
    assert same == [True, False, False]


def test_a_batch_of_one_is_for_systems_without_text(tmp_path: Path) -> None:
    config = written(tmp_path)
    result = planned(config, "finetune.batch_size=1", "systems=[{name: old, vocabulary: upstream}]")
    assert result.systems[0].finetune.stage.training.batch_size == 1
    with pytest.raises(UserError, match=r"monolingual_fraction 0\.5: a batch of 1 cannot hold both"):
        planned(config, "finetune.batch_size=1")


@pytest.mark.slow
def test_a_comparison_with_copied_text_goes_all_the_way(tmp_path: Path) -> None:
    result, store = finish(written(tmp_path), "pretrain.epochs=2")
    copied = result.systems[1].finetune.inputs["synthetic"]
    assert Corpus.open(store.path(copied)).size("train") == record_of(store, copied).summary["sizes"]["train"]
    report = (store.path(result.report) / "report.md").read_text()
    assert "mean+text" in report


FIRST = """
  - {name: first, initialiser: mean, embedding_warmup: copied}
  - {name: first+text, initialiser: mean, embedding_warmup: copied, text: copied, train: body}
  - {name: random, initialiser: random, embedding_warmup: copied}
"""
ROWS = "{max_steps: 8, evaluations: 3, batch_size: 300, precision: fp32, dev_sentences: 2}"


def test_rows_first_are_shared_by_systems_and_seeds_that_begin_alike(tmp_path: Path) -> None:
    result = planned(written(tmp_path, systems=FIRST), "seeds=[1, 2]")
    first = {(steps.system.name, steps.seed): steps.embedding_warmup for steps in result.systems}
    made = {name: step.fingerprint for name, step in first.items() if step is not None}
    shared = {made[name, seed] for name in ("first", "first+text") for seed in (1, 2)}
    assert len(made) == 6 and len(shared) == 1
    assert made["random", 1] != made["random", 2], "whose rows are drawn"
    step = first["first", 1]
    assert step is not None and step.stage.training.select == "likelihood" and step.stage.training.max_steps == 300


@pytest.mark.slow
def test_rows_first_change_nothing_but_new_rows_and_the_finetuning_begins_with_them(tmp_path: Path) -> None:
    result, store = finish(
        written(tmp_path, systems=FIRST, embedding_warmup_training=ROWS),
        "pretrain.epochs=8",
        "pretrain.select=last",
        "finetune.select=likelihood",
        "embedding_warmup_training.learning_rate=0.02",
    )
    steps = result.systems[0]
    assert steps.embedding_warmup is not None and steps.transfer is not None
    before, after = (Bundle.load(store.path(step)) for step in (steps.transfer, steps.embedding_warmup))
    new = new_tokens(Bundle.load(store.path(result.models.pretrained)).decoder, after.decoder)
    ours, theirs = (tables_of(bundle.model, ["decoder"])["decoder.input"] for bundle in (after, before))
    moved = (ours != theirs).any(dim=1).nonzero()[:, 0].tolist()
    assert moved and set(moved) <= set(new.tolist())
    tables = {id(table) for table in tables_of(after.model, ["decoder"]).values()}
    others = dict(before.model.named_parameters())
    assert all(
        torch.equal(parameter, others[name])
        for name, parameter in after.model.named_parameters()
        if id(parameter) not in tables
    )
    curves = [
        json.loads((store.path(step) / "curve.json").read_text()) for step in (steps.embedding_warmup, steps.finetune)
    ]
    assert [point["step"] for point in curves[0]] == [0, 2, 5, 8]
    bits = [point["values"]["bits_per_character"] for point in curves[0]]
    assert min(bits) < bits[0] and curves[1][0]["values"]["bits_per_character"] == pytest.approx(min(bits), rel=1e-6)
    bill = (store.path(result.report) / "report.md").read_text()
    assert "first+text" in bill


UPSTREAM = """
  {corpus: upstream, objectives: [{kind: translation}, {kind: denoising}], vocabulary: {size: 60, byte_fallback: false}}
"""
DENOISED = """
  - {name: old+text, vocabulary: upstream, text: denoised}
  - {name: mean+text, initialiser: mean, embedding_warmup: denoised, text: denoised}
"""


@pytest.mark.slow
@pytest.mark.parametrize("sides", ["[decoder]", "[encoder, decoder]"])
def test_a_denoising_model_goes_on_denoising_next_to_the_pairs(tmp_path: Path, sides: str) -> None:
    """Also where its sides have different vocabularies, of which the encoder reads the noise."""
    config = written(tmp_path, systems=DENOISED, upstream=UPSTREAM, embedding_warmup_training=ROWS)
    changes = ("model.family=mbart", "pretrain.max_steps=3", "finetune.max_steps=null", "finetune.batch_size=900")
    result, store = finish(config, f"sides={sides}", "finetune.batch_unit=characters", *changes)
    steps = result.systems[1]
    objective = steps.finetune.stage.text_objective
    assert (
        objective is not None and objective.kind == "denoising" and steps.finetune.inputs["text"] is result.inputs.text
    )
    estimated = workload(store, steps.finetune).updates
    assert estimated == record_of(store, steps.finetune).summary["steps"]


LINES = """
  - {name: plain, vocabulary: upstream, text: lines}
  - {name: mean, initialiser: mean, embedding_warmup: lines}
"""


def test_a_model_that_continues_text_reads_more_lines(tmp_path: Path) -> None:
    config = written(
        tmp_path,
        "{source: [more.txt]}",
        LINES,
        task="continuation",
        languages="{source: de, target: de}",
        upstream="{corpus: upstream, objectives: [{kind: causal}], vocabulary: {size: 60, byte_fallback: false}}",
        model="{family: gpt2, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16, max_positions: 256}",
        embedding_warmup_training=ROWS,
    )
    result, store = finish(config, "pretrain.epochs=1")
    assert result.systems[0].finetune.inputs["text"] is result.inputs.text
    first = result.systems[1].embedding_warmup
    assert first is not None and record_of(store, first).summary["steps"] == 8


@pytest.mark.parametrize(
    ("system", "message"),
    [
        ("{text: lines, vocabulary: upstream}", "text: lines does not go with translation, which has pairs"),
        ("{text: denoised, vocabulary: upstream}", "upstream.objectives has no denoising"),
        (
            "{embedding_warmup: copied, vocabulary: upstream}",
            "embedding_warmup trains new embeddings: it needs an initialiser",
        ),
        ("{embedding_warmup: copied, initialiser: mean, tie_to_sources: true}", "does not work with tie_to_sources"),
    ],
)
def test_text_that_a_model_cannot_read_so_is_refused(tmp_path: Path, system: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        planned(written(tmp_path, systems=f"[{{name: one, {system[1:]}]"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("null", "system old\\+text: text: copied reads the domain's text, and there is none: give downstream.text"),
        ("{source: [read.txt]}", "downstream.text has only source text"),
    ],
)
def test_text_that_is_not_there_or_of_the_wrong_side_is_reported(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        planned(written(tmp_path, text))
