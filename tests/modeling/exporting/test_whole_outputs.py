"""Exports write the same to the end where none of our limits ends an output: in half precision, at unequal depths."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoTokenizer

from published import CHECKPOINTS, T5_SHAPE, Checkpoint, english, t5
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.transformers import export_transformers
from subgraft.modeling.inference.continue_text import Continuer
from subgraft.modeling.inference.translate import Translator

LENGTH, UNLIMITED = 60, 1e6


def _deeper_encoder(directory: Path) -> None:
    t5(directory)
    size = json.loads((directory / "config.json").read_text(encoding="utf-8"))["vocab_size"]
    torch.manual_seed(4)
    config = transformers.T5Config(**{**T5_SHAPE, "num_layers": 3}, vocab_size=size)
    model: Any = transformers.T5ForConditionalGeneration(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1 if parameter.ndim == 1 else 4)  # an untrained model hardly looks at its source
    model.save_pretrained(directory)


DEEPER = Checkpoint("a deeper encoder", _deeper_encoder)


def _writer(bundle: Bundle, checkpoint: Checkpoint) -> Callable[[list[str], int], list[str]]:
    form = bundle.sequence_format(checkpoint.languages)
    limits: dict[str, Any] = {"beam": 1, "max_length_ratio": UNLIMITED}
    if "encoder" in bundle.tokenizers:
        return Translator(bundle.model, bundle.encoder, bundle.decoder, form, max_positions=LENGTH, **limits)
    return Continuer(bundle.model, bundle.decoder, form.start, max_positions=LENGTH, max_tokens=20, **limits)


@pytest.mark.parametrize("checkpoint", [CHECKPOINTS["Llama-2-7b"], CHECKPOINTS["m2m100_418M"], DEEPER])
def test_whole_outputs_are_those_of_transformers(checkpoint: Checkpoint, tmp_path: Path) -> None:
    model, out, lines = tmp_path / "model", tmp_path / "out", list(english(8))
    checkpoint.publish(model)
    out.mkdir()
    loading = export_transformers(model, out, checkpoint.languages)
    tokenizer: Any = AutoTokenizer.from_pretrained(out)
    theirs = getattr(transformers, loading.model_class).from_pretrained(out).eval()
    bundle, different = Bundle.load(model), set()
    alone = "encoder" not in bundle.tokenizers
    limit = {"max_new_tokens": 20} if alone else {"max_length": LENGTH}
    for line, output in zip(lines, _writer(bundle, checkpoint)(lines, 1), strict=True):
        inputs = tokenizer(line, return_tensors="pt", return_token_type_ids=False)
        written = theirs.generate(**inputs, do_sample=False, num_beams=1, **limit)[0]
        whole = tokenizer.decode(written, skip_special_tokens=True)
        before = tokenizer.decode(inputs["input_ids"][0], skip_special_tokens=True) if alone else ""
        assert whole[len(before) :].split() == output.split(), line
        different.add(output)
    assert len(different) > 1
