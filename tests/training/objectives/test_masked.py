from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from subgraft.training.objectives.compute.embedding_view import IGNORED
from subgraft.training.objectives.compute.masked import MaskedSentences, Masking
from subgraft.training.objectives.compute.masked_inputs import InputText
from subgraft.training.objectives.compute.single_stack import StackLoss
from subgraft.training.objectives.masked import MaskedSettings
from toys import bert, cased_tokenizer, english, german

LINES = english(150) + german(150)
CLS, SEP, MASK = 2, 3, 4


def _sentences(seed: int = 1, **settings: Any) -> MaskedSentences:
    return MaskedSentences(LINES, cased_tokenizer(), MaskedSettings(**settings), max_length=40, seed=seed)


def test_a_sentence_is_read_between_its_special_tokens_and_predicted_where_it_is_hidden() -> None:
    sentences, tokenizer = _sentences(), cased_tokenizer()
    for index in range(20):
        example, body = sentences.example(index, epoch=0), sentences.text(index, 0).tokens
        assert tokenizer.decode(body) == LINES[index]
        assert (example.tokens[0], example.tokens[-1]) == (CLS, SEP)
        assert (example.labels[0], example.labels[-1]) == (IGNORED, IGNORED)
        for read, label, token in zip(example.tokens[1:-1], example.labels[1:-1], body, strict=True):
            assert label in (IGNORED, token)
            assert label == token or read == token, "what is not predicted is left as it is"
        assert sum(label != IGNORED for label in example.labels) == max(1, round(0.15 * len(body)))


def test_of_the_hidden_tokens_four_in_five_are_masked_one_in_ten_random_and_one_in_ten_left() -> None:
    """Devlin et al. 2019, section 3.1; over 8,000 draws the standard error is below half a percent."""
    masking, ordinary = Masking(cased_tokenizer(), MaskedSettings(share=0.5)), 30
    body, generator = [ordinary] * 200, np.random.default_rng(5)
    counts = {"masked": 0, "random": 0, "kept": 0}
    for _ in range(80):
        example = masking(InputText(body), generator)
        places = [place for place, label in enumerate(example.labels) if label != IGNORED]
        assert len(places) == 100
        for place in places:
            read = example.tokens[place]
            counts["masked" if read == MASK else "kept" if read == ordinary else "random"] += 1
            assert read == MASK or read not in cased_tokenizer().special_ids
    shares = {name: count / 8000 for name, count in counts.items()}
    assert shares["masked"] == pytest.approx(0.8, abs=0.015)
    assert shares["random"] == pytest.approx(0.1, abs=0.012), "a stranger is the token itself once in 145 draws"
    assert shares["kept"] == pytest.approx(0.1, abs=0.012)


def test_what_is_hidden_is_a_function_of_seed_epoch_and_index() -> None:
    assert _sentences().example(7, 3) == _sentences().example(7, 3)
    assert _sentences().example(7, 3).labels != _sentences(seed=2).example(7, 3).labels
    drawn = {tuple(_sentences().example(7, epoch).labels) for epoch in range(10)}
    assert len(drawn) > 3
    settings = _sentences(masked=1.0, random=0.0)
    hidden = settings.example(0, 0)
    assert all(read == MASK for read, label in zip(hidden.tokens, hidden.labels, strict=True) if label != IGNORED)


def test_the_loss_is_the_models_own_summed_and_ignores_padding() -> None:
    model, sentences = bert(), _sentences()
    batch = sentences.batch(np.arange(6), epoch=0)
    assert (sentences.lengths[:6] == batch.attention_mask.sum(dim=1).numpy()).all()
    loss = StackLoss(model)(batch)["loss"]
    own = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask, labels=batch.labels).loss
    torch.testing.assert_close(loss, own * batch.counts["loss"], rtol=1e-4, atol=1e-3)
    alone = [StackLoss(model)(sentences.batch(np.array([i]), epoch=0))["loss"] for i in range(6)]
    torch.testing.assert_close(loss, torch.stack(alone).sum(), rtol=1e-4, atol=1e-3)


def test_the_head_and_its_bias_are_trained() -> None:
    model = bert()
    StackLoss(model)(_sentences().batch(np.arange(6), epoch=0))["loss"].backward()
    own = {name: parameter.grad for name, parameter in model.named_parameters()}
    assert all(gradient is not None and gradient.abs().sum() > 0 for gradient in own.values())
    model.zero_grad()
    batch = _sentences().batch(np.arange(6), epoch=0)
    logits = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits
    cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), ignore_index=IGNORED, reduction="sum").backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(own[name], parameter.grad, rtol=1e-3, atol=1e-4)


def test_sentences_are_cut_to_leave_room_for_their_special_tokens() -> None:
    sentences = MaskedSentences(LINES, cased_tokenizer(), MaskedSettings(), max_length=9, seed=1)
    assert sentences.lengths.max() == 9
    assert len(sentences.example(0, 0).tokens) == 9
