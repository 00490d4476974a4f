"""Throughput of a served language model: clients that ask at the same time, as a ratio to the same requests in turn.

    python benchmarks/serving.py
    python benchmarks/serving.py MODEL --max-tokens 64

Each round sends every request twice over HTTP on 127.0.0.1: one after the other, and from eight clients at once. The
server is this package's, in this process. Without MODEL it serves a GPT-2 with random weights, which writes until
max_tokens. The ratio shows what a shared batch gains; it depends on the model, the engine and the free cores.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from rich.table import Table
from transformers import GPT2Config, GPT2LMHeadModel

from subgraft.base.security.http_server import server
from subgraft.base.terminal import Terminal
from subgraft.interfaces.serving.application import application
from subgraft.interfaces.serving.writer import open_model
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.inference.complete import Completer, ExportedCompleter, TorchCompleter
from subgraft.subwords.vocabulary.learn import learn

TOKEN, PROMPTS = "a-token", ("a text", "one more text to continue", "the next text", "and another one")


def main() -> None:
    args = _arguments()
    torch.set_num_threads(args.threads)
    table = Table("engine", "tokens/s in turn", f"tokens/s of {args.clients} clients", "ratio")
    with tempfile.TemporaryDirectory() as folder:
        model = args.model or _random_model(Path(folder))
        for completer in _engines(model):
            rates = [_round(completer, args) for _ in range(args.rounds)]
            ratios = [together / alone for alone, together in rates]
            alone, together = (statistics.median(column) for column in zip(*rates, strict=True))
            ratio = f"×{statistics.median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]"
            table.add_row(completer.engine, f"{alone:.0f}", f"{together:.0f}", ratio)
    Terminal().print(table, f"{args.requests} requests of {args.max_tokens} tokens, {args.rounds} rounds")


def _arguments() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model", nargs="?", type=Path, help="a directory of a decoder-only model")
    options.add_argument("--clients", type=int, default=8)
    options.add_argument("--requests", type=int, default=32)
    options.add_argument("--max-tokens", type=int, default=32)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--threads", type=int, default=1)
    return options.parse_args()


def _random_model(folder: Path) -> Path:
    """A GPT-2 of width 512 with six layers, on disk."""
    tokenizer = learn([" ".join(PROMPTS)] * 8, kind="bpe", size=80)
    shape: dict[str, Any] = {"n_embd": 512, "n_layer": 6, "n_head": 8, "n_positions": 256, "vocab_size": 16_000}
    ends: dict[str, Any] = {"bos_token_id": tokenizer.special["bos"], "eos_token_id": tokenizer.special["eos"]}
    torch.manual_seed(0)
    Bundle(GPT2LMHeadModel(GPT2Config(**shape, **ends)), tokenizer, tokenizer).save(folder / "model")
    return folder / "model"


def _engines(model: Path) -> Iterator[Completer]:
    with open_model(str(model), None, 1) as completer:
        if isinstance(completer, ExportedCompleter):
            yield completer
    yield TorchCompleter(Bundle.load(model))


def _round(completer: Completer, args: argparse.Namespace) -> tuple[float, float]:
    """Tokens per second, in turn and together."""
    with _serving(completer) as port:
        _ask(port, 0, args.max_tokens)
        rates = []
        for clients in (1, args.clients):
            started = time.perf_counter()
            with ThreadPoolExecutor(clients) as pool:
                tokens = sum(pool.map(lambda number: _ask(port, number, args.max_tokens), range(args.requests)))
            rates.append(tokens / (time.perf_counter() - started))
    return rates[0], rates[1]


def _ask(port: int, number: int, max_tokens: int) -> int:
    """The number of tokens that were written."""
    body = {"model": "m", "prompt": PROMPTS[number % len(PROMPTS)], "max_tokens": max_tokens, "temperature": 0}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    with contextlib.closing(connection):
        connection.request("POST", "/v1/completions", json.dumps(body), {"Authorization": f"Bearer {TOKEN}"})
        answer = json.loads(connection.getresponse().read())
    return int(answer["usage"]["completion_tokens"])


@contextlib.contextmanager
def _serving(completer: Completer) -> Iterator[int]:
    made = server(application({"m": completer}, TOKEN, patience=600), TOKEN)
    with socket.create_server(("127.0.0.1", 0)) as bound:
        thread = threading.Thread(target=made.run, args=([bound],))
        thread.start()
        while not made.started:
            time.sleep(0.01)
        try:
            yield bound.getsockname()[1]
        finally:
            made.should_exit = True
            thread.join()


if __name__ == "__main__":
    main()
