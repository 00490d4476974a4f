"""Transplanting: give a model a new vocabulary. Its embeddings are replaced, all other weights stay unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from subgraft.config.settings_base import SideName
from subgraft.embeddings.generators.network import commonness
from subgraft.embeddings.initialisers.donor_model import Donor
from subgraft.embeddings.initialisers.new_rows import InitialiserInputs, MixingMatrix, NewRows, full_matrix
from subgraft.embeddings.methods.registry import method_spec
from subgraft.embeddings.transplanting.token_ids import check_encoder_roles, translate_token_ids
from subgraft.modeling.families import family_of
from subgraft.modeling.sides import Side, Tables, replace_tables, shares_table, side, side_config
from subgraft.modeling.tokenizers import require_rows
from subgraft.subwords.vocabulary.alignment import Alignment, align, only_special_tokens
from subgraft.subwords.vocabulary.entry import Entry
from subgraft.subwords.vocabulary.tokenizer import Tokenizer


@dataclass(frozen=True)
class Method:
    """How unseen tokens are initialised: an initialiser and its inputs.

    Attributes:
        name: a key of `methods.registry.METHODS`, or a plugin's name.
        generator: directory of a trained generator, for methods that need one.
        max_similar: cap on similar tokens, for avg.
        seed: seed of random methods.
        copy_shared_tokens: copy the embeddings of seen tokens; else the method also initialises these.
        static: directory of static embeddings of each side's new vocabulary, for methods that need them.
        distilled: directory of learned rows, with one folder per side, for methods that need them.
        donor: a second model that has the new tokens, for methods that need one.
    """

    name: str
    generator: Path | None = None
    max_similar: int = 10
    seed: int = 0
    copy_shared_tokens: bool = True
    static: Mapping[SideName, Path] = field(default_factory=dict)
    distilled: Path | None = None
    donor: Donor | None = None

    def request(
        self, model: PreTrainedModel, upstream: Side, source: Tokenizer, entries: Sequence[Entry]
    ) -> InitialiserInputs:
        """The request for rows of these subwords; `upstream` is a side of the model, or a masked copy of it."""
        return InitialiserInputs(
            upstream,
            source,
            entries,
            others=0,
            scale=weight_scale(model, upstream),
            seed=self.seed,
            max_similar=self.max_similar,
            generator=self.generator,
            static=self.static.get(upstream.name),
            donor=self.donor,
        )


@dataclass(frozen=True)
class TransplantReport:
    """The report of one side; size = seen + special + unseen + others.

    Attributes:
        side: the side of the model.
        method: the initialiser.
        size: tokens of the new vocabulary.
        seen: ordinary tokens of both vocabularies, whose rows were copied.
        special: special tokens and language codes, copied by role and code.
        unseen: subwords that the method initialised.
        others: the remaining tokens: special tokens of the new vocabulary only, and pieces that are not text.
        fallbacks: number of unseen subwords that were initialised by a fallback, by its name.
        scale: standard deviation of `random`.
        dropped: generation settings about tokens that the new vocabulary lacks.
    """

    side: SideName
    method: str
    size: int
    seen: int
    special: int
    unseen: int
    others: int
    fallbacks: dict[str, int]
    scale: float | None
    dropped: tuple[str, ...]


class Transplant(NamedTuple):
    """The model, a report for each side, and the mixing matrices of methods that mix rows."""

    model: PreTrainedModel
    reports: dict[SideName, TransplantReport]
    matrices: dict[SideName, MixingMatrix]


def transplant(
    model: PreTrainedModel,
    source: Mapping[SideName, Tokenizer],
    target: Mapping[SideName, Tokenizer],
    method: Method,
) -> Transplant:
    """Give a model new vocabularies. The input model must not be used afterwards.

    If both sides share their embeddings and get the same vocabulary, they stay shared, and the decoder's generator
    initialises them.

    Args:
        model: the upstream model.
        source: the old vocabulary of each side.
        target: the new vocabulary of each side that changes.
        method: how unseen tokens are initialised.

    Raises:
        UserError: before any change, for an unknown method, a side that the model lacks, special tokens that a new
            vocabulary lacks, and a generator that was trained for another model or vocabulary.
    """
    method_spec(method.name)
    require_rows(source, {name: len(side(model, name).input.weight) for name in target})
    if "encoder" in target:
        check_encoder_roles(source["encoder"], target["encoder"])
    token_ids = translate_token_ids(model, source, target)
    grafts = _grafts(model, source, target, method)
    tables = {name: graft.tables for name, graft in grafts.items()}
    reports = {name: graft.report for name, graft in grafts.items()}
    matrices = {name: graft.matrix for name, graft in grafts.items() if graft.matrix is not None}
    if "decoder" in target:
        tables["decoder"] = replace(tables["decoder"], padding_id=token_ids.padding)
    last = "decoder" if "decoder" in reports else next(iter(reports))
    reports[last] = replace(reports[last], dropped=token_ids.dropped)
    replaced = replace_tables(model, tables)
    token_ids.apply(replaced)
    return Transplant(replaced, reports, matrices)


def stays_shared(model: PreTrainedModel, target: Mapping[SideName, Tokenizer]) -> bool:
    """Whether both sides share their embeddings with the new vocabularies too; then they get the decoder's new rows."""
    return shares_table(model) and len(target) == 2 and len({each.fingerprint for each in target.values()}) == 1


