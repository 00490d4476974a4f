"""Masking on pairs and packed documents, with and without next sentences, compared with transformers' own classes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from scipy.stats import chisquare
from transformers import BertForPreTraining, PreTrainedModel

from documented import documented_corpus, request_on
from engine_runs import assert_weights_agree, run_workers
from subgraft.base.errors import UserError
from subgraft.config.initialisers import ResegmentationSettings
from subgraft.data.text.corpus import Corpus
from subgraft.embeddings.generators.generator import Generator
from subgraft.embeddings.generators.generator_loss import GeneratorLoss
from subgraft.embeddings.generators.simulation import Simulator
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.next_sentence import with_next_sentence
from subgraft.training.objectives.compute.embedding_view import IGNORED
from subgraft.training.objectives.compute.interface import HeldOut
from subgraft.training.objectives.compute.masked import MaskedObjective
from subgraft.training.objectives.compute.next_sentence import NextSentenceBatch, PairExample, SegmentBatch
from subgraft.training.objectives.masked import MaskedSettings
from toys import bert, cased_tokenizer

CLS, SEP, MASK = 2, 3, 4
LENGTH = 40


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return documented_corpus(tmp_path_factory.mktemp("documents"))


@pytest.fixture
def bundle() -> Iterator[Bundle]:
    tokenizer = cased_tokenizer()
    yield Bundle(with_next_sentence(bert(), seed=5), tokenizer, tokenizer)


def objective(bundle: Bundle, corpus: Corpus, **settings: Any) -> MaskedObjective:
    settings = {"input": "segment-pair", **settings}
    return MaskedObjective.of(MaskedSettings(**settings), request_on(bundle, corpus, max_length=LENGTH))


def pair(objective: MaskedObjective, index: int, epoch: int = 0) -> PairExample:
    example = objective.sentences.example(index, epoch)
    assert isinstance(example, PairExample)
    return example


@pytest.mark.parametrize("form", ["segment-pair", "sentence-pair"])
def test_the_loss_is_that_of_transformers_both_heads_together(form: str, bundle: Bundle, corpus: Corpus) -> None:
    trained, model = objective(bundle, corpus, input=form), bundle.model
    assert isinstance(model, BertForPreTraining)
    batch = trained.batch(np.arange(8), epoch=0)
    assert isinstance(batch, NextSentenceBatch)
    sums, counts = trained.loss(0.0)(batch), batch.counts
    assert trained.loss(0.0).weights == {"loss": 1.0, "next_sentence": 1.0} and counts["next_sentence"] == 8
    ours = sum(sums[name] / counts[name] for name in sums)
    theirs = model(
        **batch.inputs, input_ids=batch.input_ids, labels=batch.labels, next_sentence_label=batch.next_sentence_label
    )
    torch.testing.assert_close(ours, theirs.loss, rtol=0, atol=1e-6)
    ours.backward()
    own = {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert own.keys() == {name for name, _ in model.named_parameters()}, "pooler and both heads are trained"
    model.zero_grad()
    theirs.loss.backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(own[name], parameter.grad, rtol=1e-4, atol=1e-6)


def test_a_pair_is_read_as_two_segments(bundle: Bundle, corpus: Corpus) -> None:
    trained = objective(bundle, corpus)
    labels = {True: 0, False: 1}
    for index in range(len(trained.sentences)):
        example, whole = pair(trained, index), trained.view("decoder").original(index, 0)
        assert isinstance(whole, PairExample) and (whole.second, whole.follows) == (example.second, example.follows)
        assert whole.tokens[0] == CLS and whole.tokens[-1] == SEP == whole.tokens[example.second - 1]
        assert whole.tokens.count(SEP) == 2 and len(whole.tokens) <= LENGTH
        assert all(label == IGNORED for token, label in zip(whole.tokens, example.labels, strict=True) if token < 4)
        ordinary = len(whole.tokens) - 3
        assert sum(label != IGNORED for label in example.labels) == max(1, round(0.15 * ordinary))
        batch = trained.sentences.collate([example])
        assert isinstance(batch, NextSentenceBatch)
        assert batch.token_type_ids[0].tolist() == [0] * example.second + [1] * (len(example.tokens) - example.second)
        assert batch.next_sentence_label.tolist() == [labels[example.follows]]


def test_pairs_are_drawn_again_in_every_epoch_and_a_function_of_the_seed(bundle: Bundle, corpus: Corpus) -> None:
    trained = objective(bundle, corpus)
    assert trained.sentences.example(0, 3) == objective(bundle, corpus).sentences.example(0, 3)
    drawn = [pair(trained, 1, epoch) for epoch in range(400)]
    assert len({tuple(example.tokens) for example in drawn}) > 300
    follows = sum(example.follows for example in drawn)
    assert chisquare([follows, 400 - follows]).pvalue > 0.001


def test_every_place_of_a_segment_is_hidden_equally_often_and_no_special_token(bundle: Bundle, corpus: Corpus) -> None:
    trained = objective(bundle, corpus, short_inputs=0.0)
    masking, text = trained.sentences.masking, trained.sentences.text(0, 0)
    places = np.zeros(len(text.tokens) + 2)
    rng = np.random.default_rng(1)
    for _ in range(2000):
        places += np.array(masking(text, rng).labels) != IGNORED
    assert text.second is not None
    special = [0, text.second, len(places) - 1]
    assert places[special].sum() == 0
    assert chisquare(np.delete(places, special)).pvalue > 0.001


def test_static_copies_repeat_after_as_many_epochs_and_dynamic_masks_do_not(bundle: Bundle, corpus: Corpus) -> None:
    static, dynamic = objective(bundle, corpus, static_copies=3), objective(bundle, corpus)
    copies = [static.sentences.example(2, epoch) for epoch in range(9)]
    assert copies[:3] == copies[3:6] == copies[6:] and copies[0] != copies[1] != copies[2] != copies[0]
    assert [dynamic.sentences.example(2, epoch) for epoch in range(3)] == copies[:3]
    assert dynamic.sentences.example(2, 3) != copies[3]


@pytest.mark.parametrize("form", ["full-sentences", "doc-sentences"])
def test_packed_text_has_one_segment_and_hides_no_separator(form: str, bundle: Bundle, corpus: Corpus) -> None:
    trained = objective(bundle, corpus, input=form)
    batch = trained.batch(np.arange(len(trained.sentences)), 0)
    assert not isinstance(batch, SegmentBatch) and batch.counts.keys() == {"loss"}
    assert (trained.lengths == batch.attention_mask.sum(dim=1).numpy()).all()
    whole = [trained.sentences.text(index, 0).tokens for index in range(len(trained.sentences))]
    read = [bundle.encoder.encode(line) for line in corpus.lines("train", "source")]
    assert [t for tokens in whole for t in tokens if t != SEP] == [t for tokens in read for t in tokens]
    assert (sum(tokens.count(SEP) for tokens in whole) > 0) == (form == "full-sentences")
    assert not (batch.labels == SEP).any()


def test_without_next_sentences_pairs_keep_their_segments_and_the_head_stays(bundle: Bundle, corpus: Corpus) -> None:
    trained = objective(bundle, corpus, next_sentence=False)
    batch = trained.batch(np.arange(4), 0)
    assert isinstance(batch, SegmentBatch) and not isinstance(batch, NextSentenceBatch)
    assert (batch.token_type_ids.sum(dim=1) > 0).all() and batch.counts.keys() == {"loss"}
    sums = trained.loss(0.0)(batch)
    assert sums.keys() == {"loss"}
    sums["loss"].backward()
    unused = {name for name, parameter in bundle.model.named_parameters() if not parameter.requires_grad}
    assert unused == {
        f"{module}.{kind}" for module in ("bert.pooler.dense", "cls.seq_relationship") for kind in ("weight", "bias")
    }
    assert objective(bundle, corpus) and all(each.requires_grad for each in bundle.model.parameters())


def test_accuracy_on_dev_text_is_that_of_transformers_predictions(bundle: Bundle, corpus: Corpus) -> None:
    trained, model = objective(bundle, corpus), bundle.model
    scores = trained.dev_scores()
    assert scores is not None
    held_out = MaskedObjective.of(MaskedSettings(input="segment-pair"), HeldOut(**vars(request_on(bundle, corpus))))
    batch = held_out.batch(np.arange(len(held_out.sentences)), 0)
    assert isinstance(batch, NextSentenceBatch) and held_out.dev_scores() is None
    logits = model(**batch.inputs, input_ids=batch.input_ids).seq_relationship_logits
    right = (logits.argmax(dim=1) == batch.next_sentence_label).double().mean()
    assert scores()["next_sentence_accuracy"] == pytest.approx(100 * float(right))
    assert objective(bundle, corpus, input="doc-sentences").dev_scores() is None


def test_both_heads_learn(bundle: Bundle, corpus: Corpus) -> None:
    trained, model = objective(bundle, corpus), bundle.model
    loss, batch = trained.loss(0.0), trained.batch(np.arange(len(trained.sentences)), 0)
    assert isinstance(batch, NextSentenceBatch) and 0 < batch.next_sentence_label.sum() < len(trained.sentences)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(80):
        means = {name: value / batch.counts[name] for name, value in loss(batch).items()}
        optimizer.zero_grad()
        torch.stack(list(means.values())).sum().backward()
        optimizer.step()
    assert means["next_sentence"] < 0.2 and means["loss"] < 1.0


def test_a_generator_is_trained_on_both_losses_and_pairs_stay_pairs(bundle: Bundle, corpus: Corpus) -> None:
    trained, tokenizer = objective(bundle, corpus), cased_tokenizer()
    view = trained.view("decoder")
    simulator = Simulator(view, tokenizer, ResegmentationSettings(merge_rate=0.5, split_rate=0.5), 10, 1, LENGTH)
    batch = simulator.batch(np.arange(8), 0)
    assert batch.counts.keys() == {"prediction", "next_sentence", "distillation"}
    related = [pair(trained, index).follows for index in range(8)]
    for each in (batch.original, batch.resegmented, batch.predicted):
        assert isinstance(each, NextSentenceBatch)
        for tokens, types in zip(each.input_ids.tolist(), each.token_type_ids.tolist(), strict=True):
            assert tokens.count(SEP) == 2
            last = len(tokens) - 1 - tokens[::-1].index(SEP)
            assert types == [int(tokens.index(SEP) < at <= last) for at in range(len(tokens))]
        assert each.next_sentence_label.tolist() == [not follows for follows in related]
    assert isinstance(batch.resegmented, NextSentenceBatch)
    assert (batch.resegmented.input_ids >= len(tokenizer)).any(), "there are new tokens"
    generator = Generator("patt", bundle.model.config.hidden_size, False)
    loss = GeneratorLoss(bundle.model, generator, view, 0.5, 0.0, "input")
    assert loss.weights == {"prediction": 1.0, "next_sentence": 1.0, "distillation": 0.5}
    loss(batch)["next_sentence"].backward()
    assert all(each.grad is not None and each.grad.abs().sum() > 0 for each in generator.parameters())


def test_next_sentences_need_their_head_and_the_corpus_documents(
    corpus: Corpus, bundle: Bundle, tmp_path: Path
) -> None:
    plain: PreTrainedModel = bert()
    without = Bundle(plain, cased_tokenizer(), cased_tokenizer())
    with pytest.raises(UserError, match="has no head for next sentences") as error:
        objective(without, corpus)
    assert "next_sentence: false" in error.value.hint
    assert objective(without, corpus, next_sentence=False).dev_scores() is None
    with pytest.raises(UserError, match="has one document"):
        objective(bundle, documented_corpus(tmp_path, sizes=(9,), splits=("train",)))
    with pytest.raises(UserError, match="no room for two segments"):
        MaskedObjective.of(MaskedSettings(input="segment-pair"), request_on(bundle, corpus, max_length=4))


@pytest.mark.slow
def test_two_workers_train_as_one_does_and_a_head_that_no_batch_uses_stays(tmp_path: Path) -> None:
    losses = [run_workers("plain", workers, tmp_path / str(workers), task="next-sentence") for workers in (1, 2)]
    assert len(losses[0]) == 6 and losses[0] == pytest.approx(losses[1], rel=1e-4)
    one, two = (load_file(tmp_path / str(workers) / "final.safetensors") for workers in (1, 2))
    assert_weights_agree(one, two, rtol=1e-3, atol=2e-4)
    fewer = [name for name in one if name.startswith("updates.")]
    assert fewer and all("pooler" in name or "seq_relationship" in name for name in fewer)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_zero_trains_as_plain_does(tmp_path: Path, workers: int) -> None:
    plain = run_workers("plain", 1, tmp_path / "plain", task="next-sentence")
    assert run_workers("zero2", workers, tmp_path / "zero", task="next-sentence") == pytest.approx(plain, rel=1e-3)
