"""The network generator: a small Transformer over the pieces of a new token.

A token's embedding is the mean of its pieces' embeddings plus the network's output. Like PATT it is trained on upstream
text only; unlike PATT, which can only weigh embeddings, it can produce any vector (a hypernetwork over embeddings:
Minixhofer, Ponti and Vulić, NeurIPS 2024). It also reads how common the token is in the new vocabulary, which carries
information about the task without its text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from subgraft.base.errors import UserError
from subgraft.config.settings_base import SideName
from subgraft.embeddings.generators.generator import (
    GeneratorOrigin,
    check_origin,
    load_side,
    origin_of,
    require_kind,
    save_sides,
    user_error_if_damaged,
)
from subgraft.embeddings.initialisers.new_rows import (
    InitialiserInputs,
    NewRows,
    mean_row,
    other_pieces,
)
from subgraft.modeling.precision import to_device
from subgraft.modeling.sides import FloatTables, Side
from subgraft.subwords.similar_tokens.finder import count_fallbacks
from subgraft.subwords.similar_tokens.token_subwords import subwords
from subgraft.subwords.vocabulary.entry import Entry
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.embedding_view import GeneratedRows, TableName

# The network reads only the first pieces of a token, and the mean is over the same pieces.
MAX_PIECES = 16
ABSENT = -1
# Whether the token begins a word; its length; how common it is; whether that is known.
FEATURES = 4


@dataclass(frozen=True)
class TokenPieces:
    """n new tokens.

    Attributes:
        pieces: int64 [n, P], upstream tokens of each, padded with ABSENT.
        features: float32 [n, FEATURES].
        ordinary: int64 [m], the upstream tokens that are text; tokens without pieces get the mean of their rows.
    """

    pieces: Tensor
    features: Tensor
    ordinary: Tensor

    @classmethod
    def of(
        cls,
        source: Tokenizer,
        entries: Sequence[Entry],
        common: NDArray[np.float32] | None = None,
        others: Sequence[Sequence[int]] = (),
    ) -> TokenPieces:
        """The pieces and features of entries.

        Args:
            source: the upstream vocabulary.
            entries: the new tokens.
            common: how common each entry is [n], see `commonness`; None: unknown.
            others: the pieces of each further token, which is not text; they come last.
        """
        ids_of_tokens = [*(parts.ids for parts in subwords(source, entries)), *others]
        pieces_of_tokens = [ids[:MAX_PIECES] for ids in ids_of_tokens]
        pieces = np.full((len(pieces_of_tokens), max([1, *map(len, pieces_of_tokens)])), ABSENT, dtype=np.int64)
        for row, ids in enumerate(pieces_of_tokens):
            pieces[row, : len(ids)] = ids
        features = np.zeros((len(pieces_of_tokens), FEATURES), dtype=np.float32)
        text_features = features[: len(entries)]
        text_features[:, 0] = [entry.word_initial for entry in entries]
        text_features[:, 1] = [len(entry.surface) / 6 - 1 for entry in entries]
        if common is not None:
            text_features[:, 2], text_features[:, 3] = common, 1.0
        return cls(torch.from_numpy(pieces), torch.from_numpy(features), torch.from_numpy(source.ordinary_ids))

    def __len__(self) -> int:
        return len(self.pieces)

    def take(self, indices: Tensor) -> TokenPieces:
        """The tokens at some indices [k], padded to the longest of them."""
        pieces = self.pieces[indices]
        longest = int((pieces != ABSENT).sum(dim=1).max()) if len(pieces) else 0
        return TokenPieces(pieces[:, : max(1, longest)], self.features[indices], self.ordinary)

    def to(self, device: torch.device | str) -> Self:
        moved: dict[str, Any] = {field.name: to_device(getattr(self, field.name), device) for field in fields(self)}
        return type(self)(**moved)


def commonness(vocabulary: Tokenizer) -> NDArray[np.float32]:
    """How common each token of a vocabulary is [V], by its rank r among ordinary tokens: 2 - ln(1 + r) / 4.

    By Zipf's law the logarithm of the rank replaces that of the frequency, for all kinds of vocabularies (unigram
    scores, merge order). It is about zero for rank 3,000.
    """
    values = np.zeros(len(vocabulary), dtype=np.float32)
    ordinary = vocabulary.ordinary_ids
    by_rank = ordinary[np.argsort(vocabulary.frequency_rank[ordinary], kind="stable")]
    values[by_rank] = 2.0 - np.log1p(np.arange(len(by_rank))) / 4.0
    return values


KIND = "network"
_FILE = "network.safetensors"
# Tokens per block. Blocks contain tokens with similar numbers of pieces, to minimise padding.
_BLOCK = 1024


@dataclass(frozen=True)
class NetworkShape:
    """The shape of a network.

    Attributes:
        dimension: width of the model's input embeddings.
        output: width of untied output embeddings; None if the model has none.
        bias: whether the model has an output bias.
        width: width of the network.
        layers: number of Transformer layers.
        heads: number of attention heads.
    """

    dimension: int
    output: int | None
    bias: bool
    width: int = 256
    layers: int = 2
    heads: int = 4

    @classmethod
    def of(cls, side: Side, width: int, layers: int) -> NetworkShape:
        own = None if side.output is None or side.tied else side.output.weight.shape[1]
        return cls(side.input.weight.shape[1], own, side.bias is not None, width, layers)


class Network(nn.Module):
    """The network. Its output starts at zero, so that it starts as the mean of the pieces.

    spread: the standard deviation of each table's ordinary rows. Inputs are divided and outputs multiplied by it, so
    that one learning rate suits models of any scale.
    """

    def __init__(self, shape: NetworkShape) -> None:
        super().__init__()
        self.shape = shape
        width = shape.width
        self.reads = nn.Linear(shape.dimension, width)
        self.features = nn.Linear(FEATURES, width)
        self.places = nn.Parameter(torch.zeros(MAX_PIECES + 1, width))
        layer = nn.TransformerEncoderLayer(width, shape.heads, 2 * width, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, shape.layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        sizes: dict[TableName, int | None] = {
            "input": shape.dimension,
            "output": shape.output,
            "bias": 1 if shape.bias else None,
        }
        self.heads = nn.ModuleDict({name: nn.Linear(width, size) for name, size in sizes.items() if size})
        self.spread = _Spread(self.heads)

    def begin(self, side: Side, ordinary: Tensor, seed: int) -> None:
        """Initialise the weights, and compute the spread of a side's tables over its ordinary tokens [m]."""
        generator = torch.Generator().manual_seed(seed)
        for name, parameter in self.named_parameters():
            if name == "places":
                nn.init.normal_(parameter, std=0.02, generator=generator)
            elif name.startswith("heads.") or (parameter.ndim == 1 and name.endswith("bias")):
                nn.init.zeros_(parameter)
            elif parameter.ndim > 1:
                nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5, generator=generator)
        with torch.no_grad():
            self.spread.of("input").copy_(side.input.weight[ordinary].float().std())
            if "output" in self.heads and side.output is not None:
                self.spread.of("output").copy_(side.output.weight[ordinary].float().std())

    def rows(self, side: Side, tokens: TokenPieces) -> NetworkRows:
        """Generate the rows of n tokens in each of a side's tables."""
        table, is_piece = side.input.weight, tokens.pieces != ABSENT
        inputs = table[tokens.pieces.clamp(min=0)].float() / self.spread.of("input")
        pieces = self.reads(inputs) + self.places[: tokens.pieces.shape[1]]
        token = self.features(tokens.features) + self.places[-1]
        mask = torch.cat([is_piece.new_ones(len(is_piece), 1), is_piece], dim=1)
        states = self.layers(torch.cat([token[:, None], pieces], dim=1), src_key_padding_mask=~mask)
        states = self.norm(states) * mask[..., None]
        # A token without pieces gets the mean row, unchanged.
        pooled = states.sum(dim=1) / mask.sum(dim=1, keepdim=True) * is_piece.any(dim=1, keepdim=True)
        added = {name: (head(pooled) * self.spread.of(name)).float() for name, head in self.heads.items()}
        return NetworkRows(tokens, added)


