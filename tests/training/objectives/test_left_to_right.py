"""A left-to-right model with BERT's architecture: later tokens are hidden from it wherever it is used."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import AutoModelForMaskedLM, AutoModelForTokenClassification, PreTrainedModel

from documented import documented_corpus, request_on
from subgraft.base.errors import UserError
from subgraft.config.initialisers import ResegmentationSettings
from subgraft.embeddings.generators.simulation import Simulator
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import FAMILIES, family_of
from subgraft.modeling.heads import left_to_right, with_head
from subgraft.training.objectives.compute.embedding_view import IGNORED
from subgraft.training.objectives.compute.interface import Objective
from subgraft.training.objectives.left_to_right import LeftToRightSettings
from toys import bert, cased_tokenizer

CLS, SEP = 2, 3


def one_sided() -> PreTrainedModel:
    """With weights so large that a leak could not be overlooked."""
    model = left_to_right(bert())
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.4)
    return model


def objective(model: PreTrainedModel, folder: Path, **settings: str) -> Objective:
    bundle = Bundle(model, cased_tokenizer(), cased_tokenizer())
    chosen = LeftToRightSettings.model_validate(settings)
    return chosen.pretraining(request_on(bundle, documented_corpus(folder), max_length=30))


def first_change(model: PreTrainedModel, at: int) -> int:
    """The first place whose output changes with the token at a place."""
    ids = torch.arange(10, 20)[None]
    other = ids.clone()
    other[0, at] = 60
    with torch.no_grad():
        mask = torch.ones_like(ids)
        changes = (model(ids, attention_mask=mask).logits - model(other, attention_mask=mask).logits).abs().amax(-1)[0]
    return int(changes.gt(1e-6).nonzero()[0])


def test_nothing_is_seen_before_it_comes_also_after_saving_and_under_a_head(tmp_path: Path) -> None:
    model = one_sided()
    assert [first_change(model, at) for at in range(10)] == list(range(10))
    assert [first_change(bert(), at) for at in range(10)] == [0] * 10
    tokenizer = cased_tokenizer()
    Bundle(model, tokenizer, tokenizer).save(tmp_path)
    theirs = AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
    ids = torch.arange(10, 20)[None]
    with torch.no_grad():
        assert torch.equal(theirs(ids).logits, model(ids).logits)
    assert first_change(Bundle.load(tmp_path).model, 6) == first_change(theirs, 6) == 6
    tagger = with_head(Bundle.load(tmp_path).model, "tokens", 3, seed=1)
    assert first_change(tagger, 6) == 6
    tagger.save_pretrained(tmp_path / "tagger")
    assert first_change(AutoModelForTokenClassification.from_pretrained(tmp_path / "tagger").eval(), 6) == 6
    assert left_to_right(model) is model


def test_an_encoder_decoder_of_it_reads_its_source_on_both_sides() -> None:
    made = FAMILIES["bert"].assemble(one_sided(), cased_tokenizer(), 1)
    assert not made.config.encoder.is_decoder and made.config.decoder.is_decoder and made.config.decoder.use_cache
    ids = torch.arange(10, 20)[None]
    other = ids.clone()
    other[0, 6] = 60
    with torch.no_grad():
        states = [family_of(made).encoder_states(made, input_ids=each)[0] for each in (ids, other)]
    assert (states[0] - states[1]).abs().amax(-1).gt(1e-6).all()


def test_every_token_and_the_end_is_predicted_from_those_before(tmp_path: Path) -> None:
    model = one_sided()
    trained = objective(model, tmp_path)
    batch = trained.batch(np.arange(8), 0)
    for tokens, labels in zip(batch.input_ids.tolist(), batch.labels.tolist(), strict=True):
        length = tokens.index(SEP) + 1
        assert tokens[0] == CLS and labels[: length - 1] == tokens[1:length]
        assert set(labels[length - 1 :]) == {IGNORED}
    logits = model(batch.input_ids, attention_mask=batch.attention_mask).logits
    theirs = cross_entropy(
        logits[:, :-1].flatten(0, 1),
        torch.where(batch.attention_mask.bool(), batch.input_ids, IGNORED)[:, 1:].flatten(),
        ignore_index=IGNORED,
    )
    torch.testing.assert_close(trained.loss(0.0)(batch)["loss"] / batch.counts["loss"], theirs, rtol=1e-5, atol=1e-6)


def test_it_reads_packed_documents_and_trains_generators(tmp_path: Path) -> None:
    trained = objective(one_sided(), tmp_path, input="doc-sentences")
    view, tokenizer = trained.view("decoder"), cased_tokenizer()
    assert view.causal
    simulator = Simulator(view, tokenizer, ResegmentationSettings(merge_rate=0.5, split_rate=0.5), 10, 1, 40)
    batch = simulator.batch(np.arange(4), 0)
    assert batch.predicted is batch.resegmented and batch.counts["prediction"] > 0
    assert (trained.lengths <= 30).all() and trained.lengths.mean() > 20


def test_an_encoder_that_sees_later_tokens_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the tokens of this bert model see later ones"):
        objective(bert(), tmp_path)
