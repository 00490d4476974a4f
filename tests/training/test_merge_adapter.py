"""Published LoRA adapters are merged into their model as peft merges them, also where one is named as a model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import published
import subgraft
from subgraft.base.errors import UserError
from subgraft.config.training import AdapterSettings
from subgraft.experiments.steps.inputs import from_checkpoint
from subgraft.interfaces.cli import main
from subgraft.training.adapters import Adapters

MODELS: dict[str, tuple[Callable[[Path], None], str, list[str]]] = {
    "qwen": (lambda at: published.qwen(at, "qwen2"), "AutoModelForCausalLM", ["q_proj", "down_proj"]),
    "gpt2": (published.gpt2, "AutoModelForCausalLM", ["c_attn", "c_fc"]),
    "t5": (published.t5, "AutoModelForSeq2SeqLM", ["q", "v"]),
    "bart": (published.bart, "AutoModelForSeq2SeqLM", ["k_proj", "fc1"]),
}
IDS = torch.tensor([[5, 6, 7, 8], [9, 10, 11, 12]])


def _adapted(name: str, place: Path, **options: Any) -> tuple[Path, Path, torch.Tensor]:
    """A base model, a random adapter of it that peft saved, and the logits that peft computes with both."""
    publish, auto, targets = MODELS[name]
    base, adapter = place / "base", place / "adapter"
    base.mkdir(parents=True)
    publish(base)
    model: Any = getattr(transformers, auto).from_pretrained(base)
    transposed = {"fan_in_fan_out": True} if name == "gpt2" else {}
    config = peft.LoraConfig(
        r=2, lora_alpha=8, target_modules=targets, init_lora_weights=False, **transposed, **options
    )
    torch.manual_seed(1)
    wrapped: Any = peft.get_peft_model(model, config).eval()
    wrapped.save_pretrained(adapter)
    return base, adapter, _logits(wrapped)


def _logits(model: Any) -> torch.Tensor:
    decoder = {"decoder_input_ids": IDS[:, :3]} if model.config.is_encoder_decoder else {}
    with torch.no_grad():
        logits: torch.Tensor = model(input_ids=IDS, **decoder).logits
    return logits


@pytest.mark.parametrize("name", MODELS)
def test_the_merged_model_computes_what_peft_computes(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, adapter, expected = _adapted(name, tmp_path)
    out = tmp_path / "merged"
    assert main(["convert", str(adapter), "--base", str(base), "--out", str(out)]) == 0
    assert "adapted matrices merged" in capsys.readouterr().out
    merged = subgraft.load(out).bundle.model
    tolerance = 0.1 if merged.dtype == torch.bfloat16 else 1e-4  # of logits up to ten, with eight bits
    assert torch.allclose(_logits(merged).float(), expected.float(), atol=tolerance, rtol=tolerance)
    assert not torch.equal(_logits(merged), _logits(subgraft.load(base).bundle.model))
    if name in ("qwen", "gpt2"):
        vocabulary = subgraft.learn_vocabulary(published.english(), size=400, like=out, kind="byte-level-bpe")
        assert len(subgraft.transfer(out, vocabulary).bundle.decoder) == 400


def _change(adapter: Path, **settings: Any) -> None:
    path = adapter / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def _drop_a_weight(adapter: Path) -> None:
    path = adapter / "adapter_model.safetensors"
    weights = load_file(path)
    weights.pop(next(iter(weights)))
    save_file(weights, path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda at: _change(at, peft_type="PREFIX_TUNING"), "only LoRA adapters can be merged"),
        (lambda at: _change(at, megatron_config={"a": 1}), "the setting 'megatron_config'"),
        (lambda at: _change(at, target_modules="(a+)+b"), "expected a list of names"),
        (lambda at: _change(at, target_modules=["absent"]), "does not fit the model"),
        (lambda at: _change(at, r=7), "does not fit the model"),
        (lambda at: _change(at, rank_pattern={"(a+)+b": 2}), "rank_pattern: '(a+)+b' is not the name of a layer"),
        (lambda at: _change(at, alpha_pattern={"a*a*a*b": 2}), "alpha_pattern: 'a*a*a*b' is not the name"),
        (lambda at: _change(at, layers_to_transform=[0], layers_pattern="(.|a)*b"), "layers_pattern: '(.|a)*b'"),
        (
            lambda at: (at / "adapter_model.safetensors").rename(at / "adapter_model.bin"),
            "no adapter_model.safetensors",
        ),
        (lambda at: (at / "adapter_config.json").unlink(), "no adapter_config.json here"),
        (_drop_a_weight, "incomplete"),
    ],
)
def test_what_is_not_a_fitting_lora_is_refused(
    change: Callable[[Path], Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, adapter, _ = _adapted("qwen", tmp_path)
    change(adapter)
    assert main(["convert", str(adapter), "--base", str(base), "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", MODELS)
def test_an_adapter_is_loaded_as_the_model_that_peft_merges(name: str, tmp_path: Path) -> None:
    """Equal to the bit to peft's own result, with the vocabulary and configuration of its base."""
    base, adapter, _ = _adapted(name, tmp_path)
    loaded, alone = subgraft.load(adapter).bundle, subgraft.load(base).bundle
    stock: Any = getattr(transformers, MODELS[name][1]).from_pretrained(base, dtype=alone.model.dtype)
    expected = peft.PeftModel.from_pretrained(stock, str(adapter)).merge_and_unload(safe_merge=True).state_dict()
    tensors = loaded.model.state_dict()
    assert all(torch.equal(tensor, tensors[key]) for key, tensor in expected.items())
    assert any(not torch.equal(tensor, tensors[key]) for key, tensor in alone.model.state_dict().items())
    assert loaded.decoder.fingerprint == alone.decoder.fingerprint
    assert type(loaded.model) is type(alone.model)


