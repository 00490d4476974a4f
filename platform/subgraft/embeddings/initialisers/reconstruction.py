"""Rows rebuilt from the characters of a token (Zhao, Mudgal and Liang, EMNLP 2018, section 2).

A token is a bag of character n-grams, and its row the mean of their vectors. The vectors are trained on the upstream
vocabulary and its rows, to reproduce them with the least mean squared error. The paper takes stochastic gradient steps;
the error is quadratic, so conjugate gradients get there in a few dozen steps and without a seed. Steps end where the
error on every tenth token, held out, is least. Then all tokens are trained on, for as many steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from subgraft.embeddings.generators.generator import mean_row
from subgraft.embeddings.initialisers.new_rows import FloatTables, NewRows, Request
from subgraft.subwords.vocabulary.entry import Entry

LONGEST = 6  # characters of an n-gram, the paper's limit
STEPS = 30
_HELD_OUT = 10  # every tenth token
# Characters for private use, which no text spells: where a word begins, where a token continues one, where it ends.
_WORD, _INSIDE, _END = "\ue000", "\ue001", "\ue002"


def reconstruct(request: Request) -> NewRows:
    """Rows by their n-grams, for all tables at once; the mean row for a token whose n-grams are all unknown."""
    source, tables = request.source, FloatTables.of(request.side)
    ids = torch.tensor(list(source.ids.values()), dtype=torch.long)
    bags = [character_ngrams(entry) for entry in source.ids]
    numbers = shared_ngrams(bags)
    targets = tables.joined()
    mean = mean_row(targets, torch.from_numpy(source.ordinary_ids))
    vectors = fit_ngrams(incidence(bags, numbers), targets[ids] - mean)
    wanted = incidence([character_ngrams(entry) for entry in request.entries], numbers)
    unknown = len(request.entries) - len(wanted.indices()[0].bincount().nonzero())
    rebuilt = torch.cat([wanted @ vectors, torch.zeros(request.others, targets.shape[1])]) + mean
    return replace(tables.rows(rebuilt, {}), fallbacks={"mean": unknown})


def character_ngrams(entry: Entry) -> list[str]:
    """Every run of up to six characters, the token's ends among them; a word's beginning differs from a middle."""
    marked = (_WORD if entry.word_initial else _INSIDE) + entry.surface + _END
    size = len(marked)
    runs = (marked[i : i + n] for n in range(1, LONGEST + 1) for i in range(size - n + 1))
    return [run for run in runs if run not in (_WORD, _INSIDE, _END)]


def shared_ngrams(bags: Sequence[Sequence[str]]) -> dict[str, int]:
    """Numbers of the n-grams that at least two tokens have: one token's own would learn its row by heart."""
    # Not a set: its order, and with it the last digits of every sum, would differ from process to process.
    tokens = Counter(ngram for bag in bags for ngram in dict.fromkeys(bag))
    return {ngram: number for number, ngram in enumerate(n for n, count in tokens.items() if count > 1)}


def incidence(bags: Sequence[Sequence[str]], numbers: Mapping[str, int]) -> Tensor:
    """Sparse [tokens, n-grams]: the share of each n-gram in its token's bag, so that a product is a mean."""
    known = [[numbers[ngram] for ngram in bag if ngram in numbers] for bag in bags]
    counts = np.array([len(bag) for bag in known], dtype=np.int64)
    rows = np.repeat(np.arange(len(known)), counts)
    columns = np.fromiter((number for bag in known for number in bag), dtype=np.int64, count=int(counts.sum()))
    indices = torch.from_numpy(np.stack([rows, columns]))
    shares = torch.from_numpy(1.0 / counts[rows]).float()
    size = (len(bags), len(numbers))
    return torch.sparse_coo_tensor(indices, shares, size, check_invariants=True).coalesce()


def fit_ngrams(bags: Tensor, targets: Tensor, steps: int = STEPS) -> Tensor:
    """Vectors [n-grams, d] whose means by bag come near the targets [tokens, d]."""
    held_out = torch.arange(len(targets)) % _HELD_OUT == _HELD_OUT - 1
    if not bool(held_out.any()):
        return _conjugate_gradients(bags, targets, steps)[0]
    training, judged = (bags.index_select(0, chosen.nonzero().flatten()) for chosen in (~held_out, held_out))
    _, best = _conjugate_gradients(training, targets[~held_out], steps, (judged, targets[held_out]))
    return _conjugate_gradients(bags, targets, best)[0]


def _conjugate_gradients(
    bags: Tensor, targets: Tensor, steps: int, judge: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, int]:
    """Vectors after `steps` steps on the least squares from zero, all columns side by side, and the best step."""
    transposed = bags.t().coalesce()
    vectors = torch.zeros(bags.shape[1], targets.shape[1])
    residual = targets.clone()
    gradient = transposed @ residual
    direction, size = gradient.clone(), gradient.square().sum(0)
    best, least = 0, torch.inf if judge is None else float(judge[1].square().mean())
    for step in range(1, steps + 1):
        change = bags @ direction
        # A column that is solved already has neither gradient nor direction.
        length = size / change.square().sum(0).clamp_min(torch.finfo(size.dtype).tiny)
        vectors += length * direction
        residual -= length * change
        gradient = transposed @ residual
        before, size = size, gradient.square().sum(0)
        direction = gradient + size / before.clamp_min(torch.finfo(size.dtype).tiny) * direction
        if judge is not None:
            error = float((judge[0] @ vectors - judge[1]).square().mean())
            best, least = (step, error) if error < least else (best, least)
    return vectors, best
