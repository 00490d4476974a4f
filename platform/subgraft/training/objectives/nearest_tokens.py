"""The nearest tokens of some tokens: those whose rows of a table have the largest inner products with theirs.

They are searched exactly, by products of blocks of rows with the whole table, and for the tokens that are asked for
alone: neighbours of all tokens of a large vocabulary cost more than hundreds of steps save
(benchmarks/target_sampling.py). An index over the table (faiss) took two to three times as long for the same result.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from subgraft.training.objectives.logit_slices import slice_rows
from subgraft.training.objectives.distributed import Workers, gathered


@dataclass(frozen=True)
class NearestTokens:
    """Tokens [m], ascending, and the nearest of each [m, k], in no order."""

    tokens: Tensor
    neighbours: Tensor

    @classmethod
    def none(cls) -> NearestTokens:
        """Of no token."""
        return cls(torch.zeros(0, dtype=torch.int32), torch.zeros(0, 0, dtype=torch.int32))

    @classmethod
    def searched(cls, table: Tensor, tokens: Tensor, count: int, workers: Workers) -> NearestTokens:
        """The `count` nearest by a table [V, d]: every worker searches those of its share of the tokens [m].

        All workers get the same, to the bit, whatever devices they are on.
        """
        own = tokens[workers.rank :: workers.world].to(table.device)
        found = gathered(nearest(table, own, count).int(), len(tokens), workers.device)
        return cls(tokens.int(), found.cpu())

    @property
    def tensors(self) -> dict[str, Tensor]:
        return {"tokens": self.tokens, "neighbours": self.neighbours}

    def around(self, marks: Tensor) -> Tensor:
        """Bool [V]: the nearest tokens of those that are marked, bool [V]. Raises ValueError for one of none known."""
        known = torch.zeros_like(marks)
        known[self.tokens] = True
        if bool((marks & ~known).any()):
            raise ValueError("a target whose nearest tokens were not searched")
        near = torch.zeros_like(marks)
        near[self.neighbours[marks[self.tokens]].flatten()] = True
        return near


@torch.no_grad()
def nearest(table: Tensor, tokens: Tensor, count: int) -> Tensor:
    """Of each token [m] the `count` rows of a table [V, d] with the largest inner products with its own [m, count]."""
    blocks = torch.split(tokens, slice_rows(*table.shape))
    found = [(table[block] @ table.T).topk(count, sorted=False).indices for block in blocks]
    return torch.cat(found) if found else torch.zeros(0, count, dtype=torch.long)
