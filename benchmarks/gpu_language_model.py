"""A pretrained language model with new subwords on a GPU: curves by characters and by seconds, sized to end in time.

    python benchmarks/gpu_language_model.py SMOLLM2 --data DATA --out curves.jsonl [--minutes 10] [--processes 4]
    python benchmarks/gpu_language_model.py --tiny --device cpu --out tiny.jsonl       (the same lines in a minute)

SMOLLM2 is what smollm2.py writes, DATA the folder of the real corpora. The old vocabulary is compared with extensions
by 600, 2,000 and 8,000 subwords and with 8,000 and 16,000 in its place. New rows start from means, from rows that are
fitted (`language_model_starts.py`, at the body's rate), from the paper's generator (PATT with distillation, trained on
the text in the old vocabulary) or from random ones of the same spread. Texts are French documentation (2.8 M
characters, twice) and Canadian Acts (30 M); English Wikipedia shows the loss elsewhere. Cells run in the order of their
worth, some at once, as updates of 8,000 characters do not fill such a card. The speed of the old vocabulary is measured
first, with as many processes; cells for which the time does not suffice are left out and listed.

A line of curves.jsonl is one evaluation. A rerun with the same file goes on: cells that are complete are not repeated.
Decoding speed comes first: characters a second of text of the task, by vocabulary and batch size.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
from itertools import chain, repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM

import language_model_starts as starts
from gpu import SUPPORT, described, machine_of, read_rows
from language_model_starts import WARMUP, Decoder, NewTokens, lines_of, of_size
from subgraft.config.corpora import Cleaning, Languages
from subgraft.config.runtime import Runtime
from subgraft.config.training import TIED_EMBEDDING_RATIO, TrainingSettings
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.embeddings.methods.similar_tokens import PATT, GeneratorSettings, GeneratorStage
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.modeling.tokenizers import load_tokenizers
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.causal import CausalSettings

RATE, ROW_RATE = 2e-4, 1e-3
UPDATE = 8000  # characters
MAX_TOKENS = 16_384  # of a batch that is computed at once, with padding
DEV_LINES, ROW_CHARACTERS = 200, 160_000
EVALUATE_AT = (0, *(1000 * each for each in (25, 50, 100, 200, 300, 500, 1000, 2000, 3000, 4000, 5000, 10_000, 20_000)))
DOCUMENTATION, ACTS = "documentation", "acts"
FILES = {DOCUMENTATION: "en-fr/itdocs/{}.fr.gz", ACTS: "en-fr/laws/{}.fr.gz"}
GENERATOR_UPDATES = 100
# What a cell needs before its first update, in updates; a fitted start is distilled and fitted. A generator's update
# reads three times as much, in both segmentations.
PREPARATION = {"fitted": 150, "patt": 6 * GENERATOR_UPDATES}


@dataclass(frozen=True)
class Cell:
    """One training.

    Attributes:
        text: The text that it is trained on.
        vocabulary: old, extended or replaced.
        size: New subwords of an extension, all subwords of a replacement.
        start: Where new rows start.
        passes: How often the text is read.
        untied: Whether old tokens have output embeddings apart.
    """

    text: str
    vocabulary: str
    size: int
    start: str
    seed: int
    passes: int = 2
    untied: bool = False


def _old(text: str, seed: int, passes: int = 2, *, untied: bool = False) -> Cell:
    return Cell(text, "old", 0, "own", seed, passes, untied)


# What decides first: whether a fitted extension reaches the old vocabulary, both untied, over three seeds.
CELLS = (
    *(_old(DOCUMENTATION, seed, untied=True) for seed in (1, 2, 3)),
    *(Cell(DOCUMENTATION, "extended", 600, "fitted", seed, untied=True) for seed in (1, 2, 3)),
    _old(DOCUMENTATION, 1),
    Cell(DOCUMENTATION, "extended", 600, "fitted", 1),
    Cell(DOCUMENTATION, "extended", 600, "mean", 1),
    Cell(DOCUMENTATION, "extended", 600, "patt", 1),
    Cell(DOCUMENTATION, "extended", 2000, "fitted", 1, untied=True),
    Cell(DOCUMENTATION, "replaced", 8000, "mean", 1),
    Cell(DOCUMENTATION, "extended", 8000, "fitted", 1, untied=True),
    _old(ACTS, 1, passes=1, untied=True),
    Cell(ACTS, "extended", 2000, "fitted", 1, passes=1, untied=True),
    Cell(ACTS, "replaced", 8000, "mean", 1, passes=1),
    Cell(DOCUMENTATION, "extended", 600, "random-matched", 1),
    Cell(DOCUMENTATION, "extended", 2000, "mean", 1),
    *(Cell(DOCUMENTATION, "extended", 2000, "fitted", seed, untied=True) for seed in (2, 3)),
    Cell(DOCUMENTATION, "replaced", 8000, "random-matched", 1),
    Cell(DOCUMENTATION, "replaced", 16_000, "mean", 1),
    Cell(ACTS, "extended", 8000, "fitted", 1, passes=1, untied=True),
    Cell(ACTS, "replaced", 16_000, "mean", 1, passes=1),
)


@dataclass(frozen=True)
class Place:
    """Where everything is, and where it is computed. tiny: whether all of it is invented and small."""

    model: Path
    data: Path
    device: str
    tiny: bool

    @property
    def start_token(self) -> int:
        """The token before each line: SmolLM2's end of text."""
        return 0

    def lines(self, text: str, split: str) -> list[str]:
        return lines_of(self.data / FILES[text].format(split))

    def english(self) -> list[str]:
        return lines_of(self.data / "mono" / "wiki" / "en.txt.gz")

    def on_device(self) -> None:
        """New tensors are made on the device; products of fp32, which only preparations have, may be TF32."""
        torch.set_default_device(self.device)
        torch.set_float32_matmul_precision("high")
        torch.set_num_threads(1)
        starts.MAX_TOKENS = 256 if self.tiny else MAX_TOKENS


