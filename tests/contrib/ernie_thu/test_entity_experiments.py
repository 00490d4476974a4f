"""Tsinghua's ERNIE all the way: a graph is embedded, a model pretrained, fitted with a vocabulary and scored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from entities import LINES, names, spans
from labelled import write_files
from small_experiments import finish, tiny, written
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.contrib.ernie_thu.entity_table import EntityTable
from subgraft.data.tasks.entities import ENTITY_TOKENS
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.plan_warnings import characters_for_marks
from subgraft.modeling.bundle import Bundle
from subgraft.orchestration.estimates.model_forecast import training_parameters
from subgraft.orchestration.store.store import Store
from subgraft.subwords.vocabulary.learn import learn

SYSTEMS = """\
- {name: old, vocabulary: upstream}
- {name: mean, initialiser: mean}
- {name: ours, initialiser: patt}
"""
UPSTREAM = (
    "corpus: upstream, objectives: [{kind: masked-entities}], "
    "vocabulary: {kind: wordpiece, size: 90, byte_fallback: false}"
)
ENTITIES = "entities: {triples: graph.tsv, transe: {dimensions: 8, epochs: 2}}"


def configured(place: Path, task: str = "entity-typing", **sections: str) -> Path:
    """A configuration, its records with entities, its graph, and labelled files."""
    source = write_files(task, place / "labelled", {"train": 40, "dev": 8, "test": 8})
    source["labelled"]["folder"] = "labelled"
    (place / "texts").mkdir()
    records = [json.dumps({"en": line, "entities": spans(line)}) for line in LINES]
    (place / "texts" / "train.jsonl").write_text("".join(f"{record}\n" for record in records))
    followed = zip(names(), (*names()[1:], names()[0]), strict=True)
    (place / "graph.tsv").write_text("".join(f"{one}\tbefore\t{two}\n" for one, two in followed))
    fields = "{en: {}, entities: {kind: spans, of: en}}"
    inputs = {
        "task": task,
        "languages": "{source: en, target: en}",
        "corpora": f"{{upstream: {{records: {{folder: texts, fields: {fields}}}}}, downstream: {json.dumps(source)}}}",
        "cleaning": "{drop_held_out: false, max_characters: null, max_ratio: null}",
        "upstream": f"{{{UPSTREAM}, {ENTITIES}}}",
        "downstream": "{corpus: downstream, vocabulary: {kind: wordpiece, size: 110, byte_fallback: false}}",
        "model": "{family: knowledgeable, d_model: 16, layers: 1, knowledge_layers: 1, attention_heads: 2, "
        "ffn_dim: 16, max_positions: 128, entity_width: 8, entity_heads: 2}",
        "pretrain": "{epochs: 2, batch_size: 500, max_length: 64, precision: fp32}",
        "generator_training": "{max_steps: 2, batch_size: 500, max_length: 64, precision: fp32}",
        "finetune": "{epochs: 1, batch_size: 500, max_length: 64, precision: fp32, dev_sentences: 8}",
        "evaluation": "{speed_sentences: 2, speed_repeats: 1, test_sentences: 8, bootstrap_samples: 20}",
        "systems": SYSTEMS,
    }
    return written(place, tiny(**inputs | sections))


def test_a_graph_is_embedded_read_in_pretraining_and_retained(tmp_path: Path) -> None:
    pipeline, store = finish(configured(tmp_path))
    step = pipeline.inputs.entities
    assert step is not None
    embedded = EntityTable.load(store.path(step))
    assert tuple(embedded.names) == names()
    pretrained: Any = pipeline.models.pretrained
    for made in (pretrained, *(steps.finetune for steps in pipeline.systems)):
        model = Bundle.load(store.path(made)).model
        assert torch.equal(EntityTable.of(model).vectors, embedded.vectors), "they are not trained"
    model = Bundle.load(store.path(pretrained)).model
    assert training_parameters(Store(tmp_path / "empty"), pretrained).parameters.total == model.num_parameters()
    sizes = {
        steps.system.name: Bundle.load(store.path(steps.finetune)).model.config.vocab_size for steps in pipeline.systems
    }
    assert sizes["ours"] == sizes["mean"] > sizes["old"]
    assert store.find(pipeline.report) is not None


def test_mistakes_are_reported_before_anything_is_written(tmp_path: Path) -> None:
    config = configured(tmp_path)

    def message(*changes: str) -> str:
        with pytest.raises(UserError) as caught:
            pipeline = Pipeline(load(config, Experiment, changes), tmp_path)
            assert pipeline.report
        return str(caught.value)

    assert "reads entities: give upstream.entities" in message(f"upstream={{{UPSTREAM}}}")
    bert = "model={family: bert, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16}"
    assert "upstream.entities needs model.family knowledgeable, not bert" in message(bert)
    assert "needs model.family knowledgeable, not bert" in message(bert, f"upstream={{{UPSTREAM}}}")
    assert "transe.dimensions 100 is not model.entity_width 8" in message("upstream.entities={triples: graph.tsv}")
    assert "exactly one of triples, embeddings" in message("upstream.entities={}")
    assert "none.tsv" in message("upstream.entities={triples: none.tsv, transe: {dimensions: 8}}")
    assert "no entities.safetensors here" in message("upstream.entities={embeddings: texts}")
    plain = "corpora.upstream={records: {folder: texts, fields: {en: {}}}}"
    assert "needs the spans of each text, and 'source' has none" in message(plain)
    (tmp_path / "broken.tsv").write_text("one\tbefore\ttwo\none before two\n")
    assert "broken.tsv:2: not a triple" in message("upstream.entities={triples: broken.tsv, transe: {dimensions: 8}}")
    (tmp_path / "one.tsv").write_text("one\tis\tone\n")
    assert "about one entity" in message("upstream.entities={triples: one.tsv, transe: {dimensions: 8}}")
    assert not (tmp_path / "home").exists()


def test_an_imported_vocabulary_without_tokens_for_marks_is_reported(tmp_path: Path) -> None:
    def warned(task: str, *tokens: str) -> list[str]:
        place = tmp_path / f"{task} {len(tokens)}"
        place.mkdir()
        config = configured(place, task)
        learn(LINES, kind="wordpiece", size=90, mask=True, languages=tokens).save(place / "given")
        experiment = load(config, Experiment, ["upstream.vocabulary_path=given"])
        return characters_for_marks(experiment, place)

    (said,) = warned("entity-typing")
    assert "given has no special token [ENT]," in said and "by characters" in said
    (said,) = warned("relation-classification", "[HD]")
    assert "no special token [TL]," in said
    assert not warned("classification") and not warned("entity-typing", *ENTITY_TOKENS)


def test_a_corpus_whose_entities_the_graph_lacks_is_refused(tmp_path: Path) -> None:
    config = configured(tmp_path)
    (tmp_path / "graph.tsv").write_text("Q1\tP1\tQ2\n")
    with pytest.raises(UserError, match=r"none of the \d+ entities that the corpus names has an embedding\n.*'Q1'"):
        finish(config)
