"""Prompt ranking: whether a model finds the source that a text was written for among others (Fan et al., ACL 2018).

The text's probability is taken given its own source and given nine others; the model is right where its own gives the
highest (Ziegler et al. 2019, section 4.3). A model that knows nothing of sources is right in a tenth.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from subgraft.base.errors import UserError

# Nats that sums in single precision may differ by where nothing differs.
_ALIKE = 1e-3


def candidates(sources: Sequence[Hashable], count: int, seed: int, texts: int | None = None) -> NDArray[np.int64]:
    """Places [texts, count] in `sources`: of each text its own first, then of others that are not equal to it.

    The others are drawn by the seed, no two of them equal; where there are fewer different sources than `count`, a text
    gets all of them. texts: the first so many; all where None. Raises UserError where there are not two.
    """
    first: dict[Hashable, int] = {}
    for place, source in enumerate(sources):
        first.setdefault(source, place)
    if len(first) < 2:
        raise UserError("a source cannot be ranked: the test set has but one", hint="Ranking needs two that differ.")
    places, draws = np.array(list(first.values())), np.random.default_rng(seed)
    chosen = []
    for place, source in enumerate(sources[:texts]):
        others = places[places != first[source]]
        chosen.append([place, *draws.choice(others, size=min(count, len(first)) - 1, replace=False)])
    return np.array(chosen, dtype=np.int64)


def found(nats: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of each text [n], whether its own source makes it the likeliest; of k sources that do so alike, 1 / k.

    nats: negative log-likelihoods [n, candidates], of its own source first.
    """
    best = nats <= nats.min(axis=1, keepdims=True) + _ALIKE
    return np.asarray(best[:, 0] / best.sum(axis=1), dtype=np.float64)
