"""Similar tokens of simulated tokens, each looked up once however often it is drawn again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from subgraft.embeddings.generators.cheapest_cuts import CheapestCuts
from subgraft.embeddings.generators.generator import RaggedSimilar
from subgraft.embeddings.generators.resegment import SimulatedToken
from subgraft.subwords.similar_tokens.finder import Relation, SimilarTokenFinder, related_subwords
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

_Pairs = tuple[NDArray[np.int64], NDArray[np.int8]]  # ids and relations


class SimilarCache:
    """Sm(w) of simulated tokens: as the finder has it, or cut to the given numbers of subwords and hyperwords."""

    def __init__(self, tokenizer: Tokenizer, max_similar: int) -> None:
        self._finder = SimilarTokenFinder(tokenizer, max_similar)
        self._ordinary = torch.from_numpy(tokenizer.ordinary_ids)
        self._known: dict[SimulatedToken, _Pairs] = {}

    def __call__(self, tokens: Sequence[SimulatedToken]) -> RaggedSimilar:
        missing = [token for token in tokens if token not in self._known]
        if missing:
            found = self._finder.find([token.entry for token in missing])
            for row, token in enumerate(missing):
                pairs = slice(found.offsets[row], found.offsets[row + 1])
                self._known[token] = self._limited(token, found.token_ids[pairs], found.relations[pairs])
        rows = [self._known[token] for token in tokens]
        sizes = torch.tensor([len(ids) for ids, _ in rows], dtype=torch.long)
        offsets = torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)])
        empty = np.zeros(0, dtype=np.int64)
        return RaggedSimilar(
            offsets,
            torch.from_numpy(np.concatenate([empty, *(ids for ids, _ in rows)])).long(),
            torch.from_numpy(np.concatenate([empty, *(relations for _, relations in rows)])).long(),
            torch.repeat_interleave(torch.arange(len(rows)), sizes),
            self._ordinary,
        )

    @cached_property
    def _cuts(self) -> CheapestCuts:
        return CheapestCuts(self._finder.tokenizer)

    def _limited(self, token: SimulatedToken, ids: NDArray[np.int64], relations: NDArray[np.int8]) -> _Pairs:
        """What the finder found, cut to the given numbers of subwords and hyperwords."""
        if token.subwords is None or token.hyperwords is None:
            return ids, relations
        cut = self._cuts.of(token.entry)[token.subwords]
        assert cut is not None, token
        subwords, their_relations = related_subwords(cut)
        longer = np.flatnonzero(relations >= Relation.PREFIX_HYPERWORD)[: token.hyperwords]
        return np.concatenate([subwords, ids[longer]]), np.concatenate([their_relations, relations[longer]])
