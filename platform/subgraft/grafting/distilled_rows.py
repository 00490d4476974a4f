"""Rows that were distilled for one model and one new vocabulary, and the initialiser that takes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from subgraft.errors import UserError
from subgraft.grafting.generator import table_digest
from subgraft.grafting.new_rows import NewRows, Request
from subgraft.grafting.similar import count_fallbacks
from subgraft.grafting.subword_mean import mix_subwords, subwords
from subgraft.grafting.token_tensors import load_beside, save_beside
from subgraft.models.sides import Side
from subgraft.vocabulary.entry import Entry
from subgraft.vocabulary.tokenizer import Tokenizer

_NAME = "distilled_rows"
_MEND = "Give the output of a token-distillation step for this model and this vocabulary."


@dataclass(frozen=True)
class DistilledRows:
    """One side's input rows. A directory of them also holds the new vocabulary, so it can say whose they are.

    tokenizer   the new vocabulary
    tokens      int64 [n], ids of the tokens that have a row
    rows        float32 [n, d]
    model       digest of the upstream input table that they stand beside
    vocabulary  fingerprint of the upstream vocabulary
    """

    tokenizer: Tokenizer
    tokens: Tensor
    rows: Tensor
    model: str
    vocabulary: str

    def save(self, directory: Path) -> None:
        tensors = {"tokens": self.tokens, "rows": self.rows}
        save_beside(directory, _NAME, self.tokenizer, tensors, {"model": self.model, "upstream": self.vocabulary})

    @classmethod
    def load(cls, directory: Path) -> DistilledRows:
        """Raises UserError where `directory` holds none, or none that this version can read."""
        tokenizer, tensors, record = load_beside(directory, _NAME, "distilled rows", _MEND)
        return cls(tokenizer, tensors["tokens"], tensors["rows"], record["model"], record["upstream"])

    def check(self, side: Side, source: Tokenizer, entries: Sequence[Entry], where: str) -> None:
        """Raises UserError where these are rows for another model or another new vocabulary."""
        if (self.model, self.vocabulary) != origin(side, source):
            raise UserError(f"these rows were distilled for another model's {side.name}", where=where, mend=_MEND)
        if not all(entry in self.tokenizer.ids for entry in entries):
            raise UserError("these rows were distilled for another new vocabulary", where=where, mend=_MEND)


def take_distilled(request: Request) -> NewRows:
    """The distilled input rows; what was not distilled, and untied output rows and the bias, by the mean of subwords.

    Distillation says nothing about a token as an output. A tied table has one row for both, so there it is both.
    Raises UserError without distilled rows, and for those of another model or vocabulary.
    """
    if request.distilled is None:
        raise UserError("this method needs distilled rows of the new vocabulary", mend=_MEND)
    found = DistilledRows.load(request.distilled)
    found.check(request.side, request.source, request.entries, str(request.distilled))
    place = {token: i for i, token in enumerate(found.tokens.tolist())}
    places = [place.get(found.tokenizer.ids[entry]) for entry in request.entries]
    known = [i for i, at in enumerate(places) if at is not None]
    means = mix_subwords(request)
    rows = means.input.clone()
    rows[known] = found.rows[[at for at in places if at is not None]].to(rows.dtype)
    lacking = [entry for entry, at in zip(request.entries, places, strict=True) if at is None]
    instead = count_fallbacks(parts.fallback for parts in subwords(request.source, lacking))
    fallbacks = {"subwords": len(lacking) - sum(instead.values()), **instead}
    return replace(means, input=rows, fallbacks=fallbacks, matrix=None)


def origin(side: Side, source: Tokenizer) -> tuple[str, str]:
    """What rows are bound to: the digest of the side's input table, and its vocabulary's fingerprint."""
    return table_digest(side.input.weight), source.fingerprint
