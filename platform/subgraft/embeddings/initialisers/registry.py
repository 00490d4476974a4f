"""All initialisers, by name: functions that map a `Request` to the rows of new tokens.

They return rows of the input embeddings, and of the output projection and its bias if the side has them. Mixing weights
are computed from the input embeddings and applied to all three.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from subgraft.base.errors import UserError
from subgraft.config.plugins import INITIALISERS, Plugin, offered
from subgraft.embeddings.generators.generator import (
    Generator,
    GeneratorKind,
    RaggedSimilar,
    check_origin,
    load_generator,
    require_kind,
)
from subgraft.embeddings.generators.network import add_to_mean
from subgraft.embeddings.initialisers.distilled_rows import take_distilled
from subgraft.embeddings.initialisers.donor import map_from_donor
from subgraft.embeddings.initialisers.new_rows import (
    FloatTables,
    Initialiser,
    MixingMatrix,
    NewRows,
    Request,
    mix_rows,
    mix_subwords,
)
from subgraft.embeddings.initialisers.reconstruction import reconstruct
from subgraft.embeddings.initialisers.static_mixtures import (
    mix_locally_linear,
    mix_matching_pursuit,
    mix_nearest,
    mix_sparsemax,
)
from subgraft.embeddings.initialisers.static_rows import from_static, map_vectors, take_vectors
from subgraft.subwords.similar_tokens.finder import SimilarTokenFinder


def draw_random(request: Request) -> NewRows:
    """N(0, scale²), like the model's own initialisation; the bias is zero."""
    rows = _draw_rows(request, lambda noise, table: noise * request.scale)
    return replace(rows, scale=request.scale)


def draw_matched(request: Request) -> NewRows:
    """Normal with the per-dimension mean and standard deviation of ordinary tokens' rows; the bias is zero."""
    ordinary = torch.from_numpy(request.source.ordinary_ids)

    def matched(noise: Tensor, table: Tensor) -> Tensor:
        variance, mean = torch.var_mean(table[ordinary], dim=0)
        return noise * variance.sqrt() + mean

    return _draw_rows(request, matched)


def _draw_rows(request: Request, fit: Callable[[Tensor, Tensor], Tensor]) -> NewRows:
    # The two sides of a model must not get the same noise.
    randomness = torch.Generator().manual_seed(2 * request.seed + (request.side.name == "decoder"))
    count = len(request.entries) + request.others

    def draw(table: Tensor | None) -> Tensor | None:
        if table is None:
            return None
        return fit(torch.randn(count, table.shape[1], generator=randomness), table)

    tables = FloatTables.of(request.side)
    input_rows = draw(tables.input)
    assert input_rows is not None
    return NewRows(input_rows, draw(tables.output), None if tables.bias is None else torch.zeros(count), {})


def mix_similar(request: Request, kind: GeneratorKind) -> NewRows:
    """The generator's mixture of each token's similar tokens.

    Raises UserError if the generator is missing, of another kind, or was trained for another model.
    """
    generator, max_similar = _generator(request, kind)
    matches = SimilarTokenFinder(request.source, max_similar).find(request.entries)
    # The tokens that are not text come last, as rows without similar tokens.
    offsets = np.append(matches.offsets, np.full(request.others, matches.offsets[-1]))
    similar = RaggedSimilar.from_numpy(replace(matches, offsets=offsets), request.source.ordinary_ids)
    with torch.no_grad():
        weights = generator.mixing_weights(request.side.input.weight.float(), similar).float()
    matrix = MixingMatrix(similar.offsets, similar.token_ids, weights, similar.ordinary)
    return mix_rows(request.side, matrix, matches.fallback_counts())


def _generator(request: Request, kind: GeneratorKind) -> tuple[Generator, int]:
    table = request.side.input.weight
    if kind == "avg":
        if request.generator is not None:
            raise UserError("avg has nothing to train, so it takes no generator", where=str(request.generator))
        return Generator("avg", table.shape[1]), request.max_similar
    if request.generator is None:
        raise UserError(f"{kind} needs a trained generator", hint="Give its directory, or use avg.")
    require_kind(request.generator, request.side.name, kind)
    generator, origin = load_generator(request.generator, request.side.name)
    if not request.origin_checked:
        check_origin(origin, table, request.source.fingerprint, str(request.generator))
    return generator, origin.max_similar


# The functions that make the rows; `config.initialiser_registry` has their properties.
METHODS: Mapping[str, Initialiser] = {
    "random": draw_random,
    "random-matched": draw_matched,
    "mean": mix_subwords,
    "avg": partial(mix_similar, kind="avg"),
    "att": partial(mix_similar, kind="att"),
    "patt": partial(mix_similar, kind="patt"),
    "network": add_to_mean,
    "reconstruction": reconstruct,
    "word2vec": partial(from_static, method=take_vectors),
    "word2vec-mapped": partial(from_static, method=map_vectors),
    "cbow": partial(from_static, method=take_vectors),
    "focus": partial(from_static, method=mix_sparsemax),
    "wechsel": partial(from_static, method=mix_nearest),
    "omp": partial(from_static, method=mix_matching_pursuit),
    "locally-linear": partial(from_static, method=mix_locally_linear),
    "donor": map_from_donor,
    "token-distillation": take_distilled,
    "attention-influence": partial(take_distilled, method="attention-influence"),
    "likelihood-matching": partial(take_distilled, method="likelihood-matching"),
    "vocadt": partial(take_distilled, method="vocadt"),
}


def initialiser(method: str) -> Initialiser:
    """The initialiser of this name, built in or from a plugin. Raises UserError for an unknown name."""
    if require_known(method) in METHODS:
        return METHODS[method]
    return partial(_offered_rows, offered(INITIALISERS)[method])


def _offered_rows(plugin: Plugin, request: Request) -> NewRows:
    """Rows that another package makes. Raises UserError if they do not fit this request."""
    rows = plugin.load()(request)
    count, width = len(request.entries) + request.others, request.side.input.weight.shape[1]
    if not isinstance(rows, NewRows) or rows.input.shape != (count, width):
        raise UserError(f"did not return {count} rows of width {width}", where=f"{plugin.name} of {plugin.package}")
    return rows


def require_known(method: str) -> str:
    """Return the name. Raises UserError with the choices if it is unknown."""
    if method not in METHODS and method not in offered(INITIALISERS):
        known = ", ".join([*METHODS, *offered(INITIALISERS)])
        raise UserError(f"unknown method {method!r}", hint=f"Choose among {known}.")
    return method
