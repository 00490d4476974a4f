"""ERNIE 3 all the way: both branches are pretrained, a vocabulary is fitted, and the one that understands is judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labelled import write_files
from small_experiments import finish, tiny, written
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import count_parameters
from toys import english

MODEL = (
    "{family: branched, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16, max_positions: 128, "
    "branch_layers: 1, branch_width: 8, branch_heads: 2, branch_ffn_dim: 8}"
)
OBJECTIVES = "[{kind: masked}, {kind: causal, packed: false}, {kind: knowledge-text}]"
VOCABULARY = "vocabulary: {kind: wordpiece, size: %d, byte_fallback: false}"


def test_both_branches_are_pretrained_and_a_vocabulary_is_fitted(tmp_path: Path) -> None:
    source = write_files("classification", tmp_path / "labelled", {"train": 40, "dev": 8, "test": 8})
    source["labelled"]["folder"] = "labelled"
    (tmp_path / "texts").mkdir()
    stated = [{"en": line, "facts": [[line.split()[0], "before", line.split()[-1]]]} for line in english(60)]
    for split, some in (("train", stated[4:]), ("dev", stated[:4])):
        (tmp_path / "texts" / f"{split}.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in some))
    texts = "{records: {folder: texts, fields: {en: {}, facts: {kind: triples, of: en}}}}"
    sections = {
        "task": "classification",
        "languages": "{source: en, target: en}",
        "corpora": f"{{upstream: {texts}, downstream: {json.dumps(source)}}}",
        "cleaning": "{drop_held_out: false, max_characters: null, max_ratio: null}",
        "upstream": f"{{corpus: upstream, objectives: {OBJECTIVES}, {VOCABULARY % 90}}}",
        "downstream": f"{{corpus: downstream, {VOCABULARY % 110}}}",
        "model": MODEL,
        "pretrain": "{max_steps: 9, batch_size: 500, max_length: 64, precision: fp32}",
        "generator_training": "{max_steps: 4, batch_size: 500, max_length: 64, precision: fp32}",
        "finetune": "{epochs: 1, batch_size: 500, max_length: 64, precision: fp32, dev_sentences: 8}",
        "evaluation": "{speed_sentences: 2, speed_repeats: 1, test_sentences: 8, bootstrap_samples: 20}",
        "systems": "[{name: old, vocabulary: upstream}, {name: ours, initialiser: patt, kd_weight: 0.5}]",
    }
    pipeline, store = finish(written(tmp_path, tiny(**sections)))
    for step in (pipeline.models.pretrained, *(steps.finetune for steps in pipeline.systems)):
        model = Bundle.load(store.path(step)).model
        assert count_parameters(model.config.to_dict()).total == model.num_parameters()
    curve = json.loads((store.path(pipeline.models.pretrained) / "curve.json").read_text())
    assert len(curve) > 1 and all(point["values"]["bits_per_character"] > 0 for point in curve)
    assert store.find(pipeline.report) is not None


def test_a_task_that_reads_a_source_is_refused_with_the_tasks_that_such_a_model_has(tmp_path: Path) -> None:
    domain = f"{{corpus: upstream, objectives: {OBJECTIVES}, {VOCABULARY % 90}}}"
    config = written(tmp_path, tiny(upstream=domain, model=MODEL))
    with pytest.raises(UserError, match=r"needs an encoder-decoder.*such a model is finetuned on tasks with labels"):
        load(config, Experiment)
