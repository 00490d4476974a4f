"""Ways to give the tokens of a new vocabulary their first rows.

Each answers a `Request` with rows for the input table, and for the output projection and its bias where the side has
them. Mixing weights come from the input table and are applied to all three, so that a token's tables agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from subgraft.errors import UserError
from subgraft.grafting.generator import Generator, GeneratorKind, RaggedSimilar, check_origin, load_generator, mix
from subgraft.grafting.similar import SimilarTokenFinder
from subgraft.models.sides import Side
from subgraft.vocabulary.entry import Entry
from subgraft.vocabulary.tokenizer import Tokenizer


@dataclass(frozen=True)
class Request:
    """Which rows are wanted, and from what.

    side, source   the upstream side and its vocabulary
    entries        the unseen subwords
    others         how many more tokens there are that are no text; a mixture has nothing to go by there: the mean row
    scale          standard deviation of `random`
    max_similar    cap on |Sm(w)| for `avg`; a trained generator brings its own
    generator      the directory of a trained generator, for `att` and `patt`
    """

    side: Side
    source: Tokenizer
    entries: Sequence[Entry]
    others: int
    scale: float
    seed: int
    max_similar: int
    generator: Path | None


@dataclass(frozen=True)
class NewRows:
    """Rows of n = len(entries) + others tokens: input [n, d], output [n, d] where it is not tied, bias [n].

    fallbacks: how many tokens were given something else than the method's own answer, by what it was.
    scale: the standard deviation they were drawn with, where it is one number.
    """

    input: Tensor
    output: Tensor | None
    bias: Tensor | None
    fallbacks: Mapping[str, int]
    scale: float | None = None


Initialiser = Callable[[Request], NewRows]


def draw_random(request: Request) -> NewRows:
    """N(0, scale²), as the model's own weights were drawn; no bias."""
    rows = _drawn(request, lambda noise, table: noise * request.scale)
    return replace(rows, scale=request.scale)


def draw_matched(request: Request) -> NewRows:
    """Normal with the mean and the standard deviation that each dimension of the upstream table has; no bias."""

    def matched(noise: Tensor, table: Tensor) -> Tensor:
        variance, mean = torch.var_mean(table, dim=0)
        return noise * variance.sqrt() + mean

    return _drawn(request, matched)


def _drawn(request: Request, fit: Callable[[Tensor, Tensor], Tensor]) -> NewRows:
    # The two sides of a model must not get the same noise.
    randomness = torch.Generator().manual_seed(2 * request.seed + (request.side.name == "decoder"))
    count = len(request.entries) + request.others

    def draw(table: Tensor | None) -> Tensor | None:
        if table is None:
            return None
        return fit(torch.randn(count, table.shape[1], generator=randomness), table)

    tables = _tables(request.side)
    drawn = draw(tables.input)
    assert drawn is not None
    return NewRows(drawn, draw(tables.output), None if tables.bias is None else torch.zeros(count), {})


def mix_subwords(request: Request) -> NewRows:
    """The mean of the token's subwords, as the upstream tokenizer cuts it; of all tokens where it knows none."""
    source = request.source
    ignored = source.special_ids | {i for i, piece in enumerate(source.pieces) if piece == source.mark.value}
    parts = [[i for i in ids if i not in ignored] for ids in source.segment_batch(request.entries)]
    counts = torch.tensor([len(ids) for ids in parts] + [0] * request.others, dtype=torch.long)
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)])
    rows = torch.repeat_interleave(torch.arange(len(counts)), counts)
    tokens = torch.tensor([i for ids in parts for i in ids], dtype=torch.long)
    similar = RaggedSimilar(offsets, tokens, torch.zeros_like(tokens), rows)
    unknown = sum(not ids for ids in parts)
    return _mixed(request.side, similar, lambda table: 1.0 / counts[rows], {"mean": unknown})


def mix_similar(request: Request, kind: GeneratorKind) -> NewRows:
    """The generator's mixture of the token's similar tokens.

    Raises UserError for a generator that is missing, of another kind, or made for another model.
    """
    generator, max_similar = _generator(request, kind)
    found = SimilarTokenFinder(request.source, max_similar).find(request.entries)
    # The tokens that are no text come last, as rows without similar tokens.
    offsets = np.append(found.offsets, np.full(request.others, found.offsets[-1]))
    similar = RaggedSimilar.from_numpy(replace(found, offsets=offsets))
    return _mixed(
        request.side, similar, lambda table: generator.mixing_weights(table, similar), found.fallback_counts()
    )


def _generator(request: Request, kind: GeneratorKind) -> tuple[Generator, int]:
    table = request.side.input.weight
    if kind == "avg":
        if request.generator is not None:
            raise UserError("avg has nothing to train, so it takes no generator", where=str(request.generator))
        return Generator("avg", table.shape[1]), request.max_similar
    if request.generator is None:
        raise UserError(f"{kind} needs a trained generator", mend="Give its directory, or use avg.")
    generator, origin = load_generator(request.generator, request.side.name)
    if generator.kind != kind:
        raise UserError(f"this is a generator of kind {generator.kind}, not {kind}", where=str(request.generator))
    check_origin(origin, table, request.source.fingerprint, str(request.generator))
    return generator, origin.max_similar


@dataclass(frozen=True)
class _Tables:
    """A side's tables in single precision: input [V, d], output [V, d] where it is not tied, bias [V, 1]."""

    input: Tensor
    output: Tensor | None
    bias: Tensor | None


def _tables(side: Side) -> _Tables:
    output = None if side.output is None or side.tied else side.output.weight.detach().float()
    bias = None if side.bias is None else side.bias.detach().float().reshape(-1, 1)
    return _Tables(side.input.weight.detach().float(), output, bias)


@torch.no_grad()
def _mixed(
    side: Side, similar: RaggedSimilar, weigh: Callable[[Tensor], Tensor], fallbacks: Mapping[str, int]
) -> NewRows:
    tables = _tables(side)
    weights = weigh(tables.input)
    output = None if tables.output is None else mix(tables.output, weights, similar)
    bias = None if tables.bias is None else mix(tables.bias, weights, similar).flatten()
    return NewRows(mix(tables.input, weights, similar), output, bias, fallbacks)


METHODS: Mapping[str, Initialiser] = {
    "random": draw_random,
    "random-matched": draw_matched,
    "mean": mix_subwords,
    "avg": partial(mix_similar, kind="avg"),
    "att": partial(mix_similar, kind="att"),
    "patt": partial(mix_similar, kind="patt"),
}

# Those that need a trained generator, and those whose rows depend on a seed.
TRAINED_METHODS = frozenset({"att", "patt"})
SEEDED_METHODS = frozenset({"random", "random-matched"})


def initialiser(method: str) -> Initialiser:
    """The initialiser of this name. Raises UserError, listing the choices, for a name that is not known."""
    if method not in METHODS:
        raise UserError(f"unknown method {method!r}", mend=f"Choose among {', '.join(METHODS)}.")
    return METHODS[method]
