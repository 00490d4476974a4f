"""Intrinsic quality of an initialiser: held-out seen tokens are initialised again and compared with their true rows.

All held-out tokens are removed from the upstream vocabulary at once: no token is segmented into them, none is similar
to another or an anchor of static embeddings, and their rows are replaced by the mean of the other ordinary rows. A
trained generator is used unchanged, although its training has seen the held-out rows; it keeps only its attention's one
to six vectors.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from statistics import fmean, median

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.config.settings_base import SideName
from subgraft.embeddings.generators.generator import check_origin, origin_of
from subgraft.embeddings.initialisers.new_rows import NewRows
from subgraft.embeddings.methods.registry import method_spec
from subgraft.embeddings.transplanting.transplant import Method, initialised_sides
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import Side, side
from subgraft.pipeline.compute.transfer import method_of
from subgraft.pipeline.measurements.intrinsic import QUALITY, IntrinsicQuality, IntrinsicStage
from subgraft.subwords.vocabulary.entry import Entry
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.context import Json
from subgraft.training.stage import Inputs, Summary

# At most one in this many qualifying tokens is held out, because otherwise the remaining vocabulary would differ too
# much.
ONE_OF = 5
SHORTEST = 2  # characters
_BLOCK = 512  # tokens at a time


def run(stage: IntrinsicStage, inputs: Inputs, out: Path) -> Summary:
    """The quality of the stage's method, on a sample of each side whose rows it makes."""
    bundle, method, sample = Bundle.load(inputs["model"]), method_of(stage, inputs), stage.sample
    targets = {side: Tokenizer.load(inputs[f"vocabulary/{side}"]) for side in stage.sides}
    qualities: dict[str, Json] = {}
    for name in initialised_sides(bundle.model, targets):
        source, target = bundle.tokenizers[name], targets[name]
        qualities[name] = asdict(measure(bundle.model, name, source, target, method, sample.tokens, sample.seed))
    (out / QUALITY).write_text(json.dumps(qualities, indent=1) + "\n")
    return {**qualities, "artifacts": [QUALITY]}


def measure(
    model: PreTrainedModel, name: SideName, source: Tokenizer, target: Tokenizer, method: Method, count: int, seed: int
) -> IntrinsicQuality:
    """The quality of a method on `count` held-out tokens of one side.

    Raises UserError if no token qualifies, and whenever the method does.
    """
    entries = held_out(source, target, count, seed)
    rows = reinitialise(model, name, source, entries, method)
    table = side(model, name).input.weight.detach().float()[: len(source)]
    truth = torch.tensor([source.ids[entry] for entry in entries], dtype=torch.long)
    cosines, ranks = _cosines_and_ranks(rows.input.float(), table, truth)
    return IntrinsicQuality(
        tokens=len(truth),
        cosine=fmean(cosines),
        median_cosine=median(cosines),
        reciprocal_rank=fmean(1 / rank for rank in ranks),
        hits_at_1=fmean(rank <= 1 for rank in ranks),
        hits_at_10=fmean(rank <= 10 for rank in ranks),
        fallbacks=dict(rows.fallbacks),
    )


def reinitialise(
    model: PreTrainedModel, name: SideName, source: Tokenizer, entries: Sequence[Entry], method: Method
) -> NewRows:
    """Initialise upstream subwords as if the upstream side lacked all of them."""
    upstream = side(model, name)
    spec = method_spec(method.name)
    if spec.trained and method.generator is not None:
        origin = origin_of(method.generator, name)
        check_origin(origin, upstream.input.weight, source.fingerprint, str(method.generator))
    reduced = source.without(entries)
    hidden = sorted(set(source.ids.values()) - set(reduced.ids.values()))
    masked = _mask_rows(upstream, hidden, torch.from_numpy(reduced.ordinary_ids))
    return spec.new_rows(replace(method.request(model, masked, reduced, entries), origin_checked=True))


def held_out(source: Tokenizer, target: Tokenizer, count: int, seed: int) -> list[Entry]:
    """A sample of the tokens of both vocabularies that consist of two or more letters.

    Raises UserError if there are too few of them.
    """
    shared = sorted(
        entry
        for entry in target.ids
        if entry in source.ids and len(entry.surface) >= SHORTEST and entry.surface.isalpha()
    )
    size = min(count, len(shared) // ONE_OF)
    if size == 0:
        raise UserError(
            f"only {len(shared)} word-like tokens are in both vocabularies: too few to hold any out",
            where="intrinsic",
            hint="Leave intrinsic out, or make the vocabularies larger.",
        )
    return sorted(Random(seed).sample(shared, size))


@torch.no_grad()
def _mask_rows(upstream: Side, hidden: Sequence[int], ordinary: Tensor) -> Side:
    """A copy of the side whose hidden rows are the mean of the rows of `ordinary` tokens."""

    def fill(table: Tensor) -> Tensor:
        return table.index_copy(
            0, torch.tensor(hidden), table[ordinary].mean(dim=0).expand(len(hidden), *table.shape[1:])
        )

    rows = fill(upstream.input.weight.detach().float())
    table = nn.Embedding(len(rows), rows.shape[1], padding_idx=upstream.padding_id, _weight=rows)
    bias = None if upstream.bias is None else fill(upstream.bias.detach().float().flatten())
    if upstream.output is None:
        return replace(upstream, input=table, bias=bias)
    output = nn.Linear(table.weight.shape[1], len(table.weight), bias=False)
    output.weight = nn.Parameter(
        table.weight if upstream.tied else fill(upstream.output.weight.detach().float()), False
    )
    return replace(upstream, input=table, output=output, bias=bias)


def _cosines_and_ranks(initialised: Tensor, table: Tensor, truth: Tensor) -> tuple[list[float], list[float]]:
    """The cosine of each initialised row [n, d] with its true row in the table [V, d], and that row's rank among all.

    Equal cosines share the mean of their ranks, so that an uninformative row does not rank first.
    """
    unit = F.normalize(table, dim=1)
    cosines: list[float] = []
    ranks: list[float] = []
    for rows, ids in zip(torch.split(initialised, _BLOCK), torch.split(truth, _BLOCK), strict=True):
        all_cosines = F.normalize(rows, dim=1) @ unit.T
        true_cosine = all_cosines.gather(1, ids[:, None])
        closer, equal = (all_cosines > true_cosine).sum(dim=1), (all_cosines == true_cosine).sum(dim=1)
        ranks += (closer + (equal + 1) / 2).tolist()
        cosines += true_cosine.flatten().tolist()
    return cosines, ranks
