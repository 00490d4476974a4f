"""Curves → Vocabulary of all languages: the sizes that maximise the weighted sum of their ALP."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.data.text.languages import shares
from subgraft.pipeline.recipes.allocations import AllocationRecipe
from subgraft.subwords.allocation.choice import Candidate, NoRoomError, choose
from subgraft.subwords.allocation.curve import MeasuredCurve
from subgraft.subwords.allocation.result import RECORD, Allocated
from subgraft.subwords.allocation.union import fixed_pieces, union
from subgraft.subwords.vocabulary.specials import special_tokens
from subgraft.training.context import Context, Json


def run(recipe: AllocationRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    del context
    curves = {language: MeasuredCurve.open(place) for language, place in sorted(inputs.items())}
    special = special_tokens(wordpiece=False, mask=recipe.mask, languages=recipe.codes, like=None)
    room = recipe.total - fixed_pieces(special, recipe.byte_fallback)
    drawn = shares({name: each.curve.sentences for name, each in curves.items()}, recipe.language_exponent)
    weights = {name: share**recipe.capacity_exponent for name, share in drawn.items()}
    try:
        chosen = choose({name: _candidate(each, weights[name]) for name, each in curves.items()}, room)
    except NoRoomError as error:
        least = error.needed + recipe.total - room
        hint = (
            f"Allow {least:,} at least, {recipe.total - room} of them special, or let curves begin with smaller sizes."
        )
        raise UserError(error.what, where=f"total {recipe.total}", hint=hint) from None
    pieces = {name: curves[name].vocabularies[size] for name, size in chosen.sizes.items()}
    tokenizer = union(pieces, special, byte_fallback=recipe.byte_fallback)
    tokenizer.save(out)
    own = {name: dict(zip(each.curve.sizes, each.curve.alp, strict=True)) for name, each in curves.items()}
    found = Allocated(
        total=recipe.total,
        size=len(tokenizer),
        language_exponent=recipe.language_exponent,
        capacity_exponent=recipe.capacity_exponent,
        shares=drawn,
        sizes=dict(chosen.sizes),
        alp={name: own[name][size] for name, size in chosen.sizes.items()},
        value=chosen.value,
        bound=chosen.bound,
    )
    found.write(out)
    return {"size": found.size, "value": found.value, "bound": found.bound, "artifacts": [RECORD]}


def _candidate(measured: MeasuredCurve, weight: float) -> Candidate:
    curve = measured.curve
    pieces = [list(measured.vocabularies[size]) for size in curve.sizes]
    return Candidate(curve.sizes, [weight * alp for alp in curve.alp], pieces)
