"""Next sentences together with hidden tokens and entities, as Tsinghua's ERNIE has them; saved with all heads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file
from scipy.stats import chisquare
from transformers import AutoModelForPreTraining, BertForPreTraining

from engine_runs import assert_weights_agree, run_workers
from entities import entity_mixture, entity_request, knowledgeable, names, table
from subgraft.base.errors import UserError
from subgraft.contrib.ernie_thu.entity_table import EntityTable
from subgraft.contrib.ernie_thu.knowledgeable import KnowledgeableForPreTraining, text_part
from subgraft.contrib.ernie_thu.masked_entities import ENTITIES, EntityPairBatch, MaskedEntitiesObjective
from subgraft.contrib.ernie_thu.objective import MaskedEntitiesSettings
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.transformers import export_transformers
from subgraft.modeling.families import FAMILIES, count_parameters
from subgraft.modeling.heads import with_head
from subgraft.modeling.next_sentence import next_sentence_parameters, with_next_sentence
from subgraft.training.objectives.compute.embedding_view import IGNORED
from subgraft.training.objectives.compute.next_sentence import ACCURACY, NEXT_SENTENCE, PairExample
from toys import cased_tokenizer

CLS, SEP = 2, 3


@pytest.fixture(scope="module")
def objective(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MaskedEntitiesObjective]:
    model = with_next_sentence(knowledgeable(), 5)
    request = entity_request(tmp_path_factory.mktemp("pairs"), model)
    yield MaskedEntitiesObjective.of(MaskedEntitiesSettings(input="segment-pair"), request)


def model_of(objective: MaskedEntitiesObjective) -> Any:
    return objective.loss(0.0).model


def test_the_loss_is_the_sum_of_all_three(objective: MaskedEntitiesObjective) -> None:
    """Those of tokens and next sentences are the class's own with labels; that of entities is tested alone."""
    model, batch, loss = model_of(objective), objective.batch(np.arange(8), 0), objective.loss(0.0)
    assert isinstance(batch, EntityPairBatch)
    assert loss.weights == {"loss": 1.0, ENTITIES: 1.0, NEXT_SENTENCE: 1.0}
    sums, counts = loss(batch), batch.counts
    assert sums.keys() == counts.keys() == loss.weights.keys() and counts[NEXT_SENTENCE] == 8
    own = model(
        **batch.inputs, input_ids=batch.input_ids, labels=batch.labels, next_sentence_label=batch.next_sentence_label
    )
    both = sums["loss"] / counts["loss"] + sums[NEXT_SENTENCE] / counts[NEXT_SENTENCE]
    torch.testing.assert_close(both, own.loss, rtol=0, atol=1e-6)
    states = model.bert(input_ids=batch.input_ids, **batch.inputs).last_hidden_state
    predicted = batch.entity_labels != IGNORED
    logits = model.entity_logits(states[predicted], batch.candidates[predicted.nonzero()[:, 0]])
    expected = torch.nn.functional.cross_entropy(logits, batch.entity_labels[predicted], reduction="sum")
    torch.testing.assert_close(sums[ENTITIES], expected)
    model.zero_grad()
    torch.stack([value / counts[name] for name, value in sums.items()]).sum().backward()
    assert all(each.grad is not None and each.grad.abs().sum() > 0 for each in model.parameters())


def test_entities_stay_at_their_mentions_in_both_segments(objective: MaskedEntitiesObjective) -> None:
    """The drawn pair is decoded: each entity is at the first token of its name, whose end may be cut off."""
    tokenizer, count, in_second = cased_tokenizer(), 0, 0
    for index in range(len(objective.sentences)):
        whole = objective.view("decoder").original(index, 0)
        example = objective.sentences.example(index, 0)
        assert isinstance(whole, PairExample) and isinstance(example.text, PairExample)
        assert whole.second == example.text.second and whole.tokens[0] == CLS
        assert whole.tokens[whole.second - 1] == SEP == whole.tokens[-1]
        for place, at in example.targets.items():
            name = names()[example.candidates[at]]
            last = whole.second - 1 if place < whole.second else len(whole.tokens) - 1
            read = tokenizer.decode(whole.tokens[place : min(place + len(tokenizer.encode(name)), last)])
            assert read and name.startswith(read)
            count, in_second = count + 1, in_second + (place >= whole.second)
    assert count > 50 and in_second > 10


def test_half_of_the_second_segments_follow_and_examples_are_functions_of_the_epoch(
    objective: MaskedEntitiesObjective,
) -> None:
    sentences, follows = objective.sentences, np.zeros(2)
    for epoch in range(40):
        for index in range(len(sentences)):
            example = sentences.example(index, epoch)
            assert isinstance(example.text, PairExample)
            follows[int(example.text.follows)] += 1
    assert chisquare(follows).pvalue > 1e-3
    assert sentences.example(1, 3) == sentences.example(1, 3) != sentences.example(1, 4)


def test_generators_and_dev_text_have_pairs_too(objective: MaskedEntitiesObjective) -> None:
    view = objective.view("decoder")
    assert view.sequence_weights == {NEXT_SENTENCE: 1.0}
    rebuilt = view.rebuild(view.original(0, 0), [40, 41, SEP, 42])
    assert isinstance(rebuilt, PairExample) and rebuilt.types == [0, 0, 0, 0, 1, 1]
    scores = objective.dev_scores()
    assert scores is not None and 0 <= scores()[ACCURACY] <= 100


