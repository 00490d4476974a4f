"""Tsinghua's ERNIE: its aggregator against a reference, and what transformers reads of it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoModelForMaskedLM, BertForMaskedLM

from entities import knowledgeable, names, table
from subgraft.base.errors import UserError
from subgraft.contrib.ernie_thu.entity_table import EntityTable
from subgraft.contrib.ernie_thu.knowledgeable import KnowledgeableLayer, text_part
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.transformers import export_transformers
from subgraft.modeling.families import FAMILIES, NO_ENTITY, as_both_sides, count_parameters
from subgraft.modeling.heads import head_parameters, with_head
from subgraft.modeling.load import load_model
from subgraft.modeling.sides import stack_states
from toys import cased_tokenizer

IDS = torch.randint(5, 90, (3, 9), generator=torch.Generator().manual_seed(2))


def _entities() -> torch.Tensor:
    """Two in the first text, one in the second, none in the third."""
    ids = torch.full_like(IDS, NO_ENTITY)
    ids[0, 2], ids[0, 5], ids[1, 1] = 3, 1, 6
    return ids


def _bundle(**sizes: Any) -> Bundle:
    return Bundle(knowledgeable(**sizes), cased_tokenizer(), cased_tokenizer())


def _norm(x: np.ndarray, module: torch.nn.LayerNorm) -> np.ndarray:
    weight, bias = (each.detach().double().numpy() for each in (module.weight, module.bias))
    scaled = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + module.eps)
    return scaled * weight + bias  # type: ignore[no-any-return]


def _linear(x: np.ndarray, module: torch.nn.Linear) -> np.ndarray:
    bias = 0.0 if module.bias is None else module.bias.detach().double().numpy()
    return x @ module.weight.detach().double().numpy().T + bias  # type: ignore[no-any-return]


def _attention(x: np.ndarray, module: Any, heads: int) -> np.ndarray:
    """Multi-head attention of one sequence [n, d] with its residual, in float64."""
    query, key, value = (_linear(x, getattr(module.self, name)) for name in ("query", "key", "value"))
    size = x.shape[1] // heads
    outputs = []
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        scores = query[:, part] @ key[:, part].T / math.sqrt(size)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        outputs.append(weights / weights.sum(axis=1, keepdims=True) @ value[:, part])
    return _norm(_linear(np.concatenate(outputs, axis=1), module.output.dense) + x, module.output.LayerNorm)


def _gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0)))  # type: ignore[no-any-return]


def test_the_aggregator_is_that_of_the_paper() -> None:
    """Equations 4 to 6 of a layer, with residuals and norms as in the authors' code, in float64 numpy."""
    encoder = knowledgeable().bert.encoder
    layer: Any = encoder.layer[1]
    tokens = torch.randn(3, 9, 16, generator=torch.Generator().manual_seed(1))
    read = encoder.embed(_entities())
    with torch.no_grad():
        of_tokens, of_entities = layer(tokens, None, read)
    for row, (places, ids) in enumerate((([2, 5], [3, 1]), ([1], [6]), ([], []))):
        attended = _attention(tokens[row].double().numpy(), layer.attention, 2)
        inner = _linear(attended, layer.intermediate.dense)
        if places:
            vectors = _attention(table().vectors[ids].double().numpy(), layer.entity_attention, 2)
            inner[places] += _linear(vectors, layer.entity_inner)
        inner = _gelu(inner)
        expected = _norm(_linear(inner, layer.output.dense) + attended, layer.output.LayerNorm)
        np.testing.assert_allclose(of_tokens[row].numpy(), expected, rtol=1e-4, atol=1e-5)
        if places:
            written = _norm(_linear(inner[places], layer.entity_output) + vectors, layer.entity_norm)
            np.testing.assert_allclose(of_entities[row, : len(places)].numpy(), written, rtol=1e-4, atol=1e-5)


def test_text_without_entities_is_read_as_by_the_bert_of_all_layers() -> None:
    model = knowledgeable()
    text: Any = text_part(model)
    assert type(text) is BertForMaskedLM and text.config.num_hidden_layers == 3
    whole = text(input_ids=IDS).logits
    assert torch.equal(whole, model(input_ids=IDS).logits)
    read = model(input_ids=IDS, entity_ids=_entities()).logits
    torch.testing.assert_close(read[2], whole[2])
    assert (read[:2] - whole[:2]).abs().amax(dim=(1, 2)).min() > 1e-3


def test_padding_and_the_other_texts_of_a_batch_change_nothing() -> None:
    model, ids = knowledgeable(), _entities()
    together = stack_states(model, input_ids=IDS, attention_mask=torch.ones_like(IDS), entity_ids=ids)
    alone = stack_states(model, input_ids=IDS[1:2], entity_ids=ids[1:2])
    torch.testing.assert_close(together[1:2], alone)
    padded = torch.nn.functional.pad(IDS, (0, 3)), torch.nn.functional.pad(ids, (0, 3), value=NO_ENTITY)
    mask = torch.nn.functional.pad(torch.ones_like(IDS), (0, 3))
    longer = stack_states(model, input_ids=padded[0], attention_mask=mask, entity_ids=padded[1])
    torch.testing.assert_close(longer[:, :9], together)