def model_of(cell: Cell, place: Place, text: Sequence[str], english: Sequence[str]) -> tuple[Decoder, Tokenizer]:
    """The model with the vocabulary and the start of a cell, and this vocabulary."""
    old, start = load_tokenizers(place.model)["decoder"], place.start_token
    with torch.device("cpu"):
        model: Any = AutoModelForCausalLM.from_pretrained(place.model, dtype=torch.float32)
    if cell.vocabulary == "replaced":
        new = learn(text, kind="byte-level-bpe", size=cell.size, like=old)
        start = new.pieces.index(old.pieces[start])
        model = transplanted(model, old, new, cell, place)
    decoder = Decoder(model.to(place.device), 0, start)
    if cell.untied:
        decoder.untie()
    if cell.vocabulary != "extended":
        return decoder, old if cell.vocabulary == "old" else new
    extension = NewTokens.of(old, text, 2, cell.size)
    if cell.start == "fitted":
        options = argparse.Namespace(start_token=start, row_characters=ROW_CHARACTERS, seed=cell.seed)
        return starts.prepare("fitted", decoder, extension, text, english, options), extension.extended
    rows = transplanted(copy.deepcopy(model).cpu(), old, extension.extended, cell, place)
    extended = Decoder(model, len(extension.pieces), start, None if decoder.is_tied else decoder.old_output)
    with torch.no_grad():
        extended.new_input.copy_(rows.get_input_embeddings().weight[len(old) :])
    return extended, extension.extended


def transplanted(model: Any, old: Tokenizer, new: Tokenizer, cell: Cell, place: Place) -> Any:
    """The model with another vocabulary, whose new rows start as the cell says."""
    generator = trained_generator(cell, place) if cell.start == "patt" else None
    method = Method(cell.start, seed=cell.seed, generator=generator)
    with torch.device("cpu"):
        return transplant(model, {"decoder": old}, {"decoder": new}, method).model


