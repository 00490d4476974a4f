"""ERNIE 3 all the way: both branches are pretrained, a vocabulary is fitted, and the one that understands is judged."""

from __future__ import annotations

from pathlib import Path

from test_understanding_experiments import labelled

from small_experiments import finish
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import count_parameters

MODEL = (
    "{family: branched, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16, max_positions: 128, "
    "branch_layers: 1, branch_width: 8, branch_heads: 2, branch_ffn_dim: 8}"
)


def test_both_branches_are_pretrained_and_a_vocabulary_is_fitted(tmp_path: Path) -> None:
    upstream = (
        "{corpus: upstream, objectives: [{kind: masked}, {kind: causal, packed: false}], "
        "vocabulary: {kind: wordpiece, size: 90, byte_fallback: false}}"
    )
    config = labelled("classification", "bert", tmp_path, model=MODEL, upstream=upstream, seeds="[1]")
    pipeline, store = finish(config)
    for step in (pipeline.models.pretrained, *(steps.finetune for steps in pipeline.systems)):
        model = Bundle.load(store.path(step)).model
        assert count_parameters(model.config.to_dict()).total == model.num_parameters()
    assert store.find(pipeline.report) is not None
