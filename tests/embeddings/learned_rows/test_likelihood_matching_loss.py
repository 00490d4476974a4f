"""Likelihood matching: span likelihoods by brute force, what the loss moves, and what that does for other sentences."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from new_vocabularies import LANGUAGES, TEXTS, new_vocabulary, upstream
from subgraft.config.training import TrainingSettings
from subgraft.embeddings.learned_rows.likelihood_matching import (
    LikelihoodMatchingLoss,
    SpanBatch,
    SpanPairs,
    StudentTables,
    begins_word,
    binarised_divergence,
)
from subgraft.embeddings.methods.likelihood_matching import LikelihoodMatchingSettings
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families.encoder_only import BERT2BERT
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.checkpoint import Checkpoints
from subgraft.training.engine import PlainEngine
from subgraft.training.loop import Trainer
from subgraft.training.objectives.compute.seq2seq import Seq2SeqBatch, Seq2SeqData, Seq2SeqLoss
from subgraft.training.objectives.compute.translation import Translation
from subgraft.training.schedule import Data
from toys import bert2bert, cased_tokenizer, german, german_tokenizer

UNTIED = "untied"
FAMILIES = ["marian", "mbart", BERT2BERT, UNTIED]


def model_of(family: str) -> Bundle:
    if family == UNTIED:
        return Bundle(bert2bert(tied=False), cased_tokenizer(), cased_tokenizer())
    return upstream(family)


def vocabulary(family: str) -> Tokenizer:
    return new_vocabulary(BERT2BERT if family == UNTIED else family, "decoder")


def settings(steps: int = 1, rate: float = 0.01) -> TrainingSettings:
    return TrainingSettings(max_steps=steps, batch_size=600, max_length=40, learning_rate=rate, warmup_steps=5)


def matching(bundle: Bundle, target: Tokenizer, **changes: object) -> tuple[LikelihoodMatchingLoss, StudentTables]:
    start = StudentTables.of(bundle, target, Method("mean"))
    chosen = LikelihoodMatchingSettings.model_validate(changes)
    return LikelihoodMatchingLoss(bundle, target, start, chosen), start


def spans(bundle: Bundle, target: Tokenizer, new: tuple[int, ...], first: int, last: int) -> SpanPairs:
    return SpanPairs(TEXTS[first:last], bundle, "decoder", target, LANGUAGES, settings(), new)


@torch.no_grad()
def token_scores(bundle: Bundle, read: Seq2SeqBatch) -> list[Tensor]:
    """Log-probabilities of the whole vocabulary at each label of each sentence, by the model's own forward pass."""
    logits = bundle.model.eval()(
        input_ids=read.input_ids, attention_mask=read.attention_mask, decoder_input_ids=read.decoder_input_ids
    ).logits
    return [row[labels >= 0].double().log_softmax(dim=-1) for row, labels in zip(logits, read.labels, strict=True)]


def by_hand(bundle: Bundle, read: Seq2SeqBatch, lengths: list[int]) -> tuple[list[float], list[float]]:
    """Of each span, the sum of its tokens' log-probabilities; and that of a word's beginning after it, 0 at the end."""
    begins, sums, following = begins_word(bundle.decoder), [], []
    of_span = iter(lengths)
    for scores, labels in zip(token_scores(bundle, read), read.labels, strict=True):
        at = 0
        while at < len(scores):
            length = next(of_span)
            sums.append(sum(float(scores[i, labels[i]]) for i in range(at, at + length)))
            at += length
            text_goes_on = at < len(scores) and bundle.decoder.special["eos"] not in labels[at - length : at]
            following.append(float(scores[at, begins].exp().sum().log()) if text_goes_on else 0.0)
    return sums, following


def transferred(family: str, target: Tokenizer) -> Bundle:
    bundle = model_of(family)
    model = transplant(bundle.model, bundle.tokenizers, {"decoder": target}, Method("mean")).model
    return Bundle(model, bundle.encoder, target)


