"""Heads that transformers lacks: SAN against numpy, a BiLSTM against torch in float64, saving, gradients, features."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn
from transformers import AutoModel, BertForSequenceClassification, PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.config.heads import BilstmSettings, SanSettings
from subgraft.config.settings_base import HeadKind
from subgraft.modeling.exporting.transformers import export_transformers
from subgraft.modeling.families import count_parameters
from subgraft.modeling.heads import head_of, head_parameters, with_head
from subgraft.modeling.load import load_model, save_model
from subgraft.modeling.own_heads import San
from toys import SHAPE, bert, build_bert, cased_tokenizer, gpt2

LABELS = ("a", "b", "c")
SAN = SanSettings(steps=4, step_dropout=0.3)
BILSTM = BilstmSettings(width=6, concatenated_layers=2)


def headed(own: SanSettings | BilstmSettings, kind: HeadKind = "sequence") -> Any:
    layers = {"encoder_layers": 3, "decoder_layers": 3}
    return with_head(build_bert(cased_tokenizer(), seed=1, **{**SHAPE, **layers}).eval(), kind, LABELS, 3, own=own)


def batch(rows: int = 5, longest: int = 11) -> dict[str, Tensor]:
    """Random pairs of texts, padded on the right."""
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(5, 40, (rows, longest), generator=generator)
    lengths = torch.tensor([longest, *torch.randint(6, longest, (rows - 1,), generator=generator).tolist()])
    places = torch.arange(longest)
    mask = (places < lengths[:, None]).long()
    segments = (places >= torch.randint(2, 5, (rows, 1), generator=generator)).long() * mask
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments, "segments": segments}


def states_of(model: PreTrainedModel, inputs: dict[str, Tensor]) -> list[np.ndarray]:
    body = {name: tensor for name, tensor in inputs.items() if name != "segments"}
    with torch.no_grad():
        outputs = model.base_model(**body, output_hidden_states=True)
    return [states.double().numpy() for states in outputs.hidden_states]


def softmax(values: np.ndarray) -> np.ndarray:
    powers = np.exp(values - values.max())
    result: np.ndarray = powers / powers.sum()
    return result


def sigmoid(values: np.ndarray) -> np.ndarray:
    result: np.ndarray = 1 / (1 + np.exp(-values))
    return result


def san_by_hand(weights: dict[str, np.ndarray], tokens: np.ndarray, second: np.ndarray, steps: int) -> np.ndarray:
    """The probabilities of a pair: equations 3 to 5 of Liu et al. (ACL 2019), a row without padding [T, d]."""
    premise, hypothesis = tokens[~second], tokens[second]
    state = softmax(hypothesis @ weights["summary.weight"][0]) @ hypothesis
    total = np.zeros(len(LABELS))
    for _ in range(steps):
        read = softmax(premise @ weights["attention.weight"] @ state) @ premise
        features = np.concatenate([state, read, np.abs(state - read), state * read])
        total += softmax(weights["classifier.weight"] @ features + weights["classifier.bias"])
        gates = [
            weights[f"memory.weight_{part}"] @ value + weights[f"memory.bias_{part}"]
            for part, value in (("ih", read), ("hh", state))
        ]
        (reset, update, new), (own_reset, own_update, own_new) = (np.split(each, 3) for each in gates)
        share = sigmoid(update + own_update)
        state = (1 - share) * np.tanh(new + sigmoid(reset + own_reset) * own_new) + share * state
    return total / steps


def test_a_stochastic_answer_network_is_that_of_the_paper() -> None:
    model, inputs = headed(SAN), batch()
    generator = torch.Generator().manual_seed(1)
    for parameter in model.own_head.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator) / 3
    states = states_of(model, inputs)[-1]
    with torch.no_grad():
        ours = model(**inputs).logits.double().exp().numpy()
    weights = {name: tensor.double().numpy() for name, tensor in model.own_head.state_dict().items()}
    for row, mask in enumerate(inputs["attention_mask"].bool().numpy()):
        second = inputs["segments"][row].bool().numpy()[mask]
        expected = san_by_hand(weights, states[row][mask], second, SAN.steps)
        assert ours[row] == pytest.approx(expected, abs=1e-6) and expected.sum() == pytest.approx(1)


def test_steps_are_left_out_as_often_as_configured_and_never_all_of_them() -> None:
    """χ² over all sets of steps that may remain: one is drawn, each other one remains with probability 1 - p."""
    head, drop = San(SAN, 4, 2, 0.0).train(), SAN.step_dropout
    torch.manual_seed(5)
    sets, counts = np.unique(head.remaining(40_000, torch.device("cpu")).numpy(), axis=0, return_counts=True)
    expected = []
    for remain in sets:
        stays = int(remain.sum())
        # Any of those that remain may be the one that was drawn.
        expected.append(stays / SAN.steps * (1 - drop) ** (stays - 1) * drop ** (SAN.steps - stays))
    assert len(sets) == 2**SAN.steps - 1 and sum(expected) == pytest.approx(1)
    assert stats.chisquare(counts, 40_000 * np.array(expected)).pvalue > 0.001
    assert head.eval().remaining(3, torch.device("cpu")).sum() == 3 * SAN.steps


def test_in_training_the_steps_that_remain_are_averaged() -> None:
    head = San(SanSettings(steps=3, step_dropout=0.6), 4, 2, 0.0).train()
    layers, ones = (torch.randn(64, 7, 4),), torch.ones(64, 7, dtype=torch.long)
    segments = (torch.arange(7) > 2).long().expand(64, 7)
    alone = []
    for step in range(3):
        only = torch.zeros(64, 3)
        only[:, step] = 1
        head.remaining = lambda rows, device, only=only: only  # type: ignore[method-assign, misc]
        alone.append(head(layers, ones, segments).exp())
    del head.remaining
    torch.manual_seed(8)
    remain = head.remaining(64, torch.device("cpu"))
    torch.manual_seed(8)
    mixed = head(layers, ones, segments).exp()
    expected = (torch.stack(alone, 1) * remain[:, :, None]).sum(1) / remain.sum(1, keepdim=True)
    assert torch.allclose(mixed, expected, atol=1e-6) and len({int(each) for each in remain.sum(1)}) == 3
    head(layers, ones, segments).logsumexp(0).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in head.parameters())


@pytest.mark.parametrize("kind", ["sequence", "tokens"])
def test_a_bilstm_reads_the_concatenated_layers_of_each_text_alone(kind: HeadKind) -> None:
    model, inputs = headed(BILSTM, kind), batch()
    states = [torch.from_numpy(each) for each in states_of(model, inputs)[-2:]]
    own = {name: tensor.double() for name, tensor in model.own_head.state_dict().items()}
    reference = nn.LSTM(2 * model.config.hidden_size, 6, 2, batch_first=True, bidirectional=True).double()
    reference.load_state_dict({name.removeprefix("lstm."): own[name] for name in own if name.startswith("lstm.")})
    with torch.no_grad():
        ours = model(**inputs).logits.double()
        for row, length in enumerate(inputs["attention_mask"].sum(1).tolist()):
            read, _ = reference(torch.cat([each[row, :length] for each in states], dim=-1)[None])
            top = read[0] if kind == "tokens" else read[0].amax(0)
            expected = top @ own["classifier.weight"].T + own["classifier.bias"]
            own_logits = ours[row, :length] if kind == "tokens" else ours[row]
            assert torch.allclose(own_logits, expected, atol=1e-6)


@pytest.mark.parametrize(("own", "kind"), [(SAN, "sequence"), (BILSTM, "sequence"), (BILSTM, "tokens")])
def test_a_saved_model_has_the_same_outputs_and_transformers_loads_its_body(
    own: Any, kind: HeadKind, tmp_path: Path
) -> None:
    model, inputs, tokenizer = headed(own, kind), batch(), cased_tokenizer()
    torch.nn.init.normal_(model.own_head.classifier.weight)
    save_model(model, {"encoder": tokenizer, "decoder": tokenizer}, tmp_path)
    loaded = load_model(tmp_path)
    head = head_of(loaded)
    assert type(loaded) is type(model) and head is not None and (head.kind, head.labels) == (kind, LABELS)
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)
    with torch.no_grad():  # MKL's products depend on where weights lie in memory, on some processors
        torch.testing.assert_close(model(**inputs).logits, loaded(**inputs).logits, rtol=1e-5, atol=1e-6)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["subgraft_head"] == own.model_dump()
    assert count_parameters(config).total == sum(parameter.numel() for parameter in loaded.parameters())
    body: Any = AutoModel.from_pretrained(tmp_path)
    for name, tensor in model.base_model.state_dict().items():
        assert torch.equal(body.state_dict()[name], tensor)
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError, match=f"only Subgraft has the head {own.kind}"):
        export_transformers(tmp_path, tmp_path / "out")
    assert not [*(tmp_path / "out").iterdir()]
    # A head of transformers in its place leaves nothing of it.
    again = with_head(loaded, "sequence", LABELS, 4)
    assert type(again) is BertForSequenceClassification and "subgraft_head" not in again.config.to_dict()


def test_the_new_weights_depend_on_the_seed_alone_and_all_get_gradients() -> None:
    models: Any = (with_head(bert(), "sequence", LABELS, seed, own=SAN) for seed in (3, 3, 4))
    one, same, other = models
    for name, parameter in one.own_head.named_parameters():
        assert torch.equal(parameter, same.get_parameter(f"own_head.{name}"))
        assert "bias" in name or not torch.equal(parameter, other.get_parameter(f"own_head.{name}"))
    one.train()
    one(**batch()).logits[:, 0].sum().backward()
    assert all(parameter.grad is not None for parameter in one.parameters()), "no parameter is unused"
    assert {id(p) for p in head_parameters(one)} == {id(p) for p in one.own_head.parameters()}


@pytest.mark.parametrize("own", [SAN, BILSTM])
def test_a_frozen_body_gives_the_same_features_in_training_and_no_gradient(own: Any) -> None:
    model, inputs = headed(own), batch()
    model.base_model.requires_grad_(False)
    before = states_of(model, inputs)[-1]
    model.train()
    assert model.own_head.training and not model.base_model.training
    assert np.array_equal(states_of(model, inputs)[-1], before)
    model(**inputs).logits.sum().backward()
    assert all((parameter.grad is None) != parameter.requires_grad for parameter in model.parameters())
    model.base_model.requires_grad_(True)
    assert model.train().base_model.training


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a gpt2 model cannot have the head san"):
        with_head(gpt2(), "sequence", LABELS, 1, own=SAN, padding_id=0)
    with pytest.raises(UserError, match="the head reads 40 layers, and the model has"):
        headed(BilstmSettings(concatenated_layers=40))
    save_model(headed(SAN), {"encoder": cased_tokenizer(), "decoder": cased_tokenizer()}, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"subgraft_head": {"kind": "other"}}))
    with pytest.raises(UserError, match="none of the heads of Subgraft"):
        load_model(tmp_path)
