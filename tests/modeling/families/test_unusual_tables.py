# mypy: allow-untyped-calls
"""Published models whose embeddings or logits are unlike others': ELECTRA, DeBERTa-v3, Gemma 2 and OPT-350M."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoTokenizer,
    DebertaV2Config,
    DebertaV2ForMaskedLM,
)

from published import CHECKPOINTS, german
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.interfaces.cli import main
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import family_of
from subgraft.modeling.load import load_model
from subgraft.modeling.sides import side
from subgraft.training.objectives.compute.causal import Lines
from subgraft.training.objectives.compute.masked import MaskedSentences
from subgraft.training.objectives.compute.single_stack import StackLoss
from subgraft.training.objectives.masked import MaskedSettings

MASKED = ("electra-small-generator", "deberta-v3-base")
NAMES = (*MASKED, "gemma-2-2b", "opt-350m")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("published")
    for name in NAMES:
        CHECKPOINTS[name].publish(folder / name)
    return {name: folder / name for name in NAMES}


def _batch(bundle: Bundle, name: str) -> Any:
    if name in MASKED:
        examples: Any = MaskedSentences(german(12), bundle.decoder, MaskedSettings(), 40, seed=1)
    else:
        examples = Lines(german(12), bundle.decoder, bundle.decoder.special["eos"], 40)
    return examples.batch(np.arange(6), 0)


def _loss(model: Any, batch: Any) -> torch.Tensor:
    """transformers' own logits, and PyTorch's cross entropy."""
    logits = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits.flatten(0, 1).float()
    return torch.nn.functional.cross_entropy(logits, batch.labels.flatten(), reduction="sum")


@pytest.mark.parametrize("name", NAMES)
def test_loss_and_gradients_are_those_of_the_models_own_logits(name: str, published: dict[str, Path]) -> None:
    bundle = Bundle.load(published[name])
    batch = _batch(bundle, name)
    result = StackLoss(bundle.model)(batch)["loss"]
    parameters = dict(bundle.model.named_parameters())
    expected = _loss(bundle.model, batch)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-3)
    pairs = (torch.autograd.grad(each, list(parameters.values()), allow_unused=True) for each in (result, expected))
    for key, one, other in zip(parameters, *pairs, strict=True):
        assert one is not None and other is not None, key
        torch.testing.assert_close(one, other, rtol=1e-3, atol=2e-3, msg=key)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", ["extend", "trim"])
def test_a_changed_vocabulary_is_loaded_by_transformers(
    name: str, change: str, published: dict[str, Path], tmp_path: Path
) -> None:
    model, text, vocabulary, out = published[name], tmp_path / "text", tmp_path / "vocabulary", tmp_path / "out"
    text.write_text("".join(f"{line}\n" for line in german(300)), encoding="utf-8")
    options = ["--add", "20"] if change == "extend" else []
    assert main(["vocab", change, str(model), "--text", str(text), *options, "--out", str(vocabulary)]) == 0
    sides = ["--sides", "encoder,decoder"] if name in MASKED else []
    transfer = ["transfer", "--model", str(model), "--vocab", str(vocabulary), "--method", "mean", "--out", str(out)]
    assert main([*transfer, *sides]) == 0
    kind: Any = AutoModelForMaskedLM if name in MASKED else AutoModelForCausalLM
    theirs, ours, before = kind.from_pretrained(out).eval(), Bundle.load(out), Bundle.load(model)
    ids = torch.tensor([ours.decoder.encode(german(1)[0])])
    torch.testing.assert_close(theirs(input_ids=ids).logits, ours.model(input_ids=ids).logits)
    assert AutoTokenizer.from_pretrained(out)(german(1)[0], add_special_tokens=False).input_ids == ids[0].tolist()
    assert family_of(ours.model).parameters(ours.model.config.to_dict()).total == theirs.num_parameters()
    # Subwords that both have keep their rows and their bias.
    old, new = side(before.model, "decoder"), side(ours.model, "decoder")
    ids_before = before.decoder.ids
    both = [(ids_before[entry], token) for entry, token in ours.decoder.ids.items() if entry in ids_before]
    rows, tokens = torch.tensor(both).T
    torch.testing.assert_close(new.input.weight[tokens], old.input.weight[rows])
    if old.bias is not None and new.bias is not None:
        torch.testing.assert_close(new.bias[tokens], old.bias[rows])


def test_the_head_of_a_deberta_is_the_one_that_its_weights_have(published: dict[str, Path], tmp_path: Path) -> None:
    """config.json names neither head; transformers alone would draw the older one at random."""
    newer: Any = load_model(published["deberta-v3-base"])
    assert newer.config.legacy is False
    saved = json.loads((published["deberta-v3-base"] / "config.json").read_text())
    assert "legacy" not in saved and "architectures" not in saved
    entries = {**newer.config.to_dict(), "legacy": True}
    trained = DebertaV2ForMaskedLM(DebertaV2Config.from_dict(entries)).eval()
    with torch.no_grad():
        trained.cls.predictions.bias.normal_()
    trained.save_pretrained(tmp_path)
    again: Any = load_model(tmp_path)
    assert again.config.legacy is True
    ids = torch.tensor([[1, 7, 9, 2]])
    torch.testing.assert_close(again(ids).logits, trained(ids).logits)
    bundle = Bundle.load(published["deberta-v3-base"])
    tokenizers: Any = {"encoder": bundle.encoder, "decoder": bundle.decoder}
    made: Any = transplant(again, tokenizers, tokenizers, Method("mean")).model
    size = len(bundle.decoder)
    torch.testing.assert_close(made(ids).logits, trained(ids).logits[..., :size])


def test_logits_of_a_gemma_2_are_capped(published: dict[str, Path]) -> None:
    model: Any = load_model(published["gemma-2-2b"])
    assert side(model, "decoder").cap == model.config.final_logit_softcapping == 3.0
    assert 2.0 < model(torch.tensor([[2, 9, 30]])).logits.abs().max().item() < 3.0
