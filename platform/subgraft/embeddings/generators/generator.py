"""Generators of embeddings for unseen tokens: AVG, ATT and PATT (Liu et al., ACL 2021, section 3.1).

A generator turns the similar tokens of w into weights that sum to one, and mixes the upstream embeddings by them:

    AVG   G(w) = mean of E(w')                                        (equation 1)
    ATT   G(w) = sum of softmax(W . E(w')) E(w'),  W in R^d            (equation 2)
    PATT  G(w) = sum of softmax(W_r . E(w')) E(w'), W in R^(6 x d),
          r the relation of w' to w                                    (equation 3)

The printed equations 2 and 3 carry a further 1/|Sm(w)|, which `literal_equation` applies. A generator's
directory describes its kind and the embeddings and vocabulary that it was trained on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from subgraft.base import json_io
from subgraft.base.errors import UserError
from subgraft.config.settings_base import SideName
from subgraft.embeddings.initialisers.new_rows import weighted_sums
from subgraft.modeling.precision import to_device
from subgraft.modeling.sides import Side
from subgraft.subwords.similar_tokens.finder import Relation, SimilarTokens
from subgraft.training.objectives.compute.embedding_view import TableName

_TRAIN_AGAIN = "Train the generator again."
_DESCRIPTION, _FILE = "generator.json", "generator.safetensors"


@dataclass(frozen=True)
class GeneratorOrigin:
    """Digests of the embeddings and the vocabulary that a generator was trained on; it is valid for these only."""

    table: str
    vocabulary: str
    max_similar: int


def table_digest(table: Tensor) -> str:
    """SHA-256 of an embedding matrix in fp32, in which one of 16 bits is trained."""
    contiguous = table.detach().cpu().float().contiguous()
    return hashlib.sha256(contiguous.view(torch.uint8).numpy().data).hexdigest()


def read_description(directory: Path, side: str) -> dict[str, Any]:
    """Read generator.json. Raises UserError if it is missing, damaged, or has no entry for this side."""
    path = directory / _DESCRIPTION
    if not path.is_file():
        raise UserError(
            "no generator.json here", where=str(directory), hint="Give the directory of a trained generator."
        )
    try:
        config = json_io.parse_object(path.read_bytes())
    except ValueError as error:
        raise UserError(f"not JSON: {error}", where=str(path), hint=_TRAIN_AGAIN) from error
    if not isinstance(config.get("sides"), dict):
        raise UserError("not the description of a generator", where=str(path), hint=_TRAIN_AGAIN)
    if side not in config["sides"]:
        raise UserError(
            f"this generator was trained for {', '.join(config['sides'])}, not for the {side}",
            where=str(directory),
            hint=f"Train one with sides that include {side}.",
        )
    return config


def require_kind(directory: Path, side: str, kind: str) -> dict[str, Any]:
    """The description of a generator of this kind. Raises UserError for another kind."""
    description = read_description(directory, side)
    if description.get("kind") != kind:
        what = f"this is a generator of kind {description.get('kind')}, not {kind}"
        raise UserError(what, where=str(directory), hint="Give the method that it was trained for.")
    return description


def kind_of(directory: Path, side: str) -> str:
    """The kind of the generator in a directory. Raises UserError like `read_description`."""
    return str(read_description(directory, side).get("kind"))


def origin_of(directory: Path, side: str) -> GeneratorOrigin:
    """The origin of a side's generator: its model and vocabulary. Raises UserError if the description is damaged."""
    description = read_description(directory, side)["sides"][side]
    with user_error_if_damaged(directory):
        return GeneratorOrigin(**{field.name: description[field.name] for field in fields(GeneratorOrigin)})


def check_origin(origin: GeneratorOrigin, table: Tensor, vocabulary: str, where: str) -> None:
    """Raises UserError if a generator was trained for another model or vocabulary."""
    for what, expected, actual in (
        ("vocabulary", origin.vocabulary, vocabulary),
        ("model", origin.table, table_digest(table)),
    ):
        if expected != actual:
            raise UserError(
                f"this generator was made for another {what} (digest {expected[:12]}, here {actual[:12]})",
                where=where,
                hint="Train a generator on this model, or give the model it was trained on.",
            )


