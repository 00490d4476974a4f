"""Whether Subgraft's training of a language model is level with a plain AdamW loop on the same text.

    python benchmarks/continuation_control.py FIT [--seeds 1 2 3]

FIT is the folder of a finished `subgraft fit MODEL --text …`. Its control, the model with its own vocabulary, is made
(or taken from the store) from fit.yaml, once a seed. The plain loop is what one writes by hand: transformers, AdamW at
fit's rate after ten updates, bf16 autocast, gradients clipped at 1, as many updates of as many characters, lines in an
order of its own. Both are measured on FIT's test lines: bits per character, and the difference with its interval.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from transformers import AutoModelForCausalLM

from language_model_starts import WARMUP, of_size
from subgraft.base.terminal import Terminal
from subgraft.interfaces.api.experiments import experiment_of, store_step
from subgraft.interfaces.api.model import Model, load
from subgraft.interfaces.api.text_scores import compare_on_text


def control(settings: dict[str, Any], seed: int, out: Path) -> Model:
    """The model with its own vocabulary, trained by Subgraft."""
    systems = [system for system in settings["systems"] if system["name"] == "old"]
    experiment = experiment_of({**settings, "systems": systems, "seeds": [seed]}, "control")
    store_step(experiment, lambda pipeline: pipeline.systems[0].finetune, out, Terminal(), [])
    return load(out)


def plain(settings: dict[str, Any], text: Sequence[str], seed: int) -> Model:
    """The same model, trained by a loop of a few lines."""
    torch.manual_seed(seed)
    source, finetune = Path(settings["upstream"]["checkpoint"]), settings["finetune"]
    trained = load(source)
    model: Any = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=finetune["learning_rate"], weight_decay=0.0)
    separator = trained.bundle.decoder.special[settings["upstream"]["objectives"][0]["separator"]]
    updates = of_size(shuffled(text, seed), finetune["batch_size"])
    for number in range(1, finetune["max_steps"] + 1):
        for group in optimizer.param_groups:
            group["lr"] = finetune["learning_rate"] * min(1.0, number / WARMUP)
        lines = [[separator, *ids, separator] for ids in trained.bundle.decoder.encode_batch(next(updates))]
        tokens = sum(len(line) - 1 for line in lines)
        for line in lines:  # one by one, so that there is no padding to get wrong
            ids = torch.tensor([line])
            with torch.autocast("cpu", torch.bfloat16):
                loss = model(input_ids=ids, labels=ids).loss
            (loss.float() * (len(line) - 1) / tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(f"plain loop: update {number} of {finetune['max_steps']}", flush=True)
    trained.bundle.model.load_state_dict(model.state_dict())
    return trained


def shuffled(text: Sequence[str], seed: int) -> Iterator[str]:
    """Endless passes over the lines."""
    order = random.Random(seed)
    while True:
        yield from order.sample(text, len(text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fit", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    arguments = parser.parse_args()
    settings = yaml.safe_load((arguments.fit / "fit.yaml").read_text(encoding="utf-8"))
    task = arguments.fit / settings["corpora"]["task"]["folder"]
    for corpus in settings["corpora"].values():
        corpus["folder"] = str(arguments.fit.resolve() / corpus["folder"])
    code = settings["languages"]["target"]
    text = (task / f"train.{code}").read_text(encoding="utf-8").splitlines()
    with tempfile.TemporaryDirectory() as folder:
        test = Path(folder) / "test.txt"
        test.write_text((task / f"test.{code}").read_text(encoding="utf-8"), encoding="utf-8")
        for seed in arguments.seeds:
            compared = compare_on_text(
                control(settings, seed, Path(folder) / f"{seed}"), plain(settings, text, seed), [test]
            )
            low, high = compared.interval.low, compared.interval.high
            print(
                f"seed {seed}: subgraft {compared.model.bits_per_character:.4f}, plain loop "
                f"{compared.baseline.bits_per_character:.4f} bits per character; difference "
                f"{compared.difference:+.4f} [{low:+.4f}, {high:+.4f}] on {compared.model.lines} lines"
            )


if __name__ == "__main__":
    main()
