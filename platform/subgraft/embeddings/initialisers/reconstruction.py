"""Reconstruction of embeddings from characters (Zhao, Mudgal and Liang, EMNLP 2018, section 2).

A token's embedding is the mean of the vectors of its character n-grams. The vectors are fitted to the upstream
embeddings by least squares. The paper uses stochastic gradient descent; the error is quadratic, so conjugate gradients
converge in a few dozen steps without a seed. The number of steps is selected on every tenth token, held out; then all
tokens are fitted with as many steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from subgraft.embeddings.initialisers.new_rows import InitialiserInputs, NewRows, mean_row, mix_others
from subgraft.modeling.sides import FloatTables
from subgraft.subwords.vocabulary.entry import Entry

LONGEST = 6  # characters of an n-gram, the paper's limit
STEPS = 30
_HELD_OUT = 10  # every tenth token
# Private-use characters that mark the beginning of a word, the beginning of a continuation, and the end of a token.
_WORD, _INSIDE, _END = "\ue000", "\ue001", "\ue002"


def reconstruct(request: InitialiserInputs) -> NewRows:
    """Rows reconstructed from n-grams, for all tables at once; tokens with unknown n-grams only get the mean row."""
    source, tables = request.source, FloatTables.of(request.side)
    ids = torch.tensor(list(source.ids.values()), dtype=torch.long)
    bags = [character_ngrams(entry) for entry in source.ids]
    numbers = shared_ngrams(bags)
    targets = tables.joined()
    mean = mean_row(targets, torch.from_numpy(source.ordinary_ids))
    vectors = fit_ngrams(incidence(bags, numbers), targets[ids] - mean)
    requested = incidence([character_ngrams(entry) for entry in request.entries], numbers)
    unknown = len(request.entries) - len(requested.indices()[0].bincount().nonzero())
    rows = torch.cat([requested @ vectors + mean, mix_others(request).mix(targets)])
    return NewRows.of_joined(rows, tables, {"mean": unknown})


def character_ngrams(entry: Entry) -> list[str]:
    """All n-grams of up to six characters, including markers of the token's ends."""
    marked = (_WORD if entry.word_initial else _INSIDE) + entry.surface + _END
    size = len(marked)
    runs = (marked[i : i + n] for n in range(1, LONGEST + 1) for i in range(size - n + 1))
    return [run for run in runs if run not in (_WORD, _INSIDE, _END)]


def shared_ngrams(bags: Sequence[Sequence[str]]) -> dict[str, int]:
    """Indices of the n-grams that occur in at least two tokens; others would memorise one token's row."""
    # A dict instead of a set, whose order, and thus the rounding of sums, would differ between processes.
    tokens = Counter(ngram for bag in bags for ngram in dict.fromkeys(bag))
    return {ngram: number for number, ngram in enumerate(n for n, count in tokens.items() if count > 1)}


def incidence(bags: Sequence[Sequence[str]], numbers: Mapping[str, int]) -> Tensor:
    """Sparse matrix [tokens, n-grams] of each n-gram's share in its token's bag: its product is a mean."""
    known = [[numbers[ngram] for ngram in bag if ngram in numbers] for bag in bags]
    counts = np.array([len(bag) for bag in known], dtype=np.int64)
    rows = np.repeat(np.arange(len(known)), counts)
    columns = np.fromiter((number for bag in known for number in bag), dtype=np.int64, count=int(counts.sum()))
    indices = torch.from_numpy(np.stack([rows, columns]))
    shares = torch.from_numpy(1.0 / counts[rows]).float()
    size = (len(bags), len(numbers))
    return torch.sparse_coo_tensor(indices, shares, size, check_invariants=True).coalesce()


def fit_ngrams(bags: Tensor, targets: Tensor, steps: int = STEPS) -> Tensor:
    """Vectors [n-grams, d] whose means by bag approximate the targets [tokens, d]."""
    held_out = torch.arange(len(targets)) % _HELD_OUT == _HELD_OUT - 1
    if not bool(held_out.any()):
        return _conjugate_gradients(bags, targets, steps)[0]
    training, validation = (bags.index_select(0, mask.nonzero().flatten()) for mask in (~held_out, held_out))
    _, best_step = _conjugate_gradients(training, targets[~held_out], steps, (validation, targets[held_out]))
    return _conjugate_gradients(bags, targets, best_step)[0]


def _conjugate_gradients(
    bags: Tensor, targets: Tensor, steps: int, validation: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, int]:
    """Least-squares vectors after `steps` steps from zero, all columns at once, and the best step on `validation`."""
    transposed = bags.t().coalesce()
    vectors = torch.zeros(bags.shape[1], targets.shape[1])
    residual = targets.clone()
    gradient = transposed @ residual
    direction, size = gradient.clone(), gradient.square().sum(0)
    best_step, best_error = 0, torch.inf if validation is None else float(validation[1].square().mean())
    for step in range(1, steps + 1):
        change = bags @ direction
        # A column that is already solved has zero gradient and direction.
        length = size / change.square().sum(0).clamp_min(torch.finfo(size.dtype).tiny)
        vectors += length * direction
        residual -= length * change
        gradient = transposed @ residual
        before, size = size, gradient.square().sum(0)
        direction = gradient + size / before.clamp_min(torch.finfo(size.dtype).tiny) * direction
        if validation is not None:
            error = float((validation[0] @ vectors - validation[1]).square().mean())
            best_step, best_error = (step, error) if error < best_error else (best_step, best_error)
    return vectors, best_step