def trained_generator(cell: Cell, place: Place, steps: int = GENERATOR_UPDATES, batch_size: int = 8000) -> Path:
    """The directory of a PATT generator for the model, trained on the cell's text with distillation."""
    folder = Path(tempfile.mkdtemp())
    languages = Languages(source="fr", target="fr")
    files = CorpusSource(files={"train": [str(place.data / FILES[cell.text].format("train"))]})
    build(files, languages, Cleaning(max_characters=None, max_ratio=None), folder / "corpus")
    assert PATT.training is not None
    if place.tiny:
        steps, batch_size = 4, 400
    sizes = {"max_steps": steps, "warmup_steps": 1 + steps // 10, "batch_size": batch_size, "max_length": 256}
    stage = GeneratorStage(
        kind="patt",
        generator=GeneratorSettings(),
        objectives=(CausalSettings(),),
        sides=("decoder",),
        one_vocabulary=False,
        kd_weight=0.5,
        languages=languages,
        training=TrainingSettings(**{**PATT.training.preset("gpu"), **sizes}),
        seed=cell.seed,
    )
    (folder / "generator").mkdir()
    stage.run({"model": place.model, "corpus": folder / "corpus"}, folder / "generator", Alone(folder / "work"))
    return folder / "generator"


class Alone:
    """The surroundings of a stage outside a run: nothing is recorded, and nothing survives."""

    cache = measured = None
    command = ""

    def __init__(self, work: Path) -> None:
        self.work, self.runtime = work, Runtime(checkpoints_in_background=False)
        work.mkdir()

    def progress(self, done: int, total: int, what: str, now: str = "") -> None: ...

    def metrics(self, step: int, values: Mapping[str, float]) -> None: ...

    def warn(self, line: str) -> None:
        print(line, file=sys.stderr)

    note = warn


class Training:
    """Plain AdamW on all weights. New rows that have not been fitted have a rate of their own, and so has a table of
    old tokens that is tied to the output projection."""

    def __init__(self, decoder: Decoder, cell: Cell) -> None:
        new = [each for each in (decoder.new_input, decoder.new_output) if each is not None and len(each)]
        old = [decoder.old] if decoder.is_tied else [decoder.old, decoder.old_output]
        body = [each for each in decoder.model.parameters() if each.requires_grad and each is not decoder.old]
        row_rate = RATE if cell.start == "fitted" else ROW_RATE
        old_rate = RATE * TIED_EMBEDDING_RATIO if decoder.is_tied else RATE
        groups: list[dict[str, Any]] = [
            {"params": body, "rate": RATE},
            {"params": old, "rate": ROW_RATE if cell.vocabulary == "replaced" else old_rate},
            {"params": new, "rate": row_rate},
        ]
        self._decoder, self._parameters, self._updates = decoder, [*body, *old, *new], 0
        self._optimizer = torch.optim.AdamW(
            [each for each in groups if each["params"]], 1.0, weight_decay=0, fused=True
        )

    def update(self, sentences: Sequence[Sequence[int]]) -> None:
        self._updates += 1
        for group in self._optimizer.param_groups:
            group["lr"] = group["rate"] * min(1.0, self._updates / WARMUP)
        count = sum(map(len, sentences))
        for loss in self._decoder.losses([list(ids) for ids in sentences]):
            (loss / count).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._parameters, 1.0)
        self._optimizer.step()
        self._optimizer.zero_grad()


