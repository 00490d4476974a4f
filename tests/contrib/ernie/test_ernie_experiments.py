"""ERNIE 2, all the way: pretrained on its tasks one after the other, fitted with a vocabulary, finetuned and judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file

from ernie_tasks import with_saved_head
from labelled import write_files
from small_experiments import finish, finish_steps, tiny, written
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.pipeline import Pipeline
from subgraft.modeling.further_heads import HEADS
from subgraft.modeling.hub import read_config
from subgraft.modeling.load import load_model
from subgraft.training.objectives.registry import OBJECTIVES
from toys import english

OBJECTIVES_OF_ERNIE = """\
[{kind: masked, units: [{word: 1}, {step: 4, word: 1, entity: 1}]},
 {kind: capitalisation},
 {kind: token-document, from_step: 2},
 {kind: sentence-reordering, from_step: 4, weight: 2},
 {kind: sentence-distance, from_step: 6},
 {kind: relevance, corpus: pairs}]
"""


def _configuration(place: Path, **sections: str) -> Path:
    source = write_files("classification", place / "labelled", {"train": 60, "dev": 12, "test": 14})
    source["labelled"]["folder"] = "labelled"
    pairs = write_files("pair-classification", place / "pairs", {"train": 30, "dev": 4, "test": 4})
    pairs["labelled"]["folder"] = "pairs"
    (place / "documents").mkdir()
    lines = [f"{line[:-1]} with Nina." if at % 3 else line.capitalize() for at, line in enumerate(english(160, 5))]
    rows = [{"name": f"d{at}", "en": lines[at : at + 10]} for at in range(0, len(lines), 10)]
    (place / "documents" / "train.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    records = "{records: {folder: documents, fields: {en: {language: en}}, document: name}}"
    inputs = {
        "task": "classification",
        "languages": "{source: en, target: en}",
        "corpora": f"{{upstream: {records}, downstream: {json.dumps(source)}, pairs: {json.dumps(pairs)}}}",
        "cleaning": "{drop_held_out: false, max_characters: null, max_ratio: null, deduplicate: false}",
        "upstream": f"{{corpus: upstream, objectives: {OBJECTIVES_OF_ERNIE.strip()}, "
        "vocabulary: {kind: wordpiece, size: 100, byte_fallback: false}}",
        "downstream": "{corpus: downstream, vocabulary: {kind: wordpiece, size: 110, byte_fallback: false}}",
        "model": "{family: ernie, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16, max_positions: 64, "
        "task_embeddings: 6}",
        "pretrain": "{epochs: null, max_steps: 24, batch_size: 300, max_length: 60, precision: fp32, schedule: noam, "
        "schedule_per_objective: true, warmup_steps: 3, learning_rate: 0.1}",
        "generator_training": "{max_steps: 2, batch_size: 500, max_length: 60, precision: fp32}",
        "finetune": "{epochs: 1, batch_size: 500, max_length: 60, precision: fp32, dev_sentences: 8}",
        "evaluation": "{speed_sentences: 2, speed_repeats: 1, test_sentences: 12, bootstrap_samples: 20}",
        "systems": "[{name: old, vocabulary: upstream}, {name: mean, initialiser: mean}, "
        "{name: patt, initialiser: patt}]",
    }
    return written(place, tiny(**inputs | sections))


def test_an_ernie_learns_its_tasks_and_is_an_upstream_for_vocabularies(tmp_path: Path) -> None:
    pipeline, store = finish(_configuration(tmp_path))
    pretrained = store.path(pipeline.models.pretrained)
    config = read_config(pretrained)
    assert config["model_type"] == "ernie" and config["task_type_vocab_size"] == 6
    kinds = {"capitalisation", "token-document", "sentence-reordering", "sentence-distance", "relevance"}
    assert {name.split(".")[0] for name in load_file(pretrained / HEADS)} == kinds
    head = with_saved_head(load_model(pretrained), pretrained, "sentence-reordering")
    assert head.config.num_labels == 9 and set(kinds) < set(OBJECTIVES)
    for steps in pipeline.systems:
        assert (store.path(steps.evaluate) / "hypotheses.txt").read_text().splitlines()
    assert "patt" in (store.path(pipeline.report) / "report.md").read_text()


def test_dialogues_alternate_with_masking_on_the_text_of_conversations(tmp_path: Path) -> None:
    config, turns = _configuration(tmp_path), english(240, 8)
    (tmp_path / "talks").mkdir()
    with (tmp_path / "talks" / "train.jsonl").open("w") as file:
        for at in range(0, len(turns), 4):
            said = zip(("user", "assistant", "user", "assistant"), turns[at : at + 4], strict=True)
            file.write(json.dumps({"messages": [{"role": role, "content": text} for role, text in said]}) + "\n")
    changes = [
        "corpora.upstream={conversations: {folder: talks}}",
        "upstream.objectives=[{kind: masked}, {kind: dialogue}]",
        "pretrain.schedule_per_objective=false",
    ]
    pipeline = Pipeline(load(config, Experiment, changes), tmp_path)
    store = finish_steps([pipeline.models.pretrained], tmp_path)
    pretrained = store.path(pipeline.models.pretrained)
    assert {name.split(".")[0] for name in load_file(pretrained / HEADS)} == {"dialogue"}
    assert with_saved_head(load_model(pretrained), pretrained, "dialogue").config.num_labels == 2
    with pytest.raises(UserError, match="conversations are needed"):
        Pipeline(load(config, Experiment, changes[1:]), tmp_path).models.pretrained  # noqa: B018


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            ["upstream.objectives=[{kind: capitalisation}]", "pretrain.schedule_per_objective=false"],
            "capitalisation predicts no tokens",
        ),
        (["upstream.objectives=[{kind: capitalisation}, {kind: masked}]"], "write capitalisation after an objective"),
        (["model.task_embeddings=2"], "task_embeddings 2 is less than the 6 upstream.objectives"),
        (["pretrain.max_steps=6"], "sentence-distance.* changes at step 6, and the pretraining ends after 6"),
        (["model={family: bert, d_model: 16}"], "capitalisation needs model.family ernie"),
        (
            ["upstream.objectives=[{kind: masked}, {kind: discourse-relation, corpus: none}]"],
            "'none' is not among corpora",
        ),
        (["runtime.zero_stage=3"], "heads of their own"),
        (["upstream.objectives=[{kind: masked}, {kind: sentence-reordering, segments: 9}]"], "segments"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(changes: list[str], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=complaint):
        load(_configuration(tmp_path), Experiment, changes)
