"""Models of a decoder alone all the way: pretrained, fitted with a vocabulary, finetuned, measured, and asked to write."""

from __future__ import annotations

import json
from math import log
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from small_experiments import finish, tiny, written
from subgraft.models.bundle import Bundle

GPT2 = "{family: gpt2, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16, max_positions: 256}"
LLAMA = "{family: llama, d_model: 16, layers: 1, attention_heads: 2, key_value_heads: 1, ffn_dim: 16}"
SYSTEMS = """\
- {name: plain, vocabulary: upstream}
- {name: mean, initialiser: mean}
- {name: ours, initialiser: patt, kd_weight: 0.5}
"""


def continued(model: str, **sections: str) -> str:
    given = {
        "task": "continuation",
        "languages": "{source: de, target: de}",
        "upstream": "{corpus: upstream, objectives: [{kind: causal}], vocabulary: {size: 60, byte_fallback: false}}",
        "model": model,
        "pretrain": "{epochs: 4, batch_size: 500, precision: fp32, dev_sentences: 4}",
        "generator_training": "{max_steps: 2, batch_size: 500, precision: fp32}",
        "systems": SYSTEMS,
    }
    return tiny(**given | sections)


@pytest.mark.parametrize("model", [GPT2, LLAMA])
def test_a_decoder_alone_is_fitted_finetuned_and_judged_by_bits_per_character(model: str, tmp_path: Path) -> None:
    pipeline, store = finish(written(tmp_path, continued(model)))
    lines = (tmp_path / "downstream" / "test.de").read_text(encoding="utf-8").splitlines()[:3]
    for steps in pipeline.systems:
        evaluation = json.loads((store.path(steps.evaluate) / "evaluation.json").read_text())
        bundle = Bundle.load(store.path(steps.finetune))
        total, tokens = by_hand(bundle, lines)
        characters = sum(map(len, lines))
        assert evaluation["bits_per_character"] == pytest.approx(total / log(2) / characters, abs=1e-4)
        assert evaluation["tokens_per_sentence"] == pytest.approx(tokens / len(lines))
        statistics = load_file(store.path(steps.evaluate) / "statistics.safetensors")
        assert statistics["characters"].tolist() == [len(line) for line in lines]
        assert np.isclose(statistics["bits"].sum(), total / log(2), rtol=1e-4)
        assert "scores" not in evaluation and "calibration" not in evaluation
        curve = json.loads((store.path(steps.finetune) / "curve.json").read_text())
        assert all(set(point["values"]) >= {"bits_per_character"} and "bleu" not in point["values"] for point in curve)


def by_hand(bundle: Bundle, lines: list[str]) -> tuple[float, int]:
    """Nats of lines that stand between ends, and how many tokens these are of, from transformers' own logits."""
    end, total, tokens = bundle.decoder.special["eos"], 0.0, 0
    for line in lines:
        ids = torch.tensor([[end, *bundle.decoder.encode(line), end]])
        with torch.no_grad():
            told = bundle.model(input_ids=ids).logits.double().log_softmax(-1)  # type: ignore[operator]
        total -= float(told[0, :-1].gather(1, ids[0, 1:, None]).sum())
        tokens += ids.shape[1] - 1
    return total, tokens
