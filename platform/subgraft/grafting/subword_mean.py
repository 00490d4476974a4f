"""The mean of a token's subwords: a method of its own, and what others fall back to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from subgraft.grafting.alignment import align
from subgraft.grafting.new_rows import NewRows, Request, combined
from subgraft.vocabulary.entry import Entry
from subgraft.vocabulary.tokenizer import Tokenizer


def subwords(source: Tokenizer, entries: Sequence[Entry]) -> list[list[int]]:
    """Ids of each entry's subwords, as the tokenizer cuts it: no bare marks, and nothing for what it does not know."""
    ignored = source.special_ids | {i for i, piece in enumerate(source.pieces) if piece == source.mark.value}
    return [[i for i in ids if i not in ignored] for ids in source.segment_batch(entries)]


def spelled_by(source: Tokenizer, target: Tokenizer) -> tuple[int, ...]:
    """Unseen tokens of `target` that `source` knows a part of; the others it reads as unknown."""
    unseen = align(source, target).unseen
    entries = [entry for token in unseen if (entry := target.entries[token]) is not None]
    return tuple(token for token, parts in zip(unseen, subwords(source, entries), strict=True) if parts)


def mix_subwords(request: Request) -> NewRows:
    """The mean of the token's subwords, as the upstream tokenizer cuts it; of all tokens where it knows none."""
    parts = subwords(request.source, request.entries)
    counts = torch.tensor([len(ids) for ids in parts] + [0] * request.others, dtype=torch.long)
    rows = torch.repeat_interleave(torch.arange(len(counts)), counts)
    tokens = torch.tensor([i for ids in parts for i in ids], dtype=torch.long)
    found = combined(request.side, rows, tokens, 1.0 / counts[rows], len(counts))
    return replace(found, fallbacks={"mean": sum(not ids for ids in parts)})
