# mypy: allow-untyped-calls
"""Characters a second of language models in transformers and in llama.cpp, with one vocabulary and another.

    python benchmarks/llama_cpp.py MODEL… --text FILE [--types f32 q8_0] [--prompts 8] [--tokens 32] [--rounds 3]

Each MODEL, a directory, is exported to GGUF and continues the first words of lines of FILE on one thread. Models write
different texts, so a token counts as many characters as one has in FILE. Engines and models take turns in every round;
times are the processor's, which other work on the machine changes least, and ratios are to the first model in
transformers, in fp32. The load of the machine is printed before and after.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import torch
from rich.table import Table

from subgraft.base.terminal import Terminal
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.gguf import WEIGHT_TYPES, export_gguf
from subgraft.modeling.gguf_files import FILE
from subgraft.modeling.inference.llama_cpp import LlamaCpp

LINES, PROMPT, POSITIONS = 1000, 120, 512
HEADINGS = ("model", "engine", "characters a token", "tokens/s", "characters/s", "ratio")
Continue = Callable[[list[int]], int]


def in_transformers(bundle: Bundle, tokens: int) -> Continue:
    """Continues ids greedily; returns the number of new tokens."""

    @torch.inference_mode()
    def go_on(ids: list[int]) -> int:
        read, cache = torch.tensor([ids]), None
        for _ in range(tokens):
            output = bundle.model(read, past_key_values=cache, use_cache=True)
            read, cache = output.logits[:, -1:].argmax(-1), output.past_key_values
        return tokens

    return go_on


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--types", nargs="+", choices=WEIGHT_TYPES, default=["f32", "q8_0"])
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    settings = parser.parse_args()
    torch.set_num_threads(1)
    lines = [line for line in settings.text.read_text(encoding="utf-8").splitlines() if line.strip()][:LINES]
    engines: dict[tuple[str, str], Continue] = {}
    prompts: dict[str, list[list[int]]] = {}
    characters: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for i, model in enumerate(settings.models):
            bundle, name = Bundle.load(model), model.name
            bundle.model.float()
            cut, start = bundle.decoder.encode_batch(lines), bundle.sequence_format(None).start
            characters[name] = sum(map(len, lines)) / sum(map(len, cut))
            begun = [bundle.decoder.encode(line[:PROMPT]) for line in lines[: settings.prompts]]
            prompts[name] = [[start, *ids] for ids in begun]
            engines[name, "transformers, f32"] = in_transformers(bundle, settings.tokens)
            for kind in settings.types:
                out = Path(folder) / f"{i}-{kind}"
                out.mkdir()
                export_gguf(model, out, kind)
                running = LlamaCpp(out / FILE, positions=POSITIONS, threads=1)
                engines[name, f"llama.cpp, {kind}"] = lambda ids, engine=running: len(  # type: ignore[misc]
                    engine.continued(ids, settings.tokens, past_ends=True)
                )
        speeds, load = defaultdict(list), os.getloadavg()[0]
        for _ in range(settings.rounds):
            for key, go_on in engines.items():
                before = time.process_time()
                written = sum(map(go_on, prompts[key[0]]))
                speeds[key].append(written / (time.process_time() - before))
    print(f"load of the machine: {load:.1f}, then {os.getloadavg()[0]:.1f}")
    table = Table(*HEADINGS)
    ratios = {
        key: [a * characters[key[0]] / (b * characters[first[0]]) for a, b in zip(each, speeds[first], strict=True)]
        for first in [next(iter(engines))]
        for key, each in speeds.items()
    }
    for (name, engine), each in speeds.items():
        tokens, per_token = statistics.median(each), characters[name]
        ratio = statistics.median(ratios[name, engine])
        table.add_row(name, engine, f"{per_token:.2f}", f"{tokens:.1f}", f"{tokens * per_token:.1f}", f"{ratio:.2f}")
    Terminal().print(table)


if __name__ == "__main__":
    main()