def test_layers_are_recorded_and_computed_again() -> None:
    model = knowledgeable()
    states = model(input_ids=IDS, entity_ids=_entities(), output_hidden_states=True).hidden_states
    assert [each.shape for each in states] == [(3, 9, 16)] * 4
    torch.testing.assert_close(stack_states(model, layer=3, input_ids=IDS, entity_ids=_entities()), states[3])

    def gradients() -> list[torch.Tensor]:
        model.zero_grad()
        model.train()
        model(input_ids=IDS, entity_ids=_entities()).logits.square().sum().backward()
        return [each.grad.clone() for each in model.parameters() if each.grad is not None]

    plain = gradients()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    assert isinstance(model.bert.encoder.layer[1], KnowledgeableLayer)
    for one, two in zip(plain, gradients(), strict=True):
        torch.testing.assert_close(one, two)


def test_it_is_saved_and_loaded_with_its_entities_and_counted(tmp_path: Path) -> None:
    bundle = _bundle()
    bundle.save(tmp_path)
    again = Bundle.load(tmp_path).model
    own, loaded = (model(input_ids=IDS, entity_ids=_entities()).logits for model in (bundle.model, again))
    assert torch.equal(own, loaded)
    entities = EntityTable.of(again)
    assert tuple(entities.names) == names() and torch.equal(entities.vectors, table().vectors)
    assert count_parameters(again.config.to_dict()).total == again.num_parameters()
    halved = load_model(tmp_path, torch.bfloat16)
    assert tuple(EntityTable.of(halved).names) == names()


def test_transformers_loads_its_text_part(tmp_path: Path) -> None:
    bundle = _bundle()
    bundle.save(tmp_path / "model")
    expected = bundle.model(input_ids=IDS).logits
    direct = BertForMaskedLM.from_pretrained(tmp_path / "model")
    assert torch.equal(direct(input_ids=IDS).logits, expected)
    for name in ("export", "classifier"):
        (tmp_path / name).mkdir()
    loading = export_transformers(tmp_path / "model", tmp_path / "export")
    assert (loading.model_class, loading.model_code) == ("AutoModelForMaskedLM", False)
    exported = AutoModelForMaskedLM.from_pretrained(tmp_path / "export", trust_remote_code=False)
    assert torch.equal(exported(input_ids=IDS).logits, expected)
    headed = Bundle(with_head(bundle.model, "sequence", 3, 1), bundle.encoder, bundle.decoder)
    headed.save(tmp_path / "headed")
    assert export_transformers(tmp_path / "headed", tmp_path / "classifier").model_class.endswith("Classification")


def test_a_head_reads_entities_and_retains_the_body(tmp_path: Path) -> None:
    model = knowledgeable()
    body = {name: each.clone() for name, each in model.bert.state_dict().items()}
    headed: Any = with_head(model, "sequence", ["no", "yes", "both"], 1)
    assert all(torch.equal(each, headed.bert.state_dict()[name]) for name, each in body.items())
    assert {id(each) for each in head_parameters(headed)} == {
        id(each) for name, each in headed.named_parameters() if "pooler" in name or "classifier" in name
    }
    plain, read = (headed(input_ids=IDS, **more).logits for more in ({}, {"entity_ids": _entities()}))
    torch.testing.assert_close(plain[2], read[2])
    assert not torch.allclose(plain[0], read[0])
    assert count_parameters(headed.config.to_dict()).total == headed.num_parameters()
    Bundle(headed, cased_tokenizer(), cased_tokenizer()).save(tmp_path)
    assert torch.equal(Bundle.load(tmp_path).model(input_ids=IDS, entity_ids=_entities()).logits, read)


def test_an_encoder_decoder_is_made_of_its_text_part() -> None:
    model = knowledgeable()
    made: Any = FAMILIES["knowledgeable"].assemble(model, cased_tokenizer(), 3)
    text = text_part(model).state_dict()
    assert all(torch.equal(each, text[f"bert.{name}"]) for name, each in made.encoder.state_dict().items())
    counted = count_parameters(as_both_sides(model.config.to_dict()))
    assert counted.total == count_parameters(made.config.to_dict()).total == made.num_parameters()


def test_embeddings_of_entities_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"model\.entity_width: embeddings of entities have 3 dimensions, the model's 8"
    ):
        EntityTable(("a",), torch.zeros(1, 3)).into(knowledgeable())
    table().save(tmp_path)
    assert EntityTable.load(tmp_path).ids == table().ids
    (tmp_path / "entities.txt").write_text("one\n")
    with pytest.raises(UserError, match=r"1 names of \d+ embeddings"):
        EntityTable.load(tmp_path)
    save_file({"other": torch.zeros(1, 3)}, tmp_path / "entities.safetensors")
    with pytest.raises(UserError, match="no tensor `entities`"):
        EntityTable.load(tmp_path)
    save_file({"entities": torch.full((2, 3), float("nan"))}, tmp_path / "entities.safetensors")
    (tmp_path / "entities.txt").write_text("one\ntwo\n")
    with pytest.raises(UserError, match="NaN or infinity"):
        EntityTable.load(tmp_path)
    with pytest.raises(UserError, match=r"no entities\.safetensors here"):
        EntityTable.load(tmp_path / "none")
