"""Seconds and memory of an update of a language model's finetuning, against a bare loop of transformers and AdamW.

    python benchmarks/language_model_step.py [MODEL] [--text FILE] [--updates 12] [--characters 2000]

MODEL is a directory of a decoder; by default one of SmolLM2's width with eight layers and 8,000 subwords, untrained.
--text is a file of lines, by default French documentation from SUBGRAFT_DATA. Both train all weights on the same
batches of single lines with the same padding, in bf16 autocast with clipping and AdamW: Subgraft by the loss, engine
and batches of `task: continuation`; the bare loop by `model(input_ids, attention_mask, labels).loss`. Seconds are
medians of updates in turn, in one process; memory is the peak of a process of its own for each.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from measurements import in_environment_of_runs, measurements, options, real_text
from subgraft.config.training import TrainingSettings
from subgraft.data.text.batches import BatchPlan
from subgraft.data.text.reading import lines
from subgraft.modeling.bundle import Bundle
from subgraft.subwords.vocabulary.learn import learn
from subgraft.training.engine import PlainEngine
from subgraft.training.objectives.compute.causal import Lines
from subgraft.training.objectives.compute.single_stack import StackLoss

WARMUP, QUICK, LINES = 2, 4, 5000
RATE = 2e-4
Update = Callable[[np.ndarray], None]


def loaded(model: Path | None, text: Sequence[str]) -> Bundle:
    if model is not None:
        return Bundle.load_to_train(model)
    tokenizer = learn(text, kind="byte-level-bpe", size=8000)
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=8,
        num_attention_heads=9,
        num_key_value_heads=3,
        tie_word_embeddings=True,
    )
    return Bundle(LlamaForCausalLM(config), tokenizer, tokenizer)


def ours(bundle: Bundle, data: Lines, settings: TrainingSettings) -> Update:
    """What a finetuning does in an update."""
    module = StackLoss(bundle.model, settings.label_smoothing)
    engine = PlainEngine(module, settings, torch.device("cpu"))

    def update(indices: np.ndarray) -> None:
        module.train()
        batch = data.batch(indices, epoch=0)
        engine.accumulate(batch, {"loss": 1 / batch.counts["loss"]}, last=True)
        engine.step(RATE)

    return update


def bare(bundle: Bundle, data: Lines) -> Update:
    """What one writes by hand; its batches are padded before."""
    model = bundle.model
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)

    def update(indices: np.ndarray) -> None:
        model.train()
        examples = [torch.tensor(data.example(int(index), 0).tokens) for index in indices]
        ids = torch.nn.utils.rnn.pad_sequence(examples, batch_first=True)
        mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(one) for one in examples], batch_first=True)
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(input_ids=ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        float(loss.detach())

    return update


def main() -> None:
    in_environment_of_runs()
    parser = options(__doc__)
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--text", type=Path)
    parser.add_argument("--updates", type=int, default=12)
    parser.add_argument("--characters", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--alone", choices=("ours", "bare"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    text = list(islice(lines(args.text or real_text() / "en-fr" / "itdocs" / "train.fr.gz"), LINES))
    bundle = loaded(args.model, text)
    settings = TrainingSettings(
        max_steps=1,
        batch_size=args.characters,
        batch_unit="characters",
        max_length=512,
        learning_rate=RATE,
        warmup_steps=1,
        adam_beta2=0.999,
        adam_epsilon=1e-8,
        label_smoothing=0.0,
        precision="bf16",
    )
    separator = bundle.decoder.special["eos"]
    data = Lines(text, bundle.decoder, separator, settings.max_length, settings.batch_unit)
    batches = BatchPlan(data.lengths, args.characters, seed=1).epoch(0)
    batches = batches[: WARMUP + (QUICK if args.quick else args.updates)]
    if args.alone:
        update = ours(bundle, data, settings) if args.alone == "ours" else bare(bundle, data)
        for indices in batches:
            update(indices)
        print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20))
        return
    other = loaded(args.model, text)
    updates = {"a bare loop": bare(other, data), "subgraft": ours(bundle, data, settings)}
    seconds: dict[str, list[float]] = {name: [] for name in updates}
    for indices in batches:
        for name, update in updates.items():
            started = time.perf_counter()
            update(indices)
            seconds[name].append(time.perf_counter() - started)
    medians = {name: statistics.median(each[WARMUP:]) for name, each in seconds.items()}
    ratios = [s / b for s, b in zip(seconds["subgraft"], seconds["a bare loop"], strict=True)]
    memory = {name: _memory(kind) for name, kind in (("a bare loop", "bare"), ("subgraft", "ours"))}
    with measurements(__doc__, args) as table:
        for name in updates:
            ratio = 1.0 if name == "a bare loop" else statistics.median(ratios[WARMUP:])
            table.add(name, update_seconds=medians[name], ratio=ratio, peak_GiB=memory[name])


def _memory(kind: str) -> float:
    """The peak of a process that trains alone, in GiB."""
    command = [sys.executable, str(Path(__file__)), *sys.argv[1:], "--alone", kind]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    main()
