"""What a start can bring at most: ways of making new rows, fitted on the task's own loss with all else frozen.

    python studies/ceiling.py --model MODEL --vocabulary DIR --corpus DIR --languages en-fr [--steps 400] [--out FILE]

MODEL, the vocabulary and the corpus are artifacts of a run, under .subgraft/store/{pretrain,vocabulary,corpus}. The
decoder gets the vocabulary; its new rows are, by turns,

    mean, avg   as the initialisers make them: nothing is fitted
    patt        mixtures of similar tokens whose six vectors W are fitted (Liu et al. 2021, equation 3): what the
                generator could bring if it had been trained on nothing but the task
    affine      the mean of the subwords through a fitted linear map and an offset, one of each for all tokens
    rows        free rows that begin at the mean: no generator at all

and the dev set's bits per character after so many steps are printed as Markdown, and written as JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from subgraft.config.corpora import Languages
from subgraft.data.text.batches import BatchPlan
from subgraft.data.text.corpus import Corpus
from subgraft.embeddings.generators.generator import Generator, RaggedSimilar, mix
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.evaluation.metrics.bits_per_character import bits_per_character, count_characters
from subgraft.interfaces.cli.arguments import language_pair
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import side, without_dropout
from subgraft.subwords.similar_tokens.finder import SimilarTokenFinder
from subgraft.subwords.vocabulary.alignment import align
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.seq2seq import Seq2SeqBatch, Seq2SeqData, Seq2SeqLoss
from subgraft.training.objectives.compute.translation import Translation

# Dev sentences and their batches, as finetunings are watched; steps after which they are scored.
DEV_SENTENCES, DEV_TOKENS = 200, 4000
MARKS = (0, 50, 100, 200, 400, 800, 1600)


class Way(NamedTuple):
    """How rows are made [n, d], what of it is fitted, and at which learning rate of Adam."""

    name: str
    rows: nn.Module
    learning_rate: float


class Mixture(nn.Module):
    """Rows by a generator over similar tokens; its W is what is fitted."""

    def __init__(self, generator: Generator, table: Tensor, similar: RaggedSimilar) -> None:
        super().__init__()
        self.generator = generator
        self._table, self._similar = table, similar

    def forward(self) -> Tensor:
        return mix(self._table, self.generator.mixing_weights(self._table, self._similar), self._similar)


class Affine(nn.Module):
    """Given rows through a linear map and an offset, initialised as the identity and zero."""

    def __init__(self, rows: Tensor) -> None:
        super().__init__()
        self._rows = rows
        self.map = nn.Parameter(torch.eye(rows.shape[1]))
        self.offset = nn.Parameter(torch.zeros(rows.shape[1]))

    def forward(self) -> Tensor:
        return self._rows @ self.map + self.offset


class Free(nn.Module):
    """The rows themselves."""

    def __init__(self, rows: Tensor) -> None:
        super().__init__()
        self.rows = nn.Parameter(rows.clone())

    def forward(self) -> Tensor:
        return self.rows


class Ceiling:
    """A frozen model with the task's vocabulary, whose new rows on the decoder's side come from elsewhere."""

    def __init__(self, model: Path, vocabulary: Tokenizer, corpus: Corpus, languages: Languages) -> None:
        upstream = Bundle.load(model)
        self.table = side(upstream.model, "decoder").input.weight.detach().clone()
        alignment = align(upstream.decoder, vocabulary)
        self.tokens = torch.tensor(alignment.unseen, dtype=torch.long)
        entries = [entry for token in alignment.unseen if (entry := vocabulary.entries[token]) is not None]
        similar = SimilarTokenFinder(upstream.decoder).find(entries)
        self.similar = RaggedSimilar.from_numpy(similar, upstream.decoder.ordinary_ids)
        made, _, _ = transplant(upstream.model, upstream.tokenizers, {"decoder": vocabulary}, Method("mean"))
        self.bundle = Bundle(made, upstream.encoder, vocabulary)
        without_dropout(made.requires_grad_(False))
        self.loss = Seq2SeqLoss(made)
        self._place = side(made, "decoder").input.weight
        self._name = next(name for name, parameter in self.loss.named_parameters() if parameter is self._place)
        self.mean = self._place.detach()[self.tokens].clone()
        self.train = self._data(list(corpus.pairs("train")), languages)
        dev = list(corpus.pairs("dev"))[:DEV_SENTENCES]
        self.dev = self._data(dev, languages)
        self._characters = count_characters(target for _, target in dev)

    def _data(self, pairs: list[tuple[str, str]], languages: Languages) -> Seq2SeqData:
        form, room = self.bundle.sequence_format(languages), self.bundle.max_positions
        examples = Translation(pairs, self.bundle.encoder, self.bundle.decoder, form, room)
        return Seq2SeqData(examples, *self.bundle.padding)

    def __call__(self, batch: Seq2SeqBatch, rows: Tensor) -> Tensor:
        """The summed loss of a batch under these new rows."""
        table = self._place.detach().index_copy(0, self.tokens, rows)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            outputs = torch.func.functional_call(self.loss, {self._name: table}, (batch,), tie_weights=True)
        loss: Tensor = outputs["loss"]
        return loss

    @torch.no_grad()
    def bits(self, rows: Tensor) -> float:
        """Bits per character of the dev set."""
        batches = BatchPlan(self.dev.lengths, DEV_TOKENS, seed=0).epoch(0)
        return bits_per_character(
            sum(float(self(self.dev.batch(indices, 0), rows)) for indices in batches), self._characters
        )


def ways(ceiling: Ceiling, rows_rate: float) -> Iterator[Way]:
    width = ceiling.table.shape[1]
    for kind in ("avg", "patt"):
        yield Way(kind, Mixture(Generator(kind, width), ceiling.table, ceiling.similar), 1e-2)
    yield Way("affine", Affine(ceiling.mean), 1e-3)
    yield Way("rows", Free(ceiling.mean), rows_rate)


def fitted(ceiling: Ceiling, way: Way, steps: int, pairs: int, seed: int) -> dict[int, float]:
    """Dev bits per character by steps of Adam on random pairs of the task; at 0 only where nothing is fitted."""
    parameters = [parameter for parameter in way.rows.parameters() if parameter.numel()]
    curve = {0: ceiling.bits(way.rows())}
    if not parameters:
        return curve
    optimizer = torch.optim.Adam(parameters, lr=way.learning_rate)
    drawn = np.random.default_rng(seed)
    for step in range(1, steps + 1):
        batch = ceiling.train.batch(drawn.choice(len(ceiling.train.lengths), pairs, replace=False), 0)
        loss = ceiling(batch, way.rows()) / batch.counts["loss"]
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step in MARKS or step == steps:
            curve[step] = ceiling.bits(way.rows())
    return curve


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", type=Path, required=True)
    options.add_argument("--vocabulary", type=Path, required=True)
    options.add_argument("--corpus", type=Path, required=True)
    options.add_argument("--languages", type=language_pair, required=True)
    options.add_argument("--steps", type=int, default=400)
    options.add_argument("--pairs", type=int, default=40)
    options.add_argument("--rows-rate", type=float, default=4e-3, help="learning rate of free rows")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--out", type=Path, help="a file for the figures as JSON")
    args = options.parse_args()
    torch.set_num_threads(args.threads)
    ceiling = Ceiling(args.model, Tokenizer.load(args.vocabulary), Corpus.open(args.corpus), args.languages)
    curves = {"mean": {0: ceiling.bits(ceiling.mean)}}
    for way in ways(ceiling, args.rows_rate):
        started = time.perf_counter()
        curves[way.name] = fitted(ceiling, way, args.steps, args.pairs, args.seed)
        print(f"{way.name}: {time.perf_counter() - started:.0f} s", flush=True)
    print(_table(curves, len(ceiling.tokens)))
    if args.out:
        args.out.write_text(json.dumps(curves, indent=1) + "\n")


def _table(curves: Mapping[str, Mapping[int, float]], tokens: int) -> str:
    marks = sorted({step for curve in curves.values() for step in curve})
    lines = [f"{tokens:,} new tokens; dev bits per character after so many steps", ""]
    lines += ["| rows | " + " | ".join(map(str, marks)) + " |", "|---|" + "---|" * len(marks)]
    for name, curve in curves.items():
        lines.append(f"| {name} | " + " | ".join(f"{curve[m]:.3f}" if m in curve else "" for m in marks) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
