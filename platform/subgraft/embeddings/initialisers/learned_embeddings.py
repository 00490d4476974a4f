"""Learned rows on disk, bound to one model and one new vocabulary, and the initialisers that read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from subgraft.base.errors import UserError
from subgraft.embeddings.generators.generator import table_digest
from subgraft.embeddings.initialisers.new_rows import InitialiserInputs, NewRows, mix_subwords
from subgraft.embeddings.initialisers.token_tensors import load_token_tensors, save_token_tensors
from subgraft.modeling.sides import Side
from subgraft.subwords.similar_tokens.finder import count_fallbacks
from subgraft.subwords.similar_tokens.token_subwords import subwords
from subgraft.subwords.vocabulary.entry import Entry
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

_NAME = "distilled_rows"
_HINT = "Give the rows that a run's step made for this model and this vocabulary."
_FIRST_METHOD = "token-distillation"  # the default, which records do not contain


@dataclass(frozen=True)
class LearnedEmbeddings:
    """Learned embeddings of one side. Their directory includes the new vocabulary.

    Attributes:
        tokenizer: the new vocabulary.
        tokens: int64 [n], ids of the tokens with a row.
        rows: float32 [n, d], input embeddings.
        model: digest of the upstream input embeddings.
        vocabulary: fingerprint of the upstream vocabulary.
        method: the initialiser that reads them.
        others: float32 rows of the other tables that the method trains: output [n, d], bias [n].
    """

    tokenizer: Tokenizer
    tokens: Tensor
    rows: Tensor
    model: str
    vocabulary: str
    method: str = _FIRST_METHOD
    others: Mapping[str, Tensor] = field(default_factory=dict)

    def save(self, directory: Path) -> None:
        tensors = {"tokens": self.tokens, "rows": self.rows, **self.others}
        record = {"model": self.model, "upstream": self.vocabulary}
        record |= {"method": self.method} if self.method != _FIRST_METHOD else {}
        save_token_tensors(directory, _NAME, self.tokenizer, tensors, record)

    @classmethod
    def load(cls, directory: Path) -> LearnedEmbeddings:
        """Load rows from a directory. Raises UserError if there are none that this version can read."""
        tokenizer, tensors, record = load_token_tensors(directory, _NAME, "distilled rows", _HINT)
        tokens, rows, method = tensors.pop("tokens"), tensors.pop("rows"), record.get("method", _FIRST_METHOD)
        return cls(tokenizer, tokens, rows, record["model"], record["upstream"], method, tensors)

    def check(self, side: Side, source: Tokenizer, entries: Sequence[Entry], method: str, where: str) -> None:
        """Raises UserError if the rows belong to another method, model or new vocabulary."""
        if self.method != method:
            raise UserError(f"these rows are of {self.method}, not of {method}", where=where, hint=_HINT)
        if (self.model, self.vocabulary) != origin(side, source):
            raise UserError(f"these rows were distilled for another model's {side.name}", where=where, hint=_HINT)
        if not all(entry in self.tokenizer.ids for entry in entries):
            raise UserError("these rows were distilled for another new vocabulary", where=where, hint=_HINT)


def take_distilled(request: InitialiserInputs, method: str = _FIRST_METHOD) -> NewRows:
    """Learned rows; tokens and tables without them get the mean of subwords.

    Token Distillation trains input embeddings only; tied embeddings use its rows for the output too. Raises UserError
    without learned rows, and for those of another method, model or vocabulary.
    """
    if request.distilled is None:
        raise UserError("this method needs distilled rows of the new vocabulary", hint=_HINT)
    distilled = LearnedEmbeddings.load(request.distilled)
    distilled.check(request.side, request.source, request.entries, method, str(request.distilled))
    row_of = {token: i for i, token in enumerate(distilled.tokens.tolist())}
    rows_of_entries = [row_of.get(distilled.tokenizer.ids[entry]) for entry in request.entries]
    learnt = [i for i, row in enumerate(rows_of_entries) if row is not None]
    learnt_rows = [row for row in rows_of_entries if row is not None]

    def overwrite(means: Tensor | None, rows: Tensor | None) -> Tensor | None:
        if means is None or rows is None:
            return means
        return means.index_copy(0, torch.tensor(learnt, dtype=torch.long), rows[learnt_rows].to(means.dtype))

    means = mix_subwords(request)
    input_rows = overwrite(means.input, distilled.rows)
    assert input_rows is not None
    output = overwrite(means.output, distilled.others.get("output"))
    bias = overwrite(means.bias, distilled.others.get("bias"))
    missing = [entry for entry, row in zip(request.entries, rows_of_entries, strict=True) if row is None]
    missing_fallbacks = count_fallbacks(parts.fallback for parts in subwords(request.source, missing))
    fallbacks = {"subwords": len(missing) - sum(missing_fallbacks.values()), **missing_fallbacks}
    return NewRows(input_rows, output, bias, fallbacks)


def origin(side: Side, source: Tokenizer) -> tuple[str, str]:
    """The model that learned rows are bound to: the digest of the input embeddings and the vocabulary's fingerprint."""
    return table_digest(side.input.weight), source.fingerprint
