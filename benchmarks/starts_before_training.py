"""What new rows cost a pretrained decoder before any training, by how they start.

    python benchmarks/starts_before_training.py SMOLLM2 --data DATA [--min-count 100] [--start mean avg patt ...]

SMOLLM2 and DATA are as in gpu_language_model.py: the vocabulary is extended by the frequent subwords of the French
documentation. A line is one start: bits per character of the first 100 dev lines, and of English, where new tokens may
take probability from others. `patt` trains a generator first, with distillation, for a number of updates that a
processor can afford. Rows and output projection are tied. One thread.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from transformers import AutoModelForCausalLM

from gpu_language_model import DOCUMENTATION, Cell, Place, trained_generator
from language_model_starts import Decoder, NewTokens
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.modeling.tokenizers import load_tokenizers

STARTS = ("old", "random-matched", "mean", "avg", "reconstruction", "patt")
LINES = 100


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--min-count", type=int, default=100)
    parser.add_argument("--start", nargs="+", default=STARTS)
    parser.add_argument("--generator-updates", type=int, default=60)
    parser.add_argument("--generator-tokens", type=int, default=1000, help="of an update")
    settings = parser.parse_args(arguments)
    torch.set_num_threads(1)
    place = Place(settings.model, settings.data, "cpu", tiny=False)
    train, dev = place.lines(DOCUMENTATION, "train"), place.lines(DOCUMENTATION, "dev")[:LINES]
    english, old = place.english()[:LINES], load_tokenizers(place.model)["decoder"]
    extended = NewTokens.of(old, train, settings.min_count).extended
    for start in settings.start:
        began = time.process_time()
        model: Any = AutoModelForCausalLM.from_pretrained(place.model, dtype=torch.float32)
        new = old if start == "old" else extended
        if start != "old":
            cell, sizes = Cell(DOCUMENTATION, "extended", 0, start, 1), settings.generator_updates
            generator = trained_generator(cell, place, sizes, settings.generator_tokens) if start == "patt" else None
            method = Method(start, seed=1, generator=generator)
            model = transplant(model, {"decoder": old}, {"decoder": new}, method).model
        seconds, decoder = time.process_time() - began, Decoder(model, 0, place.start_token)
        bits = {name: round(decoder.bits(lines, new), 4) for name, lines in (("dev", dev), ("english", english))}
        print(json.dumps({"start": start, "size": len(new), "seconds": round(seconds, 1), **bits}), flush=True)


if __name__ == "__main__":
    main()
