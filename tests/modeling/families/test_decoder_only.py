"""GPT-2 and Llama: built, saved, and given another vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from subgraft.embeddings.transplanting.transplant import Method
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import side, stack_states
from subgraft.pipeline.compute.transfer import transfer
from toys import fitted_tokenizer, generated, german, german_tokenizer, gpt2, llama

BUILDS = [gpt2, llama, lambda: llama(tied=True)]


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


@pytest.mark.parametrize("build", BUILDS)
def test_a_fitted_one_is_trained_and_generates(build: Callable[[], PreTrainedModel], tmp_path: Path) -> None:
    old, new = german_tokenizer(), fitted_tokenizer()
    Bundle(build(), old, old).save(tmp_path / "old")
    transfer(tmp_path / "old", {"decoder": new}, Method("mean"), tmp_path / "new")
    fitted = Bundle.load(tmp_path / "new")
    assert fitted.decoder.fingerprint == new.fingerprint and fitted.max_positions == 40
    model = fitted.model
    special = new.special
    assert (model.config.bos_token_id, model.config.eos_token_id) == (special["bos"], special["eos"])
    ids = torch.tensor([[special["bos"], *new.encode(german(1)[0]), special["eos"]]])
    model.train()
    model(ids, labels=ids).loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    model.eval()
    made = generated(model, ids[:, :3], attention_mask=torch.ones(1, 3), max_new_tokens=4, do_sample=False)
    assert torch.equal(made[:, :3], ids[:, :3]) and made.max() < len(new)