class _Spread(nn.Module):
    """One number per table; buffers, because they are not trained and DeepSpeed refuses scalar parameters."""

    def __init__(self, tables: Iterable[str]) -> None:
        super().__init__()
        for name in tables:
            self.register_buffer(name, torch.ones(()))

    def of(self, name: str) -> Tensor:
        return self.get_buffer(name)


@dataclass(frozen=True)
class NetworkRows(GeneratedRows):
    """Generated rows. added: the network's output for each table, to be added to the mean of the pieces."""

    tokens: TokenPieces
    added: dict[str, Tensor]

    def __len__(self) -> int:
        return len(self.tokens)

    def of(self, name: TableName, table: Tensor) -> Tensor:
        # A projection that is the input table has the input table's rows.
        added = self.added[name if name in self.added else "input"]
        is_piece = self.tokens.pieces != ABSENT
        rows = table[self.tokens.pieces.clamp(min=0)] * is_piece[..., None]
        means = rows.sum(dim=1) / is_piece.sum(dim=1, keepdim=True).clamp(min=1)
        if not bool(is_piece.any(dim=1).all()):
            means = torch.where(is_piece.any(dim=1, keepdim=True), means, mean_row(table, self.tokens.ordinary))
        return means + added.to(means.dtype)

    def zero(self) -> Tensor:
        return sum((added.sum() for added in self.added.values()), start=torch.zeros(()))


