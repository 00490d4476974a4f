"""mBART with embeddings that are narrower than its hidden states: what it computes, counts, keeps, and is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from finished import bundle_of
from small_experiments import TINY, finish, written
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.models import MBartSettings
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import FAMILIES, config_dict, count_parameters
from subgraft.modeling.load import load_model
from subgraft.modeling.sides import replace_tables, shares_table, side
from subgraft.training.objectives.compute.denoising import Denoising
from subgraft.training.objectives.compute.seq2seq import Seq2SeqData, Seq2SeqLoss
from subgraft.training.objectives.denoising import DenoisingSettings
from toys import SHAPE, fitted_tokenizer, generated, german, mbart_blocks, multilingual_tokenizer, output_bias
from transformers_outputs import SOURCE_MASK, SOURCES, TARGETS, check_remote_code, logits_of_targets

WIDTH = 8
SETTINGS = MBartSettings(**SHAPE, embedding_width=WIDTH)


def factorised() -> PreTrainedModel:
    tokenizer = multilingual_tokenizer()
    model = FAMILIES["factorised_mbart"].build(SETTINGS, tokenizer, tokenizer, 1)
    bias = output_bias(model)
    bias.copy_(torch.linspace(-0.5, 0.5, bias.numel()))
    return model.eval()  # type: ignore[no-any-return]


def apart() -> PreTrainedModel:
    """Its decoder has a vocabulary of its own."""
    both = multilingual_tokenizer()
    made = transplant(factorised(), {"encoder": both, "decoder": both}, {"decoder": fitted_tokenizer()}, Method("mean"))
    return made.model


MODELS = {"shared": factorised, "apart": apart}


@pytest.mark.parametrize("kind", MODELS)
def test_a_saved_directory_gives_the_same_logits_ties_and_count(kind: str, tmp_path: Path) -> None:
    model = MODELS[kind]()
    model.save_pretrained(tmp_path)
    again = load_model(tmp_path)
    assert torch.equal(logits_of_targets(again), logits_of_targets(model))
    assert shares_table(again) == shares_table(model) == (kind == "shared")
    decoder, inner = side(again, "decoder"), again.model
    assert decoder.tied and decoder.output is not None and decoder.output.weight is decoder.input.weight
    projections = {id(each.embed_projection.weight) for each in (inner.encoder, inner.decoder, decoder.output)}  # type: ignore[union-attr]
    assert len(projections) == 1
    assert decoder.input.weight.shape == (logits_of_targets(model).shape[-1], WIDTH)
    counted = count_parameters(again.config.to_dict())
    assert counted.total == again.num_parameters()


def test_half_the_width_is_half_the_table_and_a_projection() -> None:
    narrow, wide = (config_dict(each, 90, 90) for each in (SETTINGS, MBartSettings(**SHAPE)))
    saved = count_parameters(wide).total - count_parameters(narrow).total
    assert saved == 90 * (SHAPE["d_model"] - WIDTH) - WIDTH * SHAPE["d_model"]


@pytest.mark.parametrize("kind", MODELS)
def test_the_directory_loads_without_this_package_where_remote_code_is_allowed(kind: str, tmp_path: Path) -> None:
    check_remote_code(MODELS[kind](), tmp_path)


@pytest.mark.parametrize("kind", MODELS)
def test_rows_given_in_place_of_ids_and_a_search_with_and_without_cache_agree(kind: str) -> None:
    model = MODELS[kind]()
    encoder, decoder = (getattr(model.model, name).embed_tokens for name in ("encoder", "decoder"))
    by_rows = model(
        inputs_embeds=encoder(SOURCES), attention_mask=SOURCE_MASK, decoder_inputs_embeds=decoder(TARGETS)
    ).logits
    torch.testing.assert_close(by_rows, logits_of_targets(model))
    settings: dict[str, Any] = {"num_beams": 3, "max_length": 12, "decoder_start_token_id": 29}
    cached = generated(model, SOURCES, attention_mask=SOURCE_MASK, **settings)
    assert torch.equal(cached, generated(model, SOURCES, attention_mask=SOURCE_MASK, use_cache=False, **settings))


@pytest.mark.parametrize("kind", MODELS)
def test_the_loss_here_is_the_models_own(kind: str) -> None:
    """Through the projection that the family gives, with a gradient for all weights."""
    model, tokenizer = MODELS[kind](), multilingual_tokenizer()
    blocks = Denoising(mbart_blocks(german(20), tokenizer, "de", 24), DenoisingSettings(), 1)
    padding = tokenizer.special["pad"]
    batch = Seq2SeqData(blocks, padding, padding).batch(np.arange(3), 0)
    result = Seq2SeqLoss(model)(batch)["loss"]
    own = model(
        input_ids=batch.input_ids,
        attention_mask=batch.attention_mask,
        decoder_input_ids=batch.decoder_input_ids,
        labels=batch.labels,
    ).loss
    torch.testing.assert_close(result, own * batch.counts["loss"], rtol=1e-5, atol=1e-4)
    torch.autograd.backward(result)
    assert all(each.grad is not None and each.grad.any() for _, each in model.named_parameters())


def test_hidden_states_are_initially_as_large_as_those_of_an_mbart_without_projection() -> None:
    shape = {**SHAPE, "d_model": 64, "attention_heads": 4}
    tokenizer = multilingual_tokenizer()
    ids = torch.from_numpy(tokenizer.ordinary_ids)
    spreads = []
    for settings in (MBartSettings(**shape, embedding_width=32), MBartSettings(**shape)):
        encoder: Any = FAMILIES[settings.model_type].build(settings, tokenizer, tokenizer, 1).get_encoder()
        rows = encoder.embed_tokens(ids)
        spreads.append(float((encoder.embed_projection(rows) if settings.embedding_width else rows).detach().std()))
    assert spreads[0] == pytest.approx(spreads[1], rel=0.1)


def test_a_transfer_carries_rows_and_everything_else(tmp_path: Path) -> None:
    old, made = factorised(), apart()
    before, after = old.state_dict(), made.state_dict()
    for name, tensor in before.items():
        if not name.endswith(("embed_tokens.weight", "lm_head.weight", "final_logits_bias")):
            assert torch.equal(after[name], tensor), name
    assert torch.equal(side(made, "encoder").input.weight, side(old, "encoder").input.weight)
    known, new = (tokenizer.pieces for tokenizer in (multilingual_tokenizer(), fitted_tokenizer()))
    seen = [(known.index(piece), i) for i, piece in enumerate(new) if piece in known]
    assert len(seen) > 20
    ours, theirs = side(made, "decoder").input.weight, side(old, "decoder").input.weight
    assert all(torch.equal(ours[new_id], theirs[old_id]) for old_id, new_id in seen)
    bundle_of(lambda: made, multilingual_tokenizer(), fitted_tokenizer()).save(tmp_path / "model")
    assert torch.equal(logits_of_targets(Bundle.load(tmp_path / "model").model), logits_of_targets(made))


def test_both_sides_keep_sharing_where_they_are_given_one_table() -> None:
    both = multilingual_tokenizer()
    new = {"encoder": fitted_tokenizer(), "decoder": fitted_tokenizer()}
    made = transplant(factorised(), {"encoder": both, "decoder": both}, new, Method("mean"))  # type: ignore[arg-type]
    assert shares_table(made.model) and made.model.config.shared_table
    assert replace_tables(made.model, {}) is not None


@pytest.mark.slow
def test_it_is_pretrained_given_generated_rows_and_finetuned(tmp_path: Path) -> None:
    settings = (
        "model.family=mbart",
        "model.embedding_width=8",
        "upstream.objectives=[{kind: denoising, block_tokens: 40}]",
        "pretrain.epochs=4",
        "pretrain.target_sampling={kind: nearest, neighbours: 5, rebuild_every: 7}",
        "generator_training={max_steps: 4, batch_size: 400, precision: fp32}",
        "systems=[{name: plain, vocabulary: upstream}, {name: patt+kd, initialiser: patt, kd_weight: 0.5}]",
    )
    pipeline, store = finish(written(tmp_path, TINY), *settings)
    for system in pipeline.systems:
        config = Bundle.load(store.path(system.finetune)).model.config
        assert config.model_type == "factorised_mbart"
        assert config.shared_table == (system.system.name == "plain")
    assert store.find(pipeline.report) is not None


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (["model.family=mbart", "model.embedding_width=16"], "embedding_width 16 is not less than d_model 16"),
        (["model.family=marian", "model.embedding_width=8"], "embedding_width"),
    ],
)
def test_what_is_not_narrower_is_refused(changes: list[str], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=complaint):
        load(written(tmp_path, TINY), Experiment, changes)
