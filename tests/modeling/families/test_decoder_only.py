"""GPT-2 and Llama: built, saved, and given another vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from subgraft.config.models import GPT2Settings, LlamaSettings
from subgraft.embeddings.transplanting.transplant import Method
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import family_named
from subgraft.modeling.sides import side, side_names, stack_states
from subgraft.pipeline.compute.transfer import transfer
from subgraft.subwords.vocabulary.alignment import align
from toys import fitted_tokenizer, generated, german, german_tokenizer, gpt2, llama

BUILDS = [gpt2, llama, lambda: llama(tied=True)]
WIDTHS: dict[str, Any] = {"d_model": 24, "layers": 2, "attention_heads": 4, "ffn_dim": 40, "max_positions": 32}


@pytest.mark.parametrize("settings", [GPT2Settings(**WIDTHS), LlamaSettings(**WIDTHS, key_value_heads=2)])
def test_weights_follow_the_seed_and_sizes_the_settings(settings: GPT2Settings | LlamaSettings) -> None:
    tokenizer, family = german_tokenizer(), family_named(settings.family)
    first, again, other = (family.build(settings, tokenizer, tokenizer, seed) for seed in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    table = side(first, "decoder").input.weight
    assert table.shape == (len(tokenizer), 24) and not torch.equal(table, side(other, "decoder").input.weight)
    assert side_names(first) == ("decoder",)
    config = first.config.to_dict()
    assert family.position_limit(config) == 32 and family.layers(config, "decoder") == 2
    ids = (first.config.bos_token_id, first.config.eos_token_id, first.config.pad_token_id)
    assert ids == tuple(tokenizer.special[role] for role in ("bos", "eos", "pad"))


def test_a_llama_is_tied_where_its_settings_say_so() -> None:
    assert side(llama(tied=True), "decoder").tied
    assert not side(llama(), "decoder").tied


@pytest.mark.parametrize("build", BUILDS)
def test_no_token_sees_a_later_one_and_states_are_what_is_projected(build: Callable[[], PreTrainedModel]) -> None:
    model = build()
    ids, other = torch.tensor([[2, 30, 31, 32]]), torch.tensor([[2, 30, 31, 40]])
    states = stack_states(model, input_ids=ids)
    assert torch.equal(states[:, :3], stack_states(model, input_ids=other)[:, :3])
    decoder = side(model, "decoder")
    assert decoder.output is not None
    assert torch.equal(decoder.output(states), model(ids).logits)
    embedded = decoder.input(ids)
    assert torch.equal(stack_states(model, inputs_embeds=embedded), states)
    assert not torch.equal(stack_states(model, input_ids=ids, layer=1), states)


@pytest.mark.parametrize("method", ["mean", "avg", "random-matched"])
@pytest.mark.parametrize("build", BUILDS)
def test_seen_tokens_have_the_logits_they_had(
    build: Callable[[], PreTrainedModel], method: str, tmp_path: Path
) -> None:
    old, new, model = german_tokenizer(), fitted_tokenizer(), build()
    Bundle(model, old, old).save(tmp_path / "old")
    transfer(tmp_path / "old", {"decoder": new}, Method(method), tmp_path / "new")
    fitted = Bundle.load(tmp_path / "new")
    assert fitted.decoder.fingerprint == new.fingerprint and fitted.max_positions == 40
    assert side(fitted.model, "decoder").tied == side(model, "decoder").tied
    assert fitted.model.config.vocab_size == len(new)
    origins = torch.from_numpy(align(old, new).origins)
    seen = (origins >= 0).nonzero().flatten()
    assert len(seen) > 40
    # One text of seen tokens, in the ids of either vocabulary.
    chosen = seen[torch.randperm(len(seen), generator=torch.Generator().manual_seed(1))[:12]][None]
    before, after = model(origins[chosen]).logits, fitted.model(chosen).logits
    torch.testing.assert_close(after[..., seen], before[..., origins[seen]], rtol=0, atol=1e-6)
    standard = AutoModelForCausalLM.from_pretrained(tmp_path / "new").eval()
    assert torch.equal(standard(chosen).logits, fitted.model(chosen).logits), "transformers alone reads it"


@pytest.mark.parametrize("build", BUILDS)
def test_a_fitted_one_is_trained_and_generates(build: Callable[[], PreTrainedModel], tmp_path: Path) -> None:
    old, new = german_tokenizer(), fitted_tokenizer()
    Bundle(build(), old, old).save(tmp_path / "old")
    transfer(tmp_path / "old", {"decoder": new}, Method("mean"), tmp_path / "new")
    model = Bundle.load(tmp_path / "new").model
    special = new.special
    assert (model.config.bos_token_id, model.config.eos_token_id) == (special["bos"], special["eos"])
    ids = torch.tensor([[special["bos"], *new.encode(german(1)[0]), special["eos"]]])
    model.train()
    model(ids, labels=ids).loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    model.eval()
    made = generated(model, ids[:, :3], attention_mask=torch.ones(1, 3), max_new_tokens=4, do_sample=False)
    assert torch.equal(made[:, :3], ids[:, :3]) and made.max() < len(new)