def train(cell: Cell, place: Place, seconds: float | None = None) -> Iterator[dict[str, Any]]:
    """The evaluations of a cell. seconds: how long it is trained at most, to measure its speed, without preparation."""
    place.on_device()
    torch.manual_seed(cell.seed)
    text, dev, english = place.lines(cell.text, "train"), place.lines(cell.text, "dev")[:DEV_LINES], place.english()
    further, english = english[200:], english[:DEV_LINES]
    random.Random(cell.seed).shuffle(text)
    began = time.perf_counter()
    decoder, tokenizer = model_of(cell, place, text, further)
    training, read, remaining = Training(decoder, cell), 0, list(EVALUATE_AT)
    taken = 0.0 if seconds is not None else time.perf_counter() - began

    def evaluated(complete: bool = False) -> dict[str, Any]:
        return {
            **asdict(cell),
            "characters": read,
            "seconds": round(taken, 2),
            "tokens_a_character": sum(map(len, tokenizer.encode_batch(dev))) / sum(map(len, dev)),
            "dev": decoder.bits(dev, tokenizer),
            "english": decoder.bits(english, tokenizer),
            "complete": complete,
        }

    for update in chain.from_iterable(of_size(text, 300 if place.tiny else UPDATE) for _ in range(cell.passes)):
        if seconds is not None and taken > seconds:
            break
        if read >= remaining[0] and seconds is None:
            remaining = [*(each for each in remaining if each > read), 10**12]
            yield evaluated()
        began = time.perf_counter()
        training.update(tokenizer.encode_batch(update))
        if torch.device(place.device).type == "cuda":
            torch.cuda.synchronize()
        read, taken = read + sum(map(len, update)), taken + time.perf_counter() - began
    yield evaluated(complete=seconds is None)


def characters_a_second(place: Place, seconds: float) -> float:
    """The speed of the old vocabulary, preparation excluded."""
    (last,) = train(_old(DOCUMENTATION, 1), place, seconds)
    return float(last["characters"] / last["seconds"])


def decoding(place: Place) -> Iterator[dict[str, Any]]:
    """Characters a second in bf16 by vocabulary and batch size; a text has as many tokens as the vocabulary needs."""
    text, dev = place.lines(DOCUMENTATION, "train"), place.lines(DOCUMENTATION, "dev")[:DEV_LINES]
    sizes, tokens, extended, replaced = ((1, 2), 4, 20, 300) if place.tiny else ((1, 16, 128), 64, 2000, 8000)
    for cell in (
        _old(DOCUMENTATION, 1),
        Cell(DOCUMENTATION, "extended", extended, "mean", 1),
        Cell(DOCUMENTATION, "replaced", replaced, "mean", 1),
    ):
        decoder, tokenizer = model_of(cell, place, text, [])
        model: Any = decoder.model.to(torch.bfloat16).eval()
        model.generation_config.eos_token_id = None
        share = sum(map(len, dev)) / sum(map(len, tokenizer.encode_batch(dev)))
        for size in sizes:
            prompt = torch.full((size, 1), decoder.start, device=place.device)
            fixed = {"max_new_tokens": tokens, "min_new_tokens": tokens, "do_sample": False, "pad_token_id": 0}

            def write(model: Any = model, prompt: Any = prompt, fixed: Any = fixed) -> None:
                model.generate(prompt, attention_mask=torch.ones_like(prompt), **fixed)

            rate = size * tokens / machine_of(place.device, place.tiny).seconds(write, repeats=2)
            yield {
                "decoding": cell.vocabulary,
                "size": cell.size,
                "batch": size,
                "tokens_a_second": rate,
                "characters_a_second": rate * share,
            }


def affordable(cells: Sequence[Cell], place: Place, rate: float, seconds: float) -> tuple[list[Cell], list[Cell]]:
    """The cells that the time suffices for, in their order, and those that are left out.

    rate: characters a second of all processes together.
    """
    length = cache(lambda text: sum(map(len, place.lines(text, "train"))))
    chosen, left_out = list[Cell](), list[Cell]()
    for cell in cells:
        cost = (length(cell.text) * cell.passes + PREPARATION.get(cell.start, 0) * UPDATE) / rate
        (chosen if cost <= seconds else left_out).append(cell)
        seconds -= cost if cost <= seconds else 0
    return chosen, left_out


