"""RoBERTas that configurations build: positions after padding, no segments, loaded by transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel, RobertaForMaskedLM

from documented import documented_corpus, request_on
from subgraft.base.errors import UserError
from subgraft.config.models import RobertaSettings
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import FAMILIES
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.masked import MaskedObjective
from subgraft.training.objectives.masked import MaskedSettings
from toys import SHAPE, cased_tokenizer, english, one_stack

SETTINGS = RobertaSettings(**{**one_stack(SHAPE, "encoder_layers"), "max_positions": 64})


def byte_level() -> Tokenizer:
    return learn(english(), kind="byte-level-bpe", size=330, mask=True)


def built(tokenizer: Tokenizer) -> Bundle:
    return Bundle(FAMILIES["roberta"].build(SETTINGS, tokenizer, tokenizer, 1).eval(), tokenizer, tokenizer)


def test_the_longest_text_is_as_long_as_the_settings_say() -> None:
    """Two of 64 rows would be lost to padding."""
    bundle = built(byte_level())
    model: PreTrainedModel = bundle.model
    assert isinstance(model, RobertaForMaskedLM) and model.config.pad_token_id == 1
    assert bundle.max_positions == 64 and model.config.max_position_embeddings == 66
    with torch.no_grad():
        assert model(torch.full((1, 64), 20)).logits.isfinite().all()
        with pytest.raises((IndexError, RuntimeError), match="out of"):
            model(torch.full((1, 65), 20))
    other = cased_tokenizer()
    with pytest.raises(UserError, match="padding id 1, and this vocabulary's is 0"):
        FAMILIES["roberta"].build(SETTINGS, other, other, 1)


@pytest.mark.parametrize("form", ["full-sentences", "doc-sentences", "segment-pair"])
def test_its_inputs_have_no_segments_and_their_loss_is_that_of_transformers(form: Any, tmp_path: Path) -> None:
    bundle, corpus = built(byte_level()), documented_corpus(tmp_path)
    settings = MaskedSettings(input=form, next_sentence=False)
    objective = MaskedObjective.of(settings, request_on(bundle, corpus, max_length=64))
    batch = objective.batch(np.arange(len(objective.sentences)), 0)
    assert batch.inputs.keys() == {"attention_mask"} and batch.input_ids.shape[1] <= 64
    loss = objective.loss(0.0)(batch)["loss"] / batch.counts["loss"]
    theirs = bundle.model(batch.input_ids, attention_mask=batch.attention_mask, labels=batch.labels).loss
    torch.testing.assert_close(loss, theirs, rtol=0, atol=1e-6)
    ends = (batch.input_ids == 2).sum(dim=1)
    if form == "segment-pair":
        assert (ends == 3).all(), "<s> a </s></s> b </s>"
        assert not (batch.labels == 2).any()
    elif form == "doc-sentences":
        assert (ends == 1).all()
    else:
        assert ends.max() > 1


def test_next_sentences_are_not_for_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="this roberta model has no head for next sentences"):
        MaskedObjective.of(
            MaskedSettings(input="segment-pair"), request_on(built(byte_level()), documented_corpus(tmp_path))
        )