def initialised_sides(model: PreTrainedModel, target: Mapping[SideName, Tokenizer]) -> tuple[SideName, ...]:
    """The sides whose new rows are initialised; if both sides stay shared, only the decoder."""
    return ("decoder",) if stays_shared(model, target) else tuple(target)


class Graft(NamedTuple):
    """The new embeddings of one side, their report, and their mixing matrix if the method mixes rows."""

    tables: Tables
    report: TransplantReport
    matrix: MixingMatrix | None


def _grafts(
    model: PreTrainedModel, source: Mapping[SideName, Tokenizer], target: Mapping[SideName, Tokenizer], method: Method
) -> dict[SideName, Graft]:
    """The graft of every side that changes; sides that stay shared both get the decoder's."""
    if not stays_shared(model, target):
        return {name: graft(model, name, source[name], target[name], method) for name in sorted(target)}
    decoder_graft = graft(model, "decoder", source["decoder"], target["decoder"], method)
    shared = replace(decoder_graft.tables, output=None, bias=None)
    return {
        "decoder": decoder_graft,
        "encoder": Graft(shared, replace(decoder_graft.report, side="encoder"), decoder_graft.matrix),
    }


def graft(model: PreTrainedModel, name: SideName, source: Tokenizer, target: Tokenizer, method: Method) -> Graft:
    """The embeddings of one side over the new vocabulary; the model is not changed."""
    upstream = side(model, name)
    alignment = (
        align(source, target) if method.copy_shared_tokens else only_special_tokens(align(source, target), target)
    )
    new = [token for token in alignment.unseen if target.entries[token] is not None]
    entries = [entry for token in new if (entry := target.entries[token]) is not None]
    request = replace(
        method.request(model, upstream, source, entries),
        others=len(alignment.others),
        distilled=None if method.distilled is None else method.distilled / name,
        target=target,
        other_ids=alignment.others,
        common=commonness(target)[new],
    )
    rows = method_spec(method.name).new_rows(request)
    matrix = None if rows.matrix is None else full_matrix(alignment, rows.matrix)
    report = TransplantReport(
        side=name,
        method=method.name,
        size=len(alignment.origins),
        seen=alignment.seen,
        special=alignment.special,
        unseen=len(alignment.unseen),
        others=len(alignment.others),
        fallbacks=dict(rows.fallbacks),
        scale=rows.scale,
        dropped=(),
    )
    return Graft(_tables(upstream, alignment, rows, target), report, matrix)


def weight_scale(model: PreTrainedModel, upstream: Side) -> float:
    """The standard deviation with which the model's embeddings were initialised."""
    return family_of(model).weight_scale(side_config(model, upstream.name).to_dict())


def _tables(upstream: Side, alignment: Alignment, rows: NewRows, target: Tokenizer) -> Tables:
    output = None if rows.output is None or upstream.output is None else upstream.output.weight
    bias = None if upstream.bias is None else upstream.bias.flatten()
    return Tables(
        table_over(upstream.input.weight, alignment, rows.input),
        None if output is None or rows.output is None else table_over(output, alignment, rows.output),
        None if bias is None or rows.bias is None else table_over(bias, alignment, rows.bias),
        target.special.get("pad"),
    )


@torch.no_grad()
def table_over(upstream: Tensor, alignment: Alignment, rows: Tensor) -> Tensor:
    """A table [size, d] (or bias [size]) in which tokens with an origin copy its row, and all others get `rows`."""
    origins = torch.from_numpy(alignment.origins)
    table = torch.empty((len(origins), *upstream.shape[1:]), dtype=upstream.dtype)
    copied = (origins >= 0).nonzero().flatten()
    table[copied] = upstream[origins[copied]]
    table[torch.tensor([*alignment.unseen, *alignment.others], dtype=torch.long)] = rows.to(upstream.dtype)
    return table