@pytest.mark.parametrize("family", FAMILIES)
def test_likelihoods_of_spans_are_the_sums_over_their_tokens(family: str) -> None:
    """Under the model itself, and under the model that a transfer makes."""
    bundle, target = model_of(family), vocabulary(family)
    module, start = matching(bundle, target)
    batch = spans(bundle, target, start.tokens, 0, 12).batch(np.arange(10), 0)
    likelihoods = module.span_likelihoods(batch)
    teacher, _ = by_hand(bundle, batch.teacher, batch.before.tolist())
    student, _ = by_hand(transferred(family, target), batch.student, batch.after.tolist())
    torch.testing.assert_close(likelihoods.teacher.double(), torch.tensor(teacher).double(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(
        likelihoods.student.detach().double(), torch.tensor(student).double(), rtol=1e-5, atol=1e-5
    )
    p, q = (torch.tensor(values).double().div(100).exp() for values in (teacher, student))
    expected = 100 * (p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log())
    assert float(module(batch)["matching"].detach()) == pytest.approx(float(expected.sum()), rel=1e-3)
    assert float(expected.sum()) > 0.01


@pytest.mark.parametrize("family", ["marian", BERT2BERT])
def test_spans_are_merged_until_the_teacher_expects_a_word(family: str) -> None:
    bundle, target = model_of(family), vocabulary(family)
    plain, start = matching(bundle, target)
    batch = spans(bundle, target, start.tokens, 0, 12).batch(np.arange(10), 0)
    teacher, after_teacher = by_hand(bundle, batch.teacher, batch.before.tolist())
    student, after_student = by_hand(transferred(family, target), batch.student, batch.after.tolist())
    threshold = math.exp(sorted(value for value in after_teacher if value)[len(after_teacher) // 3])
    module, _ = matching(bundle, target, boundary_threshold=threshold)
    expected, one, two = [], 0.0, 0.0
    for i, inner in enumerate(batch.inner.tolist()):
        one, two = one + teacher[i], two + student[i]
        if not inner or after_teacher[i] > math.log(threshold) + 1e-6:
            expected.append((one + after_teacher[i], two + after_student[i]))
            one = two = 0.0
    likelihoods = module.span_likelihoods(batch)
    assert len(batch.before) // 4 < len(expected) < len(batch.before)
    right = torch.tensor(expected)
    torch.testing.assert_close(likelihoods.teacher[: len(right)], right[:, 0], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(likelihoods.student[: len(right)].detach(), right[:, 1], rtol=1e-4, atol=1e-4)
    assert not likelihoods.teacher[len(right) :].any() and not likelihoods.student[len(right) :].any()
    assert float(module(batch)["matching"]) != pytest.approx(float(plain(batch)["matching"]), rel=1e-3)


def test_words_begin_where_the_mark_says_so_and_a_sentence_may_end() -> None:
    for tokenizer in (german_tokenizer(), german_tokenizer(90, "bpe"), cased_tokenizer()):
        starts = begins_word(tokenizer).nonzero().flatten().tolist()
        word_initial = {token for entry, token in tokenizer.ids.items() if entry.word_initial}
        bare = {token for token, piece in enumerate(tokenizer.pieces) if piece == tokenizer.mark.value}
        assert set(starts) == word_initial | bare | {tokenizer.special["eos"]}
    assert len(begins_word(german_tokenizer(), 100)) == 100


@pytest.mark.parametrize("temperature", [1.0, 100.0])
def test_the_divergence_is_that_of_two_events(temperature: float) -> None:
    teacher, student = torch.tensor([-0.5, -3.0, -40.0, 0.0]), torch.tensor([-2.0, -3.0, -1.0, 0.0])
    p, q = (value.double().div(temperature).exp() for value in (teacher[:3], student[:3]))
    right = temperature * (p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log())
    divergence = binarised_divergence(teacher, student, temperature)
    torch.testing.assert_close(divergence[:3].double(), right, rtol=2e-3, atol=1e-6)
    assert divergence[3] == 0, "what is certain under both differs in nothing"


def test_for_a_large_temperature_it_is_a_divergence_of_surprisals() -> None:
    teacher, student = torch.tensor([-0.5, -3.0, -4.0]), torch.tensor([-2.0, -3.5, -1.0])
    x, y = -teacher, -student
    expected = x * (x / y).log() - x + y
    torch.testing.assert_close(binarised_divergence(teacher, student, 1000.0), expected, rtol=2e-2, atol=1e-3)


@pytest.mark.parametrize("boundary_threshold", [None, 0.1])
@pytest.mark.parametrize("family", FAMILIES)
def test_with_one_and_the_same_vocabulary_there_is_nothing_to_match(
    family: str, boundary_threshold: float | None
) -> None:
    bundle = model_of(family)
    module, start = matching(bundle, bundle.decoder, boundary_threshold=boundary_threshold)
    assert start.tokens == ()
    everything = tuple(bundle.decoder.ids.values())
    batch = spans(bundle, bundle.decoder, everything, 0, 12).batch(np.arange(10), 0)
    assert torch.equal(batch.before, batch.after)
    assert float(module(batch)["matching"]) == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_new_rows_of_all_tables_move_and_nothing_else(family: str, tmp_path: Path) -> None:
    bundle, target = model_of(family), vocabulary(family)
    module, start = matching(bundle, target)
    frozen = {name: tensor.clone() for name, tensor in bundle.model.state_dict().items()}
    data = spans(bundle, target, start.tokens, 0, 12)
    batch = data.batch(np.arange(4), 0)
    module(batch)["matching"].backward()
    reached = {name for name, parameter in module.named_parameters() if parameter.grad is not None}
    tables = {"input", "bias", "output"} if family == UNTIED else {"input", "bias"}
    assert reached == {f"added.{name}" for name in tables}
    gradients = {name: parameter.grad for name, parameter in module.added.items()}
    assert all(
        gradient is not None and gradient.flatten(1 if gradient.ndim > 1 else 0).any()
        for gradient in gradients.values()
    )
    read = set(start.tokens).intersection(batch.student.decoder_input_ids.flatten().tolist())
    moved = {start.tokens[i] for i in gradients["input"].any(dim=1).nonzero().flatten().tolist()}
    # Tied, a row is read and predicted, and the softmax reaches all that could be predicted.
    assert moved == (read if family == UNTIED else set(start.tokens)) and read
    train(module, data, 3, tmp_path)
    assert all(torch.equal(tensor, frozen[name]) for name, tensor in bundle.model.state_dict().items())
    tokens, rows = module.trained()
    assert tuple(tokens.tolist()) == start.tokens and set(rows) == tables
    rest = torch.ones(len(target), dtype=torch.bool).index_fill(0, tokens, False)
    for name, table in module.student_tables().items():
        assert torch.equal(table[rest], start.tables[name][rest])
        assert torch.equal(table[tokens], rows[name]) and not torch.equal(rows[name], start.tables[name][tokens])


def test_a_batch_of_nothing_but_unknown_text_can_be_trained_on() -> None:
    bundle, target = model_of("marian"), vocabulary("marian")
    module, start = matching(bundle, target)
    batch = spans(bundle, target, start.tokens, 0, 12).batch(np.arange(2), 0)
    nothing = SpanBatch(batch.teacher, batch.student, batch.before, batch.after, batch.known & False, batch.inner)
    loss = module(nothing)["matching"]
    loss.backward()
    assert loss == 0 and nothing.counts == {"matching": 0}
    assert module.added["input"].grad is not None and not module.added["input"].grad.any()


def test_a_token_that_the_upstream_vocabulary_knows_no_part_of_is_not_trained() -> None:
    bundle = upstream("marian")
    target = learn([*german(200, 7), *["☃☃ Straße"] * 40], kind="unigram", size=150, character_coverage=1.0)
    _, start = matching(bundle, target)
    unknown = {token for entry, token in target.ids.items() if set(entry.surface) == {"☃"}}
    assert unknown and set(start.tokens).isdisjoint(unknown)


def train(module: torch.nn.Module, data: Data, steps: int, place: Path, rate: float = 0.01) -> None:
    weight = "loss" if isinstance(module, Seq2SeqLoss) else "matching"
    engine = PlainEngine(module, settings(steps, rate), torch.device("cpu"))
    Trainer(module, {weight: 1.0}, data, settings(steps, rate), engine, Checkpoints(place / weight), seed=1).run()


@pytest.mark.slow
@pytest.mark.parametrize("boundary_threshold", [None, 0.1])
def test_other_sentences_come_nearer_too(boundary_threshold: float | None, tmp_path: Path) -> None:
    """A model that has learnt to translate; its rows by the mean of subwords, and after matching."""
    bundle, target = upstream("marian"), vocabulary("marian")
    examples = Translation(TEXTS[:250], bundle.encoder, bundle.decoder, bundle.sequence_format(LANGUAGES), 40)
    train(Seq2SeqLoss(bundle.model), Seq2SeqData(examples, *bundle.padding), 120, tmp_path)
    module, start = matching(bundle, target, boundary_threshold=boundary_threshold)
    other = spans(bundle, target, start.tokens, 250, 300)
    batch = other.batch(np.arange(len(other)), 0)

    @torch.no_grad()
    def losses() -> tuple[float, float]:
        """The loss, and the negative log-likelihood of the text under the student."""
        plain = matching(bundle, target)[0]
        plain.load_state_dict(module.state_dict())
        return float(module(batch)["matching"]), -float(plain.span_likelihoods(batch).student.sum())

    before = losses()
    train(module, spans(bundle, target, start.tokens, 0, 250), 60, tmp_path)
    after = losses()
    assert after[0] < 0.8 * before[0] and after[1] < before[1]
