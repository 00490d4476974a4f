"""Methods that compute rows without training; their code is in `initialisers`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from subgraft.config.initialisers import StaticEmbeddingSettings
from subgraft.config.settings_base import Settings
from subgraft.embeddings.methods.method import MethodSpec

if TYPE_CHECKING:
    from subgraft.embeddings.initialisers.new_rows import InitialiserInputs, NewRows


class StaticGroups(Settings):
    """static_embeddings: for initialisers that need static vectors of the new tokens."""

    static_embeddings: StaticEmbeddingSettings = StaticEmbeddingSettings()


def _mean(request: InitialiserInputs) -> NewRows:
    from subgraft.embeddings.initialisers.new_rows import mix_subwords

    return mix_subwords(request)


def _reconstruction(request: InitialiserInputs) -> NewRows:
    from subgraft.embeddings.initialisers.reconstruction import reconstruct

    return reconstruct(request)


def _taken(request: InitialiserInputs) -> NewRows:
    from subgraft.embeddings.initialisers.static_rows import from_static, take_vectors

    return from_static(request, take_vectors)


def _mapped(request: InitialiserInputs) -> NewRows:
    from subgraft.embeddings.initialisers.static_rows import from_static, map_vectors

    return from_static(request, map_vectors)


def _focus(request: InitialiserInputs) -> NewRows:
    from subgraft.embeddings.initialisers.static_mixtures import mix_sparsemax
    from subgraft.embeddings.initialisers.static_rows import from_static

    return from_static(request, mix_sparsemax)


def _wechsel(request: InitialiserInputs) -> NewRows:
    from subgraft.embeddings.initialisers.static_mixtures import mix_nearest
    from subgraft.embeddings.initialisers.static_rows import from_static

    return from_static(request, mix_nearest)


def _omp(request: InitialiserInputs) -> NewRows:
    from subgraft.embeddings.initialisers.static_mixtures import mix_matching_pursuit
    from subgraft.embeddings.initialisers.static_rows import from_static

    return from_static(request, mix_matching_pursuit)


def _locally_linear(request: InitialiserInputs) -> NewRows:
    from subgraft.embeddings.initialisers.static_mixtures import mix_locally_linear
    from subgraft.embeddings.initialisers.static_rows import from_static

    return from_static(request, mix_locally_linear)


def _donor(request: InitialiserInputs) -> NewRows:
    from subgraft.embeddings.initialisers.donor import map_from_donor

    return map_from_donor(request)


MEAN = MethodSpec(
    name="mean",
    start="the mean of the pieces that the old tokenizer cuts it into",
    source="the usual strong baseline",
    rows=_mean,
    mixes=True,
)
RECONSTRUCTION = MethodSpec(
    name="reconstruction",
    start="the mean of vectors of its character n-grams, trained to reproduce the old embeddings",
    source="Zhao et al. 2018",
    rows=_reconstruction,
)
WORD2VEC = MethodSpec(
    name="word2vec",
    start="its word2vec vector, trained on the task's text, with the old embeddings' spread",
    source="Mikolov et al. 2013",
    rows=_taken,
    static="skip-gram",
    unmapped=True,
)
WORD2VEC_MAPPED = MethodSpec(
    name="word2vec-mapped",
    start="the same, under the affine map that fits seen tokens best",
    source="Mikolov, Le and Sutskever 2013",
    rows=_mapped,
    static="skip-gram",
)
CBOW = MethodSpec(
    name="cbow",
    start="its word2vec vector by continuous bag of words; with `copy_shared_tokens: false` a layer of such vectors",
    source="Sato et al. 2020",
    rows=_taken,
    static="cbow",
    unmapped=True,
)
FOCUS = MethodSpec(
    name="focus",
    start="seen tokens, weighted by sparsemax over the similarity of fastText vectors",
    source="Dobler and de Melo 2023",
    rows=_focus,
    static="fasttext",
)
WECHSEL = MethodSpec(
    name="wechsel",
    start="the ten nearest old tokens by fastText vectors, weighted by softmax",
    source="Minixhofer et al. 2022, in one language",
    rows=_wechsel,
    static="fasttext",
)
OMP = MethodSpec(
    name="omp",
    start="eight seen tokens that best combine to its fastText vector",
    source="as mergekit's tokensurgeon",
    rows=_omp,
    static="fasttext",
)
LOCALLY_LINEAR = MethodSpec(
    name="locally-linear",
    start="its ten nearest seen tokens by CBOW vectors, with weights that reconstruct its vector best",
    source="Sato et al. 2020",
    rows=_locally_linear,
    static="cbow",
)
DONOR = MethodSpec(
    name="donor",
    start="its embedding in another model that has it, mapped to this model's space",
    source="as mergekit's tokensurgeon",
    rows=_donor,
    donor=True,
)
