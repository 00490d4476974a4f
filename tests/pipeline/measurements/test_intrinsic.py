"""Held-out tokens: their rows must not leak, and the rows made for them are measured correctly."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.config.initialisers import DonorMapping, StaticEmbeddingSettings
from subgraft.embeddings.generators.generator import Generator, GeneratorOrigin, save_generators, table_digest
from subgraft.embeddings.generators.network import Network, NetworkShape, save_networks
from subgraft.embeddings.initialisers.donor_model import Donor, DonorSide
from subgraft.embeddings.initialisers.static_embeddings import train_static
from subgraft.embeddings.methods.registry import METHODS
from subgraft.embeddings.transplanting.transplant import Method
from subgraft.modeling.sides import FloatTables, side
from subgraft.pipeline.compute.intrinsic import _cosines_and_ranks, held_out, measure, reinitialise
from toys import fitted_tokenizer, german, german_tokenizer, marian, mbart, multilingual_tokenizer

SOURCE, TARGET = multilingual_tokenizer(), fitted_tokenizer()
STATIC = StaticEmbeddingSettings(dimensions=16, epochs=1, min_count=2, ngram_buckets=100)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("static")
    for algorithm in {facts.static for facts in METHODS.values() if facts.static}:
        train_static(german(200, 7), TARGET, algorithm, STATIC).save(place / algorithm)
    return place


def with_other_rows(ids: list[int]) -> PreTrainedModel:
    """The toy model, with other rows at these ids, in table, projection and bias alike."""
    model = mbart()
    decoder = side(model, "decoder")
    with torch.no_grad():
        decoder.input.weight[ids] = torch.randn(len(ids), decoder.input.weight.shape[1])
        assert decoder.bias is not None
        decoder.bias.flatten()[ids] = 7.0
    return model


def method(name: str, places: Path, model: PreTrainedModel, out: Path) -> Method:
    facts = METHODS[name]
    static = {"decoder": places / facts.static} if facts.static else {}
    if facts.donor:
        rows = torch.randn(len(TARGET), 12, generator=torch.Generator().manual_seed(4))
        return Method(
            name,
            donor=Donor("donor", {"decoder": DonorSide(TARGET, FloatTables(rows, None, None))}, DonorMapping(atoms=3)),
        )
    if facts.trained is None:
        return Method(name, static=static)  # type: ignore[arg-type]
    out.mkdir()
    if not facts.mixes:
        return Method(name, generator=_network(model, out))
    generator = Generator(name, 16)  # type: ignore[arg-type]
    torch.manual_seed(3)
    torch.nn.init.normal_(generator.weight)
    digest = table_digest(side(model, "decoder").input.weight)
    save_generators({"decoder": generator}, {"decoder": GeneratorOrigin(digest, SOURCE.fingerprint, 10)}, out)
    return Method(name, generator=out)


def _network(model: PreTrainedModel, out: Path) -> Path:
    decoder = side(model, "decoder")
    network = Network(NetworkShape.of(decoder, 8, 1))
    # As it was trained: the spread of the tables is the network's, whatever they are now.
    network.begin(side(mbart(), "decoder"), torch.from_numpy(SOURCE.ordinary_ids), seed=1)
    for number, head in enumerate(network.heads.values()):
        assert isinstance(head, torch.nn.Linear)
        torch.nn.init.normal_(head.weight, generator=torch.Generator().manual_seed(number))
    origin = GeneratorOrigin(table_digest(decoder.input.weight), SOURCE.fingerprint, 0)
    save_networks({"decoder": network}, {"decoder": origin}, out)
    return out


@pytest.mark.parametrize("name", [name for name in METHODS if not METHODS[name].learning])
def test_no_made_row_depends_on_a_held_out_row(name: str, places: Path, tmp_path: Path) -> None:
    """Not in its own new row, nor in another's: with all held-out rows changed, every method makes the same rows."""
    entries = held_out(SOURCE, TARGET, 8, seed=1)
    one, other = mbart(), with_other_rows([SOURCE.ids[entry] for entry in entries])
    first = reinitialise(one, "decoder", SOURCE, entries, method(name, places, one, tmp_path / "one"))
    second = reinitialise(other, "decoder", SOURCE, entries, method(name, places, other, tmp_path / "other"))
    assert first.input.shape == (len(entries), 16)
    assert torch.equal(first.input, second.input)
    assert first.bias is not None and second.bias is not None
    assert torch.equal(first.bias, second.bias)


@pytest.mark.parametrize("name", ["mean", "avg", "reconstruction", "random-matched"])
def test_rows_that_are_not_held_out_do_show(name: str, places: Path, tmp_path: Path) -> None:
    """So that the test above could fail."""
    entries = held_out(SOURCE, TARGET, 8, seed=1)
    others = [i for entry, i in SOURCE.ids.items() if entry not in entries]
    made = [reinitialise(m, "decoder", SOURCE, entries, Method(name)).input for m in (mbart(), with_other_rows(others))]
    assert not torch.equal(*made)


def test_the_sample_is_seeded_word_like_and_no_more_than_a_fifth() -> None:
    sample = held_out(SOURCE, TARGET, 5, seed=1)
    assert sample == held_out(SOURCE, TARGET, 5, seed=1) != held_out(SOURCE, TARGET, 5, seed=2)
    for entry in sample:
        assert entry in SOURCE.ids and entry in TARGET.ids
        assert len(entry.surface) >= 2 and entry.surface.isalpha()
    qualify = [e for e in TARGET.ids if e in SOURCE.ids and len(e.surface) > 1 and e.surface.isalpha()]
    assert len(held_out(SOURCE, TARGET, 1000, seed=1)) == len(qualify) // 5


def test_vocabularies_that_share_too_little_are_refused() -> None:
    with pytest.raises(UserError, match="only 0 word-like tokens"):
        held_out(SOURCE, SOURCE.without(list(SOURCE.ids)), 5, seed=1)


def test_ranks_count_the_rows_that_are_nearer() -> None:
    table = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [2.0, 2.0]])
    made = torch.tensor([[3.0, 0.0], [1.0, 2.0], [0.0, 0.0]])
    cosines, ranks = _cosines_and_ranks(made, table, torch.tensor([0, 3, 1]))
    # The second is nearest to [2, 2] (cosine 3 / √10); the third says nothing, so all four rows tie: (1 + 4) / 2.
    assert cosines == pytest.approx([1.0, 3 / 10**0.5, 0.0])
    assert ranks == [1.0, 1.0, 2.5]
    assert _cosines_and_ranks(made[1:2], table, torch.tensor([1]))[1] == [2.0]
    assert _cosines_and_ranks(made[1:2], table, torch.tensor([2]))[1] == [4.0]


def test_noise_is_far_from_a_right_answer() -> None:
    """A copy of the true rows would be perfect; noise must be far from that, and of a rank like any other's."""
    model = marian()
    quality = measure(model, "decoder", german_tokenizer(), german_tokenizer(120), Method("random"), 6, seed=1)
    assert quality.tokens == 6
    assert abs(quality.cosine) < 0.6
    assert 1 / len(german_tokenizer()) < quality.reciprocal_rank < 0.6
    assert quality.hits_at_1 <= quality.hits_at_10 <= 1
