# mypy: allow-untyped-calls
"""How far log-probabilities in llama.cpp are from transformers' in fp32, for each type of a GGUF's matrices.

    python benchmarks/gguf_types.py MODEL [--types q8_0 q4_0] [--noise 0.02]

These are the deviations of the check that every export makes, without its limits. Noise, relative to the deviation of
each matrix, moves weights off the grid of a type that they were stored in before.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
from rich.table import Table

from subgraft.base.terminal import Terminal
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.gguf import WEIGHT_TYPES, deviations, write_gguf
from subgraft.modeling.inference.llama_cpp import LlamaCpp
from subgraft.modeling.sides import side
from subgraft.subwords.vocabulary.llama_cpp import numbered


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--types", nargs="+", choices=WEIGHT_TYPES, default=WEIGHT_TYPES)
    parser.add_argument("--noise", type=float, default=0.0)
    settings = parser.parse_args()
    bundle = Bundle.load(settings.model, dtype=torch.float32)
    bundle.model.train(False)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in bundle.model.parameters() if settings.noise else ():
            parameter.add_(torch.randn_like(parameter) * parameter.std() * settings.noise)
    vocabulary = numbered(len(side(bundle.model, "decoder").input.weight), 0)
    table = Table("type", "mean", "largest", "MB")
    for weights in settings.types:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.gguf"
            write_gguf(file, bundle, {}, vocabulary, weights)
            measured = deviations(LlamaCpp(file, positions=256, threads=1), bundle)
            size = f"{file.stat().st_size / 1e6:.1f}"
        table.add_row(weights, f"{measured.mean().item():.4f}", f"{measured.max().item():.4f}", size)
    Terminal().print(table)


if __name__ == "__main__":
    main()
