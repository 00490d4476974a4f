"""Methods that compute rows without training; their code is in `initialisers`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from subgraft.base.entries import imported
from subgraft.config.initialisers import StaticEmbeddingSettings
from subgraft.config.settings_base import Settings
from subgraft.embeddings.methods.method import MethodSpec

if TYPE_CHECKING:
    from subgraft.embeddings.initialisers.new_rows import InitialiserInputs, NewRows


class StaticGroups(Settings):
    """static_embeddings: for initialisers that need static vectors of the new tokens."""

    static_embeddings: StaticEmbeddingSettings = StaticEmbeddingSettings()


# Functions of `initialisers`, which load torch, are named by strings.


def _rows_by(function: str, request: InitialiserInputs) -> NewRows:
    rows: NewRows = imported(f"subgraft.embeddings.initialisers.{function}")(request)
    return rows


def _from_static(function: str, request: InitialiserInputs) -> NewRows:
    """Rows from static embeddings."""
    from subgraft.embeddings.initialisers.static_rows import from_static

    return from_static(request, imported(f"subgraft.embeddings.initialisers.{function}"))


MEAN = MethodSpec(
    name="mean",
    start="the mean of the pieces that the old tokenizer segments it into",
    source="the usual strong baseline",
    rows=partial(_rows_by, "new_rows:mix_subwords"),
    mixes=True,
)
RECONSTRUCTION = MethodSpec(
    name="reconstruction",
    start="the mean of vectors of its character n-grams, trained to reproduce the old embeddings",
    source="Zhao et al. 2018",
    rows=partial(_rows_by, "reconstruction:reconstruct"),
)
WORD2VEC = MethodSpec(
    name="word2vec",
    start="its word2vec vector, trained on the task's text, with the old embeddings' spread",
    source="Mikolov et al. 2013",
    rows=partial(_from_static, "static_rows:take_vectors"),
    static="skip-gram",
    unmapped=True,
)
WORD2VEC_MAPPED = MethodSpec(
    name="word2vec-mapped",
    start="the same, under the affine map that fits seen tokens best",
    source="Mikolov, Le and Sutskever 2013",
    rows=partial(_from_static, "static_rows:map_vectors"),
    static="skip-gram",
)
CBOW = MethodSpec(
    name="cbow",
    start="its word2vec vector by continuous bag of words; with `copy_shared_tokens: false` a layer of such vectors",
    source="Sato et al. 2020",
    rows=partial(_from_static, "static_rows:take_vectors"),
    static="cbow",
    unmapped=True,
)
FOCUS = MethodSpec(
    name="focus",
    start="seen tokens, weighted by sparsemax over the similarity of fastText vectors",
    source="Dobler and de Melo 2023",
    rows=partial(_from_static, "static_mixtures:mix_sparsemax"),
    static="fasttext",
)
WECHSEL = MethodSpec(
    name="wechsel",
    start="the ten nearest old tokens by fastText vectors, weighted by softmax",
    source="Minixhofer et al. 2022, in one language",
    rows=partial(_from_static, "static_mixtures:mix_nearest"),
    static="fasttext",
)
OMP = MethodSpec(
    name="omp",
    start="eight seen tokens that best combine to its fastText vector",
    source="as mergekit's tokensurgeon",
    rows=partial(_from_static, "static_mixtures:mix_matching_pursuit"),
    static="fasttext",
)
LOCALLY_LINEAR = MethodSpec(
    name="locally-linear",
    start="its ten nearest seen tokens by CBOW vectors, with weights that reconstruct its vector best",
    source="Sato et al. 2020",
    rows=partial(_from_static, "static_mixtures:mix_locally_linear"),
    static="cbow",
)
DONOR = MethodSpec(
    name="donor",
    start="its embedding in another model that has it, mapped to this model's space",
    source="as mergekit's tokensurgeon",
    rows=partial(_rows_by, "donor:map_from_donor"),
    donor=True,
)
