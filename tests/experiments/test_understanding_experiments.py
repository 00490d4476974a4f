"""Models that predict labels, all the way: pretrained, fitted with a vocabulary, finetuned, judged and reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers
from ruamel.yaml import YAML

from labelled import write_files
from small_experiments import finish, tiny, written
from subgraft.evaluation.reporting.table import MainTable
from subgraft.experiments.model_card import Chosen
from subgraft.experiments.model_selection import Finetuned, Selection
from subgraft.experiments.pipeline import Pipeline
from subgraft.modeling.bundle import Bundle
from subgraft.orchestration.store.store import Store

SHAPES = {
    "bert": "{family: bert, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16, max_positions: 128}",
    "gpt2": "{family: gpt2, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16, max_positions: 128}",
    "mbart": "{family: mbart, d_model: 16, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 16, "
    "max_positions: 128}",
}
KINDS = {"bert": ("masked", "wordpiece"), "gpt2": ("causal", "byte-level-bpe"), "mbart": ("denoising", "unigram")}
SYSTEMS = """\
- {name: old, vocabulary: upstream}
- {name: mean, initialiser: mean}
- {name: ours, initialiser: patt}
"""


def labelled(task: str, family: str, place: Path, systems: str = SYSTEMS, **sections: str) -> Path:
    """A configuration of a task of labels and its files. The upstream model learns to write or to fill English."""
    objective, kind = KINDS[family]
    size = 400 if kind == "byte-level-bpe" else 90
    source = write_files(task, place / "labelled", {"train": 60, "dev": 12, "test": 14})
    source["labelled"]["folder"] = "labelled"
    written_source = json.dumps(source)
    inputs = {
        "task": task,
        "seeds": "[1, 2]",
        "languages": "{source: en, target: en}",
        "corpora": f"{{upstream: {{folder: upstream, languages: [en]}}, downstream: {written_source}}}",
        "cleaning": "{drop_held_out: false, max_characters: null, max_ratio: null}",
        "upstream": f"{{corpus: upstream, objectives: [{{kind: {objective}}}], "
        f"vocabulary: {{kind: {kind}, size: {size}, byte_fallback: false}}}}",
        "downstream": f"{{corpus: downstream, vocabulary: {{kind: {kind}, size: {size + 20}, byte_fallback: false}}}}",
        "model": SHAPES[family],
        "pretrain": "{epochs: 1, max_steps: 4, batch_size: 500, max_length: 64, precision: fp32, dev_sentences: 2}",
        "generator_training": "{max_steps: 2, batch_size: 500, max_length: 64, precision: fp32}",
        "finetune": "{epochs: 2, batch_size: 500, max_length: 64, precision: fp32, dev_sentences: 8, "
        "learning_rate: 0.01}",
        "evaluation": "{speed_sentences: 2, speed_repeats: 1, test_sentences: 12, bootstrap_samples: 20}",
        "systems": systems,
    }
    return written(place, tiny(**inputs | sections))


def test_classes_are_predicted_from_the_configuration_to_the_report(tmp_path: Path) -> None:
    pipeline, store = finish(labelled("classification", "bert", tmp_path))
    names = {steps.system.name for steps in pipeline.systems}
    assert names == {"old", "mean", "ours"} and len(pipeline.systems) == 6
    for steps in pipeline.systems:
        evaluated, model = store.path(steps.evaluate), store.path(steps.finetune)
        lines = (tmp_path / "labelled" / "test.jsonl").read_text().splitlines()[:12]
        texts = [json.loads(line)["text"] for line in lines]
        assert (evaluated / "sources.txt").read_text().splitlines() == texts
        said = (evaluated / "hypotheses.txt").read_text().splitlines()
        answered = transformers.pipeline("text-classification", model=str(model), device="cpu")(texts)
        assert [each["label"] for each in answered] == said and {*said} <= {"long", "short"}
    report = store.path(pipeline.report)
    page, markdown = ((report / f"report.{form}").read_text() for form in ("html", "md"))
    for text in ("accuracy", "F1 macro", "MCC", "Confused classes", "Calibration", "long", "short", "ours"):
        assert text in page and text in markdown
    assert {path.stem for path in (report / "plots").glob("*.png")} >= {"confusion", "reliability", "learning_curves"}
    shown = MainTable.read(report)
    assert [row[0] for row in shown.rows] == ["old", "mean", "ours"] and "accuracy" in shown.headings
