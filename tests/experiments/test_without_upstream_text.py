"""A checkpoint without the text it was pretrained on: what works without it, and what says that it does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from small_experiments import finish, tiny, written
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.orchestration.store.step import in_order
from toys import english_tokenizer, german_tokenizer, marian

SYSTEMS = "[{name: plain, vocabulary: upstream}, {name: mean, initialiser: mean}, {name: avg, initialiser: avg}]"


def checkpoint(place: Path) -> Path:
    """A configuration with a model of its own and without upstream text."""
    model = place / "model"
    marian().save_pretrained(model)
    for side, tokenizer in (("encoder", english_tokenizer()), ("decoder", german_tokenizer())):
        tokenizer.save(model / side)
    text = tiny(upstream=f"{{checkpoint: {model}}}", corpora="{downstream: {folder: downstream}}", systems=SYSTEMS)
    result = YAML(typ="safe").load(text)
    result["finetune"] |= {"max_length": 40}
    config = written(place, text)
    with config.open("w") as handle:
        YAML(typ="safe").dump(result, handle)
    return config


def test_an_experiment_on_a_checkpoint_needs_no_upstream_text(tmp_path: Path) -> None:
    pipeline, store = finish(checkpoint(tmp_path))
    assert "upstream_corpus" not in pipeline.report.inputs
    assert [step.name for step in in_order([pipeline.report]) if step.stage.stage_name == "corpus"] == [
        "corpus downstream"
    ]
    report = (store.path(pipeline.report) / "report.md").read_text()
    assert "downstream" in report and "avg" in report


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (["upstream.checkpoint=null"], "upstream needs a corpus to pretrain a model on, or a checkpoint"),
        (["upstream.continue_pretraining=true"], "upstream.continue_pretraining need upstream.corpus"),
        (["evaluation.upstream_sentences=3"], "evaluation.upstream_sentences need upstream.corpus"),
        (["systems=[{name: learnt, initialiser: patt}]"], "the generator of system learnt need upstream.corpus"),
    ],
)
def test_what_reads_upstream_text_asks_for_it(tmp_path: Path, changes: list[str], complaint: str) -> None:
    config = checkpoint(tmp_path)
    with pytest.raises(UserError, match=complaint):
        load(config, Experiment, changes)
