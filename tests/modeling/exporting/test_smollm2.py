"""SmolLM2, extended and with a vocabulary of its own, in llama.cpp: the ids of 1,000 lines, and continuations.

    SUBGRAFT_SMOLLM2=DIR SUBGRAFT_DATA=FOLDER pytest tests/modeling/exporting/test_smollm2.py

`benchmarks/smollm2.py` makes DIR. On one free core it takes some minutes, and 3 GB of memory.
"""

from __future__ import annotations

import argparse
import gzip
import os
from itertools import islice
from pathlib import Path

import pytest
import torch

import subgraft
from subgraft.interfaces.api.model import load

pytest.importorskip("gguf")
pytest.importorskip("xllamacpp")

from subgraft.modeling.exporting.gguf import TOLERANCE, export_gguf
from subgraft.modeling.exporting.llama_cpp import LlamaCppModel
from subgraft.modeling.gguf_files import FILE
from subgraft.modeling.inference.llama_cpp import LlamaCpp

EACH, PROMPTS, TOKENS = 250, 5, 16


def _lines(mirror: Path) -> dict[str, list[str]]:
    """As many lines of each kind, with one of each in turn next to an emoji."""
    files = {"French": "en-fr/itdocs/train.fr.gz", "Chinese": "en-zh/tatoeba/train.zh.gz"}
    kinds = {}
    for kind, name in files.items():
        with gzip.open(mirror / name, "rt", encoding="utf-8") as file:
            kinds[kind] = [line.rstrip("\n") for line in islice(file, EACH)]
    code = (line for line in Path(argparse.__file__).read_text(encoding="utf-8").splitlines() if line.strip())
    kinds["code"] = list(islice(code, EACH))
    faces = [chr(0x1F600 + i % 80) + ("\U0001f3fd\u200d" if i % 3 else " ") for i in range(EACH)]
    kinds["emoji"] = [face + line + face * 2 for face, line in zip(faces, kinds["French"], strict=True)]
    return kinds


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["extended", "replaced"])
def test_ids_and_continuations_are_those_of_transformers(mode: str, mirror: Path, tmp_path: Path) -> None:
    directory = os.environ.get("SUBGRAFT_SMOLLM2")
    if not directory:
        pytest.skip("needs SmolLM2: set SUBGRAFT_SMOLLM2 to the folder that benchmarks/smollm2.py makes")
    kinds = _lines(mirror)
    lines = [line for each in kinds.values() for line in each]
    assert len(lines) == 4 * EACH
    model, text = load(directory), [*kinds["French"], *kinds["Chinese"]]
    vocabulary = (
        subgraft.extend(model, text, add=300, min_count=3)
        if mode == "extended"
        else subgraft.learn_vocabulary(text, size=1500, like=model)
    )
    subgraft.transfer(model, vocabulary).save(tmp_path / "model")
    (tmp_path / "out").mkdir()
    export_gguf(tmp_path / "model", tmp_path / "out", "f32")
    running = LlamaCpp(tmp_path / "out" / FILE, positions=256, threads=1)
    assert [running.encode(line) for line in lines] == vocabulary.encode_batch(lines)
    engine, changed = LlamaCppModel.of_file(tmp_path / "out" / FILE), load(tmp_path / "model").bundle
    changed.model.float()
    for each in kinds.values():
        prompts = [[engine.start, *ids[:20]] for ids in vocabulary.encode_batch(each[:PROMPTS])]
        rows: list[list[int]] = [[] for _ in prompts]
        for i, token in engine.stream(prompts, TOKENS):
            rows[i].append(token)
        for prompt, row in zip(prompts, rows, strict=True):
            with torch.inference_mode():
                scores = changed.model(torch.tensor([[*prompt, *row]])).logits[0].log_softmax(-1)
            assert all(
                scores[place, token] > scores[place].max() - TOLERANCE
                for place, token in enumerate(row, len(prompt) - 1)
            )
