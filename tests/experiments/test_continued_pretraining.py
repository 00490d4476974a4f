"""Published encoders are pretrained further on a domain's documents, with their vocabulary and with one of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import published
from documented import SYSTEMS, config
from small_experiments import finish_steps
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.pipeline import Pipeline
from subgraft.modeling.bundle import Bundle

PAIRS = "input: segment-pair, next_sentence: false"


@pytest.mark.parametrize(
    ("name", "objective", "kind"),
    [
        ("bert-base-multilingual-cased", "kind: masked, input: segment-pair", "wordpiece"),
        ("bert-base-multilingual-cased", "kind: left-to-right, input: doc-sentences", "wordpiece"),
        ("roberta-base", "kind: masked, input: full-sentences", "byte-level-bpe"),
        ("xlm-roberta-base", "kind: masked, input: doc-sentences, static_copies: 2", "unigram"),
        ("distilbert-base-multilingual-cased", f"kind: masked, {PAIRS}", "wordpiece"),
        ("electra-small-generator", f"kind: masked, {PAIRS}", "wordpiece"),
    ],
)
def test_in_one_line_of_a_configuration(name: str, objective: str, kind: str, tmp_path: Path) -> None:
    published.CHECKPOINTS[name].publish(tmp_path / "published")
    size = 340 if kind == "byte-level-bpe" else 110
    upstream = f"{{corpus: upstream, checkpoint: published, continue_pretraining: true, objectives: [{{{objective}}}]}}"
    place = config(
        tmp_path,
        upstream,
        systems=SYSTEMS,
        downstream=f"{{corpus: downstream, vocabulary: {{kind: {kind}, size: {size}, byte_fallback: false}}}}",
        labels="{head: {kind: bilstm, width: 8, concatenated_layers: 1}}",
    )
    pipeline = Pipeline(load(place, Experiment, ()), tmp_path)
    transfers = [steps.transfer for steps in pipeline.systems if steps.transfer is not None]
    store = finish_steps([pipeline.models.pretrained, *transfers], tmp_path)
    before, after = (Bundle.load(path) for path in (tmp_path / "published", store.path(pipeline.models.pretrained)))
    old, new = (dict(each.model.named_parameters()) for each in (before, after))
    assert old.keys() <= new.keys() and after.encoder.fingerprint == before.encoder.fingerprint
    assert all(not torch.equal(new[key], old[key]) for key in old if "word_embeddings" in key or "query.weight" in key)
    config_after: Any = after.model.config
    both_heads = "segment-pair" in objective and PAIRS not in objective
    assert type(after.model).__name__.endswith("ForPreTraining" if both_heads else "ForMaskedLM")
    assert getattr(config_after, "is_decoder", False) == ("left-to-right" in objective)
    assert len(transfers) == 2
    for transfer in transfers:
        fitted = Bundle.load(store.path(transfer))
        assert len(fitted.encoder) == size == len(fitted.model.get_input_embeddings().weight)  # type: ignore[arg-type]
        assert type(fitted.model) is type(after.model)
