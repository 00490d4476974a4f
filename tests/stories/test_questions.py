"""The shipped configuration of question generation, run whole at a very small size, on text invented here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from task_files import SPLITS, write_everyday, write_task
from whole_runs import run_config

pytestmark = pytest.mark.ray

SMALL = (
    "corpora.everyday={files: {train: [everyday.txt]}}",
    "corpora.squad={squad: {train: train.json, dev: dev.json, test: test.json}}",
    "question_generation.window=60",
    "upstream.vocabulary.size=70",
    "upstream.vocabulary.byte_fallback=false",
    "downstream.vocabulary.size=70",
    "downstream.vocabulary.byte_fallback=false",
    "model={family: mbart, d_model: 32, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 64}",
    "pretrain.max_steps=6",
    "generator_training.max_steps=4",
    "generator_training.batch_size=400",
    "finetune.max_steps=6",
    "finetune.batch_size=1000",
    "evaluation={beam: 2, speed_sentences: 4, speed_repeats: 1}",
)
SYSTEMS = ("pretrain-finetune", "random", "mean", "avg", "patt+kd")


@pytest.mark.slow
def test_questions_are_learnt_and_scored(repository: Path, tmp_path: Path) -> None:
    text = (repository / "configs" / "questions.yaml").read_text()
    (tmp_path / "questions.yaml").write_text(text)
    write_everyday(tmp_path)
    for split, count in SPLITS.items():
        write_task(tmp_path, split, count)
    home = tmp_path / "home"
    printed = run_config(tmp_path / "questions.yaml", home, *SMALL)
    assert all(system in printed for system in SYSTEMS)
    assert "no model is registered" in printed, "six steps are too few to reach any dev BLEU"
    assert "@champion" not in printed
    scored = [json.loads(path.read_text()) for path in (home / "store" / "evaluate").glob("*/evaluation.json")]
    assert [evaluation["sentences"] for evaluation in scored] == [SPLITS["test"]] * len(SYSTEMS)
    (report,) = (home / "store" / "report").glob("*/report.md")
    assert all(metric in report.read_text() for metric in ("BLEU", "ROUGE-L", "METEOR", "chrF", "TER"))