def save_networks(networks: dict[SideName, Network], origins: dict[SideName, GeneratorOrigin], directory: Path) -> None:
    """Write a network per side: network.safetensors and generator.json."""
    sides = {side: vars(origins[side]) | {"shape": vars(networks[side].shape)} for side in sorted(networks)}
    save_sides(networks, {"kind": KIND, "sides": sides}, directory, _FILE)


def load_network(directory: Path, side: SideName) -> tuple[Network, GeneratorOrigin]:
    """The network of one side. Raises UserError if the directory has none for it or is damaged."""
    config = require_kind(directory, side, KIND)
    with user_error_if_damaged(directory):
        network = Network(NetworkShape(**config["sides"][side]["shape"]))
        load_side(network, directory / _FILE, side)
    return network, origin_of(directory, side)


def add_to_mean(request: InitialiserInputs) -> NewRows:
    """Rows generated by a network. Raises UserError if there is none, or if it was trained for another model."""
    if request.generator is None:
        raise UserError("network needs a trained generator", hint="`subgraft generator train` trains one for a model.")
    network, origin = load_network(request.generator, request.side.name)
    if not request.origin_checked:
        check_origin(origin, request.side.input.weight, request.source.fingerprint, str(request.generator))
    tokens = TokenPieces.of(request.source, request.entries, request.common, other_pieces(request))
    joined = generate_rows(network, request.side, tokens)
    fallbacks = count_fallbacks(parts.fallback for parts in subwords(request.source, request.entries))
    return NewRows.of_joined(joined, FloatTables.of(request.side), fallbacks)


@torch.no_grad()
def generate_rows(network: Network, side: Side, tokens: TokenPieces) -> Tensor:
    """Rows of n tokens, with those of all tables concatenated like `FloatTables.joined`."""
    tables = FloatTables.of(side)
    network.eval()
    by_length = (tokens.pieces != ABSENT).sum(dim=1).argsort(stable=True)
    blocks = []
    for indices in torch.split(by_length, _BLOCK):
        rows = network.rows(side, tokens.take(indices))
        output = None if tables.output is None else rows.of("output", tables.output)
        bias = None if tables.bias is None else rows.of("bias", tables.bias)
        blocks.append(torch.cat([t for t in (rows.of("input", tables.input), output, bias) if t is not None], dim=1))
    return torch.cat(blocks)[by_length.argsort()] if blocks else tables.joined()[:0]
