"""Published LoRA adapters are merged into their model as peft merges them, and nothing else is."""

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
from subgraft.interfaces.cli import main

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
    tolerance = 0.05 if merged.dtype == torch.bfloat16 else 1e-4
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
