"""A BERT with narrow embeddings, which is an ELECTRA's generator: its numbers, its loss, and models made from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from small_experiments import TINY, finish, written
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.models import BertSettings
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import FAMILIES, as_both_sides, count_parameters
from subgraft.modeling.load import load_model
from subgraft.modeling.sides import side
from subgraft.training.objectives.compute.masked import MaskedSentences
from subgraft.training.objectives.compute.single_stack import StackLoss
from subgraft.training.objectives.masked import MaskedSettings
from toys import SHAPE, cased_tokenizer, english, one_stack

WIDTH = 8
SETTINGS = BertSettings(**one_stack(SHAPE, "encoder_layers"), embedding_width=WIDTH)


def electra() -> PreTrainedModel:
    tokenizer = cased_tokenizer()
    model = FAMILIES["electra"].build(SETTINGS, tokenizer, tokenizer, 1)
    with torch.no_grad():
        model.generator_lm_head.bias.copy_(torch.linspace(-0.5, 0.5, len(tokenizer)))  # type: ignore[union-attr,operator]
    return model.eval()  # type: ignore[no-any-return]


def _batch() -> Any:
    return MaskedSentences(english(12), cased_tokenizer(), MaskedSettings(), 40, seed=1).batch(np.arange(6), 0)


def test_an_encoder_decoder_of_it_is_counted_as_it_is() -> None:
    model = electra()
    made = FAMILIES["electra"].assemble(model, cased_tokenizer(), 3)
    for config in (made.config.to_dict(), as_both_sides(model.config.to_dict())):
        assert count_parameters(config).total == made.num_parameters()


def test_the_loss_here_is_the_models_own_after_saving_and_loading(tmp_path: Path) -> None:
    model, batch = electra(), _batch()
    model.save_pretrained(tmp_path)
    again = load_model(tmp_path)
    result = StackLoss(again)(batch)["loss"]
    own = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask, labels=batch.labels).loss
    torch.testing.assert_close(result, own * batch.counts["loss"], rtol=1e-5, atol=1e-4)
    torch.autograd.backward(result)
    assert all(each.grad is not None for _, each in again.named_parameters())
    assert side(again, "decoder").tied


def test_both_sides_start_from_it_and_rows_may_be_given_in_place_of_ids() -> None:
    source, batch = electra(), _batch()
    made: Any = FAMILIES["electra"].assemble(source, cased_tokenizer(), 3)
    known = source.state_dict()
    assert all(torch.equal(tensor, known[f"electra.{name}"]) for name, tensor in made.encoder.state_dict().items())
    ids, mask = batch.input_ids, batch.attention_mask
    embedded = side(made, "encoder").input(ids)
    with torch.no_grad():
        by_ids = made(input_ids=ids, attention_mask=mask, decoder_input_ids=ids).logits
        decoded = made(inputs_embeds=embedded, attention_mask=mask, decoder_input_ids=ids).logits
    torch.testing.assert_close(by_ids, decoded)


@pytest.mark.slow
def test_it_is_pretrained_assembled_given_generated_rows_and_finetuned(tmp_path: Path) -> None:
    settings = (
        "model={family: bert, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16, embedding_width: 8}",
        "upstream.objectives=[{kind: masked}]",
        "upstream.vocabulary={kind: wordpiece, size: 100}",
        "downstream.vocabulary={kind: wordpiece, size: 120}",
        "pretrain.epochs=4",
        "pretrain.target_sampling={kind: nearest, neighbours: 5, rebuild_every: 7}",
        "generator_training={max_steps: 4, batch_size: 400, precision: fp32}",
        "systems=[{name: plain, vocabulary: upstream}, {name: patt+kd, initialiser: patt, kd_weight: 0.5}]",
    )
    pipeline, store = finish(written(tmp_path, TINY), *settings)
    assert Bundle.load(store.path(pipeline.models.pretrained)).model.config.model_type == "electra"
    for system in pipeline.systems:
        model = Bundle.load(store.path(system.finetune)).model
        assert side(model, "decoder").input.weight.shape[1] == WIDTH
        assert count_parameters(model.config.to_dict()).total == model.num_parameters()
    assert store.find(pipeline.report) is not None


def test_what_is_not_narrower_is_refused(tmp_path: Path) -> None:
    model = "model={family: bert, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16, embedding_width: 32}"
    with pytest.raises(UserError, match="embedding_width 32 is not less than d_model 16"):
        load(written(tmp_path, TINY), Experiment, [model, "upstream.objectives=[{kind: masked}]"])