def test_commands_take_an_adapter_for_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, adapter, _ = _adapted("gpt2", tmp_path)
    (tmp_path / "text").write_text("\n".join(published.english()))
    vocabulary = subgraft.learn_vocabulary(published.english(), size=400, like=adapter, kind="byte-level-bpe")
    vocabulary.save(tmp_path / "vocabulary")
    model = ("--model", str(adapter))
    transfer = ("transfer", *model, "--vocab", str(tmp_path / "vocabulary"), "--method", "mean")
    assert main([*transfer, "--out", str(tmp_path / "moved")]) == 0
    for tensor in ("transformer.h.0.mlp.c_fc.weight", "transformer.h.0.attn.c_attn.weight"):
        moved = subgraft.load(tmp_path / "moved").bundle.model.state_dict()[tensor]
        assert torch.equal(moved, subgraft.load(adapter).bundle.model.state_dict()[tensor])
        assert not torch.equal(moved, subgraft.load(base).bundle.model.state_dict()[tensor])
    assert main(["advise", str(adapter), "--text", str(tmp_path / "text")]) == 0
    assert main(["generate", *model, "--input", str(tmp_path / "text"), "--max-tokens", "2"]) == 0
    assert main(["convert", str(adapter), "--out", str(tmp_path / "whole")]) == 0
    assert main(["similar", "--vocab", str(adapter), "--token", "Ġhouse"]) == 0
    capsys.readouterr()


def _base_of(adapter: Path, base: object) -> None:
    _change(adapter, base_model_name_or_path=base)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda at: _base_of(at, "./absent"), "a LoRA adapter of ./absent, which cannot be read: no such model"),
        (lambda at: _base_of(at, str(at)), "is an adapter itself"),
        (lambda at: _base_of(at, "/etc"), "not a model directory"),
        (lambda at: _base_of(at, None), "a LoRA adapter"),
        (lambda at: _change(at, peft_type="PREFIX_TUNING"), "a PEFT adapter (PREFIX_TUNING)"),
        (lambda at: _change(at, megatron_config={"a": 1}), "the setting 'megatron_config'"),
        (lambda at: _change(at, r=7), "does not fit the model"),
        (lambda at: (at / "adapter_model.safetensors").rename(at / "adapter_model.bin"), "no adapter_model.safetens"),
        (_drop_a_weight, "incomplete"),
    ],
)
def test_an_adapter_that_cannot_be_merged_is_refused_as_a_model(
    change: Callable[[Path], Any], message: str, tmp_path: Path
) -> None:
    _, adapter, _ = _adapted("gpt2", tmp_path)
    change(adapter)
    with pytest.raises(UserError) as refusal:
        subgraft.load(adapter)
    assert message in str(refusal.value)


def test_adapters_are_trained_on_a_transferred_model(tmp_path: Path) -> None:
    """peft's own, and those of a finetuning: on a model with a new vocabulary they change projections alone."""
    base, _, _ = _adapted("gpt2", tmp_path)
    vocabulary = subgraft.learn_vocabulary(published.english(), size=400, like=base, kind="byte-level-bpe")
    subgraft.transfer(base, vocabulary).save(tmp_path / "moved")
    model = subgraft.load(tmp_path / "moved").bundle.model
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    adapters = Adapters(model, AdapterSettings(rank=2), seed=1)
    trained = [weights for weights in model.parameters() if weights.requires_grad]
    loss = model(input_ids=IDS, labels=IDS).loss
    loss.backward()
    with torch.no_grad():
        for weights in trained:
            weights.add_(torch.ones_like(weights) * 0.1)
    adapters.merge()
    changed = {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed and all("attn" in name or "mlp" in name for name in changed)
    assert model.config.vocab_size == 400
    stock: Any = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "moved")
    config = peft.LoraConfig(r=2, target_modules=["c_attn"], init_lora_weights=False, fan_in_fan_out=True)
    wrapped: Any = peft.get_peft_model(stock, config).eval()
    wrapped.save_pretrained(tmp_path / "more")
    again = subgraft.load(tmp_path / "more").bundle
    assert torch.allclose(_logits(again.model), _logits(wrapped), atol=1e-4)
    assert again.decoder.fingerprint == vocabulary.fingerprint


def test_the_base_of_an_adapter_counts_in_a_recipe(tmp_path: Path) -> None:
    base, adapter, _ = _adapted("gpt2", tmp_path)
    first = from_checkpoint("adapter", str(adapter), adapter).stage.digest
    assert from_checkpoint("checkpoint", str(adapter), adapter).name == f"checkpoint {adapter.name}"
    (adapter / "record.json").write_text('{"name": "finetune mean seed 2"}')
    assert from_checkpoint("donor", str(adapter), adapter).name == "donor finetune mean seed 2"
    (adapter / "record.json").unlink()
    assert from_checkpoint("adapter", str(adapter), adapter).stage.digest == first
    weights = load_file(base / "model.safetensors")
    name = next(iter(weights))
    save_file({**weights, name: weights[name] + 1}, base / "model.safetensors", metadata={"format": "pt"})
    assert from_checkpoint("adapter", str(adapter), adapter).stage.digest != first