def test_all_heads_are_saved_loaded_and_counted(tmp_path: Path, objective: MaskedEntitiesObjective) -> None:
    model, batch = model_of(objective).eval(), objective.batch(np.arange(4), 1)
    Bundle(model, cased_tokenizer(), cased_tokenizer()).save(tmp_path)
    again: Any = Bundle.load(tmp_path).model
    assert type(again) is KnowledgeableForPreTraining and tuple(EntityTable.of(again).names) == names()
    assert with_next_sentence(again, 9) is again, "a head that is there stays"
    inputs = {"input_ids": batch.input_ids, **batch.inputs}
    first, second = (each(**inputs) for each in (model, again))
    assert torch.equal(first.prediction_logits, second.prediction_logits)
    assert torch.equal(first.seq_relationship_logits, second.seq_relationship_logits)
    states = torch.randn(3, 16, generator=torch.Generator().manual_seed(1))
    assert torch.equal(
        model.entity_logits(states, batch.candidates[:3]), again.entity_logits(states, batch.candidates[:3])
    )
    assert count_parameters(again.config.to_dict()).total == again.num_parameters()
    assert torch.equal(EntityTable.of(again).vectors, table().vectors)
    headed: Any = with_head(again, "sequence", 3, 1)
    assert torch.equal(headed.bert.pooler.dense.weight, model.bert.pooler.dense.weight), "the pooler is pretrained"


def test_transformers_loads_both_of_its_own_heads(tmp_path: Path, objective: MaskedEntitiesObjective) -> None:
    model = model_of(objective).eval()
    ids = torch.tensor([[CLS, 30, 31, SEP, 40, SEP]])
    inputs = {"input_ids": ids, "token_type_ids": torch.tensor([[0, 0, 0, 0, 1, 1]])}
    expected = model(**inputs)
    Bundle(model, cased_tokenizer(), cased_tokenizer()).save(tmp_path / "model")
    (tmp_path / "export").mkdir()
    loading = export_transformers(tmp_path / "model", tmp_path / "export")
    assert (loading.model_class, loading.model_code) == ("AutoModelForPreTraining", False)
    read = AutoModelForPreTraining.from_pretrained(tmp_path / "export", trust_remote_code=False)
    assert type(read) is type(text_part(model)) is BertForPreTraining
    assert torch.equal(read(**inputs).prediction_logits, expected.prediction_logits)
    assert torch.equal(read(**inputs).seq_relationship_logits, expected.seq_relationship_logits)
    made = FAMILIES["knowledgeable"].assemble(model, cased_tokenizer(), 3)
    assert "encoder.pooler.dense.weight" not in made.state_dict()


def test_mistakes_have_messages(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="next_sentence needs `input: segment-pair`"):
        MaskedEntitiesSettings(next_sentence=True)
    with pytest.raises(ValidationError, match="short_inputs applies to segment pairs"):
        MaskedEntitiesSettings(input="sentence-pair", short_inputs=0.3)
    plain = knowledgeable()
    request = entity_request(tmp_path, plain)
    with pytest.raises(UserError, match="has no head for next sentences"):
        MaskedEntitiesObjective.of(MaskedEntitiesSettings(input="segment-pair"), request)
    without = MaskedEntitiesObjective.of(MaskedEntitiesSettings(input="segment-pair", next_sentence=False), request)
    batch = without.batch(np.arange(3), 0)
    assert batch.counts.keys() == {"loss", ENTITIES} and (batch.inputs["token_type_ids"].sum(dim=1) > 0).all()
    assert without.dev_scores() is None


def test_parameters_without_a_gradient_are_those_that_a_batch_does_not_use(tmp_path: Path) -> None:
    loss, mixture = entity_mixture(tmp_path)
    model: Any = loss.model
    ends = np.cumsum([len(part.lengths) for part in mixture.parts])
    for kind, index in (("masked-entities", 0), ("masked", int(ends[0]))):
        batch = mixture.batch(np.arange(index, index + 4), 0)
        assert batch.kind == kind
        model.zero_grad(set_to_none=True)
        sum(loss(batch).values()).backward()
        part: Any = loss.losses[kind]
        used = {id(each) for each in part.used()}
        assert {id(each) for each in model.parameters() if each.grad is not None} == used
    assert {id(each) for each in next_sentence_parameters(model)} <= {id(each) for each in loss.users}
    assert all(each.requires_grad for each in model.parameters())


@pytest.mark.slow
def test_two_workers_train_as_one_does(tmp_path: Path) -> None:
    losses = [run_workers("plain", workers, tmp_path / str(workers), task="entity-pairs") for workers in (1, 2)]
    assert len(losses[0]) == 6 and losses[0] == pytest.approx(losses[1], rel=1e-4)
    one, two = (load_file(tmp_path / str(workers) / "final.safetensors") for workers in (1, 2))
    assert_weights_agree(one, two, rtol=1e-3, atol=2e-4)
    fewer = [name for name in one if name.startswith("updates.")]
    assert any("entity_" in name for name in fewer) and any("pooler" in name for name in fewer)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_zero_trains_as_plain_does(tmp_path: Path, workers: int) -> None:
    plain = run_workers("plain", 1, tmp_path / "plain", task="entity-pairs")
    assert run_workers("zero2", workers, tmp_path / "zero", task="entity-pairs") == pytest.approx(plain, rel=1e-3)