GeneratorKind = Literal["avg", "att", "patt"]
# In a large table, the used rows are selected before the product if there are few pairs for its rows. Selecting more
# rows costs more than the product (benchmarks/generator_scores.py).
LARGE_TABLE, ROWS_TO_A_PAIR = 100_000, 8


@dataclass(frozen=True)
class RaggedSimilar:
    """Similar tokens of n new tokens, as nnz pairs in int64 tensors.

    Attributes:
        offsets: [n + 1], the range of pairs of each new token.
        token_ids: [nnz], the similar upstream token.
        relations: [nnz], its relation to the new token.
        rows: [nnz], the new token.
        ordinary: [m], the upstream tokens that are text; tokens without similar ones get the mean of their rows.
    """

    offsets: Tensor
    token_ids: Tensor
    relations: Tensor
    rows: Tensor
    ordinary: Tensor

    @classmethod
    def from_numpy(cls, similar: SimilarTokens, ordinary: NDArray[np.int64]) -> RaggedSimilar:
        offsets = torch.from_numpy(similar.offsets).long()
        rows = torch.repeat_interleave(torch.arange(len(offsets) - 1), offsets.diff())
        return cls(
            offsets,
            torch.from_numpy(similar.token_ids).long(),
            torch.from_numpy(similar.relations).long(),
            rows,
            torch.from_numpy(ordinary),
        )

    def to(self, device: torch.device | str) -> RaggedSimilar:
        return RaggedSimilar(*(to_device(tensor, device) for tensor in vars(self).values()))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def counts(self) -> Tensor:
        """|Sm(w)| of each new token [n]."""
        return self.offsets.diff()


class Generator(nn.Module):
    """Mixing weights over similar tokens. Its parameters are W: none (avg), [1, d] (att) or [6, d] (patt).

    W starts at zero, so that every kind starts as AVG; `draw` initialises it as in the authors' release.
    """

    def __init__(self, kind: GeneratorKind, dimension: int, literal_equation: bool = False) -> None:
        super().__init__()
        self.kind = kind
        self.dimension = dimension
        self.literal_equation = literal_equation
        heads = {"avg": 0, "att": 1, "patt": len(Relation)}[kind]
        self.weight = nn.Parameter(torch.zeros(heads, dimension))

    def draw(self, seed: int) -> None:
        """Draw W from N(0, 1)."""
        nn.init.normal_(self.weight, generator=torch.Generator().manual_seed(seed))

    def mixing_weights(self, table: Tensor, similar: RaggedSimilar) -> Tensor:
        """The weight of each similar token [nnz], from the upstream input embeddings [V, d].

        The scores of all tokens are one [V, d] x [d, heads] product, so no |Sm| x d tensor is needed. For large
        embedding matrices, of which a training step uses few rows, only these are multiplied.
        """
        counts = similar.counts[similar.rows].to(table.dtype)
        if self.kind == "avg":
            return 1.0 / counts
        head = similar.relations if self.kind == "patt" else torch.zeros_like(similar.relations)
        with torch.autocast(table.device.type, enabled=False):
            weights = _ragged_softmax(self._scores(table, similar.token_ids, head), similar)
        return weights / counts if self.literal_equation else weights

    def _scores(self, table: Tensor, tokens: Tensor, head: Tensor) -> Tensor:
        """The scores of pairs [nnz] of an upstream token and a head."""
        if len(table) >= LARGE_TABLE and len(tokens) * ROWS_TO_A_PAIR < len(table):
            used, tokens = torch.unique(tokens, return_inverse=True)
            table = table[used]
        return F.linear(table, self.weight.to(table.dtype))[tokens, head]

    def forward(self, table: Tensor, similar: RaggedSimilar) -> Tensor:
        """Generated embeddings [n, d]."""
        return mix(table, self.mixing_weights(table, similar), similar)

    def rows(self, side: Side, similar: RaggedSimilar) -> MixedRows:
        """The rows of n tokens in each of a side's tables, mixed by weights from its input embeddings."""
        return MixedRows(self.mixing_weights(side.input.weight, similar), similar)