def run(cell: Cell, place: Place, out: Path) -> None:
    for row in train(cell, place):
        append(out, row)


def append(out: Path, row: Any) -> None:
    """One line, by one write, as several processes write to the file."""
    with out.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(row) + "\n")
    print(json.dumps(row), flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    args = _parser().parse_args(arguments)
    until = time.monotonic() + 60 * args.minutes
    append(args.out, {"machine": described(machine_of(args.device, args.tiny))})
    with tempfile.TemporaryDirectory() as folder:
        place = invented(Path(folder), args.device) if args.tiny else Place(args.model, args.data, args.device, False)
        measure(place, args.out, args.processes, until)


def measure(place: Place, out: Path, processes: int, until: float) -> None:
    """Append decoding speed and all cells that are not complete yet, as far as the time lasts."""
    rows, all_cells = read_rows(out), TINY if place.tiny else CELLS
    complete = {tuple(row[name] for name in asdict(all_cells[0])) for row in rows if row.get("complete")}
    cells = [cell for cell in all_cells if tuple(asdict(cell).values()) not in complete]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        if not any("decoding" in row for row in rows):
            pool.submit(_decode, place, out).result()
        if not cells:
            return
        speeds = list(pool.map(characters_a_second, repeat(place, processes), repeat(0.1 if place.tiny else 15.0)))
        # An evaluation and the last cells, when processes wait, take a fifth.
        budget = 0.8 * (until - time.monotonic())
        chosen, left_out = affordable(cells, place, sum(speeds), budget)
        append(out, {"characters_a_second": speeds, "left_out": [asdict(cell) for cell in left_out]})
        for done in as_completed([pool.submit(_attempt, run, cell, place, out) for cell in chosen]):
            done.result()


def _decode(place: Place, out: Path) -> None:
    place.on_device()
    for row in decoding(place):
        append(out, row)


def _attempt(work: Callable[[Cell, Place, Path], None], cell: Cell, place: Place, out: Path) -> None:
    """A cell that fails does not end the others."""
    try:
        work(cell, place, out)
    except Exception as error:
        append(out, {**asdict(cell), "error": f"{type(error).__name__}: {error}"[:500]})


TINY = (
    _old(DOCUMENTATION, 1, passes=1),
    _old(DOCUMENTATION, 1, passes=1, untied=True),
    Cell(DOCUMENTATION, "extended", 20, "fitted", 1, passes=1, untied=True),
    Cell(DOCUMENTATION, "extended", 20, "patt", 1, passes=1),
    Cell(DOCUMENTATION, "extended", 20, "random-matched", 1, passes=1),
    Cell(DOCUMENTATION, "replaced", 300, "mean", 1, passes=1),
)


def invented(folder: Path, device: str) -> Place:
    """A small Llama with a byte-level vocabulary, and text."""
    sys.path.insert(0, str(SUPPORT))
    from subgraft.config.models import LlamaSettings
    from subgraft.modeling.bundle import Bundle
    from subgraft.modeling.families import family_named
    from toys import english, german

    tokenizer = learn(english(), kind="byte-level-bpe", size=320)
    shape = LlamaSettings(d_model=32, layers=3, attention_heads=2, key_value_heads=1, ffn_dim=48, max_positions=256)
    Bundle(family_named("llama").build(shape, tokenizer, tokenizer, seed=1), tokenizer, tokenizer).save(
        folder / "model"
    )
    texts = {
        FILES[DOCUMENTATION].format("train"): german(60, 1),
        FILES[DOCUMENTATION].format("dev"): german(8, 2),
        "mono/wiki/en.txt.gz": english(260, 3),
    }
    for name, lines in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    place = Place(folder / "model", folder, device, tiny=True)
    place.on_device()
    return place


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="an invented model and text")
    return parser


if __name__ == "__main__":
    main()
