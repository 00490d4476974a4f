"""What must be so of every way of conditioning a language model."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from sourced import VOCABULARY, language_model, settings, some_features, trained_a_little
from subgraft.base.errors import UserError
from subgraft.contrib.conditioning.attention import blocks
from subgraft.contrib.conditioning.conditional_model import ConditionalModel, conditioned
from subgraft.modeling.conditioning.variants.registry import VariantName

NAMES: tuple[VariantName, ...] = get_args(VariantName)
FROZEN = ("simple-fusion", "representation")
# Those whose model without a source is the language model; a fusion is where it has learnt nothing yet.
PLAIN = ("pseudo-self", "context-attention", "cross-attention", "prepend", "simple-fusion")
FAMILIES = [("gpt2", name) for name in NAMES] + [
    ("llama", name) for name in NAMES if name not in ("context-attention", "cross-attention", "none")
]


def _trained_a_little(family: str, name: str) -> ConditionalModel:
    return trained_a_little(conditioned(language_model(family), settings(name), seed=1))


def _logits(model: ConditionalModel, ids: Tensor, features: Tensor, mask: Tensor) -> Tensor:
    with torch.no_grad():
        logits: Tensor = model(input_ids=features, attention_mask=mask, decoder_input_ids=ids).logits
    return logits


def _ids(length: int = 6) -> Tensor:
    return torch.randint(3, VOCABULARY, (3, length), generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize(("family", "name"), [(family, name) for family, name in FAMILIES if name in PLAIN])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_without_a_source_it_is_the_language_model(family: str, name: str, attention: str) -> None:
    model = conditioned(language_model(family), settings(name), seed=1)
    model.set_attn_implementation(attention)
    if name in ("context-attention", "cross-attention"):
        with torch.no_grad():  # biases, which would be added to nothing
            for block in blocks(model):
                block.crossattention.c_proj.bias.normal_()
    features, mask = some_features()
    plain = language_model(family)
    plain.set_attn_implementation(attention)
    with torch.no_grad():
        expected = plain(input_ids=_ids()).logits
    assert (_logits(model, _ids(), features, torch.zeros_like(mask)) - expected).abs().max() < 1e-5
    difference = (_logits(model, _ids(), features, mask) - expected).abs().amax((1, 2))
    assert (difference > 1e-3).all() == (name != "simple-fusion")


@pytest.mark.parametrize(("family", "name"), FAMILIES)
def test_what_a_mask_hides_is_read_by_nobody(family: str, name: str) -> None:
    model, (features, mask) = _trained_a_little(family, name), some_features()
    other = features.where(mask[..., None] == 1, torch.full_like(features, 9.0))
    assert torch.allclose(_logits(model, _ids(), features, mask), _logits(model, _ids(), other, mask), atol=1e-5)
    alone = _logits(model, _ids()[1:2], features[1:2, :2], mask[1:2, :2])
    assert torch.allclose(_logits(model, _ids(), features, mask)[1:2], alone, atol=1e-5)


@pytest.mark.parametrize(("family", "name"), FAMILIES)
def test_the_order_of_a_source_counts_where_it_is_prepended_alone(family: str, name: str) -> None:
    model, (features, mask) = _trained_a_little(family, name), some_features()
    order = torch.tensor([2, 0, 3, 1])
    here, there = features[:1], features[:1, order]
    moved = (_logits(model, _ids()[:1], here, mask[:1]) - _logits(model, _ids()[:1], there, mask[:1])).abs().max()
    assert moved > 1e-3 if name == "prepend" else moved < 1e-5


@pytest.mark.parametrize(("family", "name"), FAMILIES)
def test_no_token_is_seen_before_its_place_and_the_source_everywhere(family: str, name: str) -> None:
    model, (features, mask) = _trained_a_little(family, name), some_features()
    before = _logits(model, _ids(), features, mask)
    changed = _ids()
    changed[:, 3] = (changed[:, 3] + 1) % VOCABULARY
    after = _logits(model, changed, features, mask)
    assert torch.equal(before[:, :3], after[:, :3]) or (before[:, :3] - after[:, :3]).abs().max() < 1e-6
    assert ((before[:, 3:] - after[:, 3:]).abs().amax(2) > 1e-4).all()
    elsewhere = _logits(model, _ids(), features + 1.0 + features.flip(0), mask)
    assert ((before - elsewhere).abs().amax(2) > 1e-4).all()


@pytest.mark.parametrize(("family", "name"), FAMILIES)
@pytest.mark.parametrize("beams", [1, 3])
def test_a_cache_does_not_change_the_generated_text(family: str, name: str, beams: int) -> None:
    model, (features, mask) = _trained_a_little(family, name), some_features()
    generate: Any = model.generate  # type: ignore[misc]
    inputs = {"input_ids": features, "attention_mask": mask, "max_length": 12, "num_beams": beams, "do_sample": False}
    selected = generate(**inputs, return_dict_in_generate=True, output_scores=True)
    fresh = generate(**inputs, return_dict_in_generate=True, output_scores=True, use_cache=False)
    assert torch.equal(selected.sequences, fresh.sequences)
    if beams > 1:
        assert torch.allclose(selected.sequences_scores, fresh.sequences_scores, atol=1e-5)
        return
    ids = torch.zeros(len(features), 1, dtype=torch.long)
    ended = torch.zeros(len(features), dtype=torch.bool)
    while ids.shape[1] < selected.sequences.shape[1]:
        best = _logits(model, ids, features, mask)[:, -1].argmax(-1).where(~ended, torch.tensor(2))
        ids, ended = torch.cat([ids, best[:, None]], 1), ended | (best == 1)
    assert torch.equal(selected.sequences, ids)


@pytest.mark.parametrize(("family", "name"), FAMILIES)
def test_frozen_models_stay_and_others_learn(family: str, name: str) -> None:
    model, (features, mask) = conditioned(language_model(family), settings(name), seed=1), some_features()
    before = {key: value.clone() for key, value in model.language_model.state_dict().items()}
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.02)
    losses = []
    for _ in range(24):
        logits = model(input_ids=features, attention_mask=mask, decoder_input_ids=_ids()[:, :-1]).logits
        loss = cross_entropy(logits.flatten(0, 1), _ids()[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
    same = [torch.equal(value, before[key]) for key, value in model.language_model.state_dict().items()]
    assert all(same) if name in FROZEN else not any(same[:3])


@pytest.mark.parametrize(("family", "name"), FAMILIES)
def test_saved_and_loaded_it_says_the_same(family: str, name: str, tmp_path: Path) -> None:
    model, (features, mask) = _trained_a_little(family, name), some_features()
    model.save_pretrained(tmp_path)
    loaded = ConditionalModel.from_pretrained(tmp_path).eval()
    assert torch.equal(_logits(loaded, _ids(), features, mask), _logits(model, _ids(), features, mask))
    trained = {key for key, p in model.named_parameters() if p.requires_grad}
    assert {key for key, p in loaded.named_parameters() if p.requires_grad} == trained


@pytest.mark.parametrize("name", NAMES)
def test_what_is_new_follows_the_seed(name: str) -> None:
    first, again, other = (conditioned(language_model(), settings(name), seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[key], again[key]) for key in first)
    old = language_model().state_dict()
    selected = [torch.equal(first[f"language_model.{key}"], old[key]) for key in old]
    assert all(selected) if name != "none" else not all(selected)
    assert not torch.equal(first["source.read.weight"], other["source.read.weight"])


def test_a_family_without_a_place_for_it_is_refused() -> None:
    for name in ("context-attention", "cross-attention", "none"):
        with pytest.raises(UserError, match="does not support attention to a source"):
            conditioned(language_model("llama"), settings(name), seed=1)


def test_activations_are_not_computed_again() -> None:
    with pytest.raises(UserError, match="would lose the source"):
        conditioned(language_model(), settings("pseudo-self"), seed=1).gradient_checkpointing_enable()


def test_text_and_classes_are_sources_too() -> None:
    text = {"kind": "text", "vocabulary": 30, "layers": 1, "attention_heads": 2, "dropout": 0.0}
    for source, inputs in (
        (text, torch.randint(0, 30, (3, 4))),
        ({"kind": "class", "classes": ["bad", "good"], "vectors": 3}, torch.tensor([[0], [1], [1]])),
    ):
        model = conditioned(language_model(), settings("pseudo-self", **source), seed=1)
        mask = torch.ones_like(inputs)
        generate: Any = model.generate  # type: ignore[misc]
        written = generate(input_ids=inputs, attention_mask=mask, max_length=8, num_beams=2, do_sample=False)
        assert written.shape[0] == 3
        other = _logits(model, _ids(), inputs.roll(1, 0), mask)
        assert not torch.allclose(_logits(model, _ids(), inputs, mask), other, atol=1e-4)


def test_zero_shot_a_text_before_the_target_is_one_text_to_the_language_model() -> None:
    plain, model = language_model(), conditioned(language_model(), settings("prepend", kind="own-text"), seed=1)
    source, ids = torch.randint(3, VOCABULARY, (3, 4)), _ids()
    with torch.no_grad():
        expected = plain(input_ids=torch.cat([source, ids], 1)).logits[:, 4:]
    assert torch.allclose(_logits(model, ids, source, torch.ones_like(source)), expected, atol=1e-5)
    assert model.num_parameters() == plain.num_parameters()