@dataclass(frozen=True)
class MixedRows:
    """Rows of new tokens: mixtures of a table's rows by weights [nnz] of similar tokens."""

    mixing: Tensor
    new: RaggedSimilar

    def __len__(self) -> int:
        return len(self.new)

    def of(self, name: TableName, table: Tensor) -> Tensor:
        del name  # one mixture for all tables
        return mix(table, self.mixing, self.new)

    def zero(self) -> Tensor:
        return self.mixing.sum()  # of no weights


def _ragged_softmax(scores: Tensor, similar: RaggedSimilar) -> Tensor:
    """Softmax of scores [nnz] within each row."""
    size, rows = len(similar), similar.rows
    # The maximum only guards against overflow: it cancels, so no gradient needs to pass through it.
    maxima = torch.full((size,), -torch.inf, dtype=scores.dtype, device=scores.device)
    maxima = maxima.scatter_reduce(0, rows, scores.detach(), "amax")
    exponentials = torch.exp(scores - maxima[rows])
    sums = torch.zeros(size, dtype=scores.dtype, device=scores.device).index_add(0, rows, exponentials)
    return exponentials / sums[rows]


def mix(table: Tensor, weights: Tensor, similar: RaggedSimilar) -> Tensor:
    """Mix rows [n, k] from a table [V, k] by weights [nnz]; tokens without similar ones get the mean row."""
    return weighted_sums(table, similar.offsets, similar.token_ids, weights.to(table.dtype), similar.ordinary)


def save_generators(
    generators: dict[SideName, Generator], origins: dict[SideName, GeneratorOrigin], directory: Path
) -> None:
    """Write one generator per side: generator.safetensors and generator.json."""
    first = next(iter(generators.values()))
    config = {
        "kind": first.kind,
        "dimension": first.dimension,
        "literal_equation": first.literal_equation,
        "sides": {side: vars(origins[side]) for side in sorted(generators)},
    }
    save_sides(generators, config, directory, _FILE)


def load_generator(directory: Path, side: SideName) -> tuple[Generator, GeneratorOrigin]:
    """The generator of one side. Raises UserError if the directory has none for it or is damaged."""
    config = read_description(directory, side)
    with user_error_if_damaged(directory):
        generator = Generator(config["kind"], config["dimension"], config["literal_equation"])
        load_side(generator, directory / _FILE, side)
    return generator, origin_of(directory, side)


def save_sides(
    modules: Mapping[SideName, nn.Module], description: Mapping[str, Any], directory: Path, file: str
) -> None:
    """Write the weights of each side's generator to one file, and generator.json."""
    # Copies, because sides may share one generator, which safetensors would refuse.
    tensors = {
        f"{side}.{name}": tensor.detach().cpu().clone()
        for side, module in modules.items()
        for name, tensor in module.state_dict().items()
    }
    save_file(tensors, directory / file)
    (directory / _DESCRIPTION).write_text(json.dumps(description, indent=2, sort_keys=True) + "\n")


def load_side(module: nn.Module, file: Path, side: SideName) -> None:
    """Load the weights that `save_sides` wrote for a side."""
    tensors, prefix = load_file(file), f"{side}."
    module.load_state_dict({name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)})


@contextmanager
def user_error_if_damaged(directory: Path) -> Iterator[None]:
    """Convert errors of reading a generator's files to a UserError."""
    try:
        yield
    except (OSError, SafetensorError, KeyError, TypeError, RuntimeError) as error:
        raise UserError(f"a damaged generator: {error}", where=str(directory), hint=_TRAIN_AGAIN) from error
