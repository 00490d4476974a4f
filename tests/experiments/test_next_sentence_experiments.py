"""BERT with next sentences, all the way: pretrained on documents, fitted with a vocabulary, finetuned and reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from documented import config
from small_experiments import finish, finish_steps
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.runtime import Runtime
from subgraft.experiments.pipeline import Pipeline
from subgraft.modeling.bundle import Bundle
from subgraft.orchestration.estimates.estimate import estimates
from subgraft.orchestration.execution.plan import make_plan
from subgraft.orchestration.store.store import Store
from toys import publish_bert

PAIRS = "objectives: [{kind: masked, input: segment-pair}]"
WORDPIECE = "vocabulary: {kind: wordpiece, size: 90}"
SEGMENTS = f"{{corpus: upstream, {PAIRS}, {WORDPIECE}}}"


def test_a_bert_of_both_heads_serves_all_systems(tmp_path: Path) -> None:
    place = config(tmp_path, SEGMENTS)
    before = Pipeline(load(place, Experiment, ()), tmp_path)
    planned = estimates(Store(tmp_path / "home"), make_plan(Store(tmp_path / "home"), [before.report]), Runtime())
    pipeline, store = finish(place)
    pretrained = store.path(pipeline.models.pretrained)
    model: Any = Bundle.load(pretrained).model
    assert type(model).__name__ == "BertForPreTraining"
    (forecast,) = [each for each in planned if each.step.name == pipeline.models.pretrained.name]
    assert forecast.parameters is not None and forecast.parameters.total == sum(p.numel() for p in model.parameters())
    curve = json.loads((pretrained / "curve.json").read_text())
    assert len(curve) > 1 and all(0 <= point["values"]["next_sentence_accuracy"] <= 100 for point in curve)
    pooler = model.base_model.pooler.dense.weight
    for steps in pipeline.systems:
        made = steps.transfer
        if made is not None:
            bundle = Bundle.load(store.path(made))
            fitted: Any = bundle.model
            assert type(fitted).__name__ == "BertForPreTraining" and len(bundle.encoder) == 110
            assert torch.equal(fitted.base_model.pooler.dense.weight, pooler)
        assert type(Bundle.load(store.path(steps.finetune)).model).__name__ == "BertForSequenceClassification"
    assert (store.path(pipeline.report) / "report.md").is_file()


def test_a_pretraining_that_continues_begins_with_the_head_that_the_weights_have(tmp_path: Path) -> None:
    published: Any = publish_bert(tmp_path / "published", pretraining=True)
    described = tmp_path / "published" / "config.json"
    described.write_text(described.read_text().replace("BertForPreTraining", "BertForMaskedLM"))
    place = config(tmp_path, f"{{corpus: upstream, checkpoint: published, continue_pretraining: true, {PAIRS}}}")
    pipeline = Pipeline(load(place, Experiment, ()), tmp_path)
    store = finish_steps([pipeline.models.pretrained], tmp_path)
    (imported,) = [each for each in pipeline.models.pretrained.inputs.values() if each.stage.stage_name == "checkpoint"]
    models: list[Any] = [Bundle.load(store.path(step)).model for step in (imported, pipeline.models.pretrained)]
    for model, equal in zip(models, (True, False), strict=True):
        assert type(model).__name__ == "BertForPreTraining"
        assert torch.equal(model.cls.seq_relationship.weight, published.cls.seq_relationship.weight) == equal


def test_a_checkpoint_of_masked_tokens_gets_the_head_when_its_pretraining_continues(tmp_path: Path) -> None:
    published: Any = publish_bert(tmp_path / "published", pretraining=False)
    place = config(
        tmp_path,
        f"{{corpus: upstream, checkpoint: published, continue_pretraining: true, {PAIRS}}}",
        systems="[{name: old, vocabulary: upstream}]",
        model="{family: bert, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 24}",
    )
    pipeline, store = finish(place)
    model: Any = Bundle.load(store.path(pipeline.models.pretrained)).model
    assert type(model).__name__ == "BertForPreTraining"
    assert len(model.get_input_embeddings().weight) == published.config.vocab_size
    assert not torch.equal(model.get_input_embeddings().weight, published.get_input_embeddings().weight)


ROBERTA = "{family: roberta, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16, max_positions: 48}"


def test_a_roberta_of_packed_documents_serves_all_systems(tmp_path: Path) -> None:
    kind = "vocabulary: {kind: byte-level-bpe, size: %d}"
    objective = "objectives: [{kind: masked, input: full-sentences, static_copies: 2}]"
    place = config(
        tmp_path,
        f"{{corpus: upstream, {objective}, {kind % 330}}}",
        model=ROBERTA,
        downstream=f"{{corpus: downstream, {kind % 340}}}",
        pretrain="{epochs: 2, batch_size: 200, max_length: 48, precision: fp32, "
        "batch_size_schedule: [{step: 3, batch_size: 400}]}",
    )
    before = Pipeline(load(place, Experiment, ()), tmp_path)
    planned = estimates(Store(tmp_path / "home"), make_plan(Store(tmp_path / "home"), [before.report]), Runtime())
    pipeline, store = finish(place)
    bundle = Bundle.load(store.path(pipeline.models.pretrained))
    assert type(bundle.model).__name__ == "RobertaForMaskedLM" and bundle.max_positions == 48
    (forecast,) = [each for each in planned if each.step.name == pipeline.models.pretrained.name]
    assert forecast.parameters is not None
    assert forecast.parameters.total == sum(each.numel() for each in bundle.model.parameters())
    for steps in pipeline.systems:
        headed = Bundle.load(store.path(steps.finetune))
        assert type(headed.model).__name__ == "RobertaForSequenceClassification"


def test_a_left_to_right_model_is_finetuned_as_it_was_pretrained(tmp_path: Path) -> None:
    upstream = f"{{corpus: upstream, objectives: [{{kind: left-to-right, input: doc-sentences}}], {WORDPIECE}}}"
    bilstm = "labels={head: {kind: bilstm, width: 8, concatenated_layers: 1}}"
    place = config(tmp_path, upstream)
    assert "classifies by the first state" in refused(place)
    assert "must be alone" in refused(place, bilstm, "upstream.objectives=[{kind: left-to-right}, {kind: masked}]")
    pipeline, store = finish(place, bilstm)
    assert Bundle.load(store.path(pipeline.models.pretrained)).model.config.is_decoder
    for steps in pipeline.systems:
        finetuned = Bundle.load(store.path(steps.finetune)).model
        assert finetuned.config.is_decoder and (store.path(steps.evaluate) / "hypotheses.txt").is_file()


def refused(place: Path, *changes: str) -> str:
    """The message of a configuration that is refused before any step runs."""
    with pytest.raises(UserError) as error:
        pipeline = Pipeline(load(place, Experiment, changes), place.parent)
        make_plan(Store(place.parent / "home"), [pipeline.report])
    assert not (place.parent / "home").exists() or not any((place.parent / "home").rglob("record.json"))
    return f"{error.value.what} {error.value.hint}"


def test_mistakes_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    place = config(tmp_path, SEGMENTS)
    flat = refused(place, 'corpora.upstream={"folder": "upstream", "languages": ["en"]}')
    assert "reads documents, and this corpus does not mark them" in flat
    objective = "upstream.objectives=[{kind: masked, input: %s}]"
    assert "next_sentence needs `input: segment-pair`" in refused(place, objective % "sentences, next_sentence: true")
    assert "sentences_per_document" in refused(place, objective % "doc-sentences, sentences_per_document: 3")
    assert "short_inputs applies to segment pairs" in refused(place, objective % "full-sentences, short_inputs: 0.3")
    narrow = "model={family: bert, d_model: 16, embedding_width: 8, layers: 1, attention_heads: 2, ffn_dim: 16}"
    assert "next_sentence: false" in refused(place, narrow)
    publish_bert(tmp_path / "published", pretraining=False)
    checkpoint = "upstream={corpus: upstream, checkpoint: published, objectives: [{kind: masked, input: segment-pair}]}"
    assert "continue_pretraining: true" in refused(place, checkpoint)
