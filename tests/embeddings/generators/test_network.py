from __future__ import annotations

from pathlib import Path

import pytest
import torch

from subgraft.base.errors import UserError
from subgraft.embeddings.generators.generator import GeneratorOrigin, table_digest
from subgraft.embeddings.generators.network import Network, NetworkShape, TokenPieces, load_network, save_networks
from subgraft.embeddings.initialisers.new_rows import InitialiserInputs, NewRows, mix_subwords
from subgraft.embeddings.methods.registry import method_spec
from subgraft.modeling.sides import Side, side
from subgraft.subwords.vocabulary.entry import Entry
from toys import german_tokenizer, llama, marian

ENTRIES = [Entry("dankbarkeit", True), Entry("freundschaft", True), Entry("losigkeit", False)]


def _sides() -> list[Side]:
    """With a bias and tied; with a projection of its own."""
    return [side(marian(), "decoder"), side(llama(tied=False), "decoder")]


def _network(of: Side) -> Network:
    network = Network(NetworkShape.of(of, width=8, layers=1))
    network.begin(of, torch.from_numpy(german_tokenizer().ordinary_ids), seed=3)
    return network


def _request(of: Side, generator: Path | None = None) -> InitialiserInputs:
    return InitialiserInputs(of, german_tokenizer(), ENTRIES, 2, 1.0, 0, 10, generator)


def _moved(network: Network) -> Network:
    for head in network.heads.values():
        assert isinstance(head, torch.nn.Linear)
        torch.nn.init.normal_(head.weight, generator=torch.Generator().manual_seed(1))
    return network


def _saved(network: Network, of: Side, directory: Path) -> Path:
    directory.mkdir()
    origin = GeneratorOrigin(table_digest(of.input.weight), german_tokenizer().fingerprint, 0)
    save_networks({of.name: network}, {of.name: origin}, directory)
    return directory


def _tables(rows: NewRows) -> list[torch.Tensor]:
    return [table for table in (rows.input, rows.output, rows.bias) if table is not None]


@pytest.mark.parametrize("which", range(2))
def test_it_is_initialised_to_the_mean_of_the_pieces_and_leaves_it_when_trained(which: int, tmp_path: Path) -> None:
    of = _sides()[which]
    begun = method_spec("network").new_rows(_request(of, _saved(_network(of), of, tmp_path / "begun")))
    moved = method_spec("network").new_rows(_request(of, _saved(_moved(_network(of)), of, tmp_path / "moved")))
    for mean, same, other in zip(*map(_tables, (mix_subwords(_request(of)), begun, moved)), strict=True):
        torch.testing.assert_close(same, mean)
        assert not torch.isclose(other[: len(ENTRIES)], mean[: len(ENTRIES)]).all(dim=-1).any()
        # Tokens that are not text have no pieces: their rows stay the mean.
        torch.testing.assert_close(other[len(ENTRIES) :], mean[len(ENTRIES) :])


def test_a_saved_network_is_loaded_to_the_bit(tmp_path: Path) -> None:
    of = _sides()[0]
    network, tokens = _moved(_network(of)), TokenPieces.of(german_tokenizer(), ENTRIES)
    again, _ = load_network(_saved(network, of, tmp_path / "kept"), "decoder")
    for name, table in {"input": of.input.weight, "bias": torch.zeros(len(of.input.weight), 1)}.items():
        rows = network.rows(of, tokens).of(name, table)  # type: ignore[arg-type]
        assert torch.equal(again.rows(of, tokens).of(name, table), rows)  # type: ignore[arg-type]


def test_rows_do_not_depend_on_the_other_tokens() -> None:
    of = _sides()[0]
    network, tokens = _moved(_network(of)), TokenPieces.of(german_tokenizer(), ENTRIES)
    whole = network.rows(of, tokens).of("input", of.input.weight)
    alone = network.rows(of, tokens.take(torch.tensor([1]))).of("input", of.input.weight)
    torch.testing.assert_close(alone[0], whole[1])


def test_a_network_of_another_model_or_side_and_a_generator_of_another_kind_are_refused(tmp_path: Path) -> None:
    decoder, _ = _sides()
    directory = _saved(_network(decoder), decoder, tmp_path / "kept")
    with pytest.raises(UserError, match="made for another model"):
        method_spec("network").new_rows(_request(side(marian(2), "decoder"), directory))
    with pytest.raises(UserError, match="trained for decoder, not for the encoder"):
        method_spec("network").new_rows(_request(side(marian(), "encoder"), directory))
    with pytest.raises(UserError, match="a generator of kind network, not patt"):
        method_spec("patt").new_rows(_request(decoder, directory))
    with pytest.raises(UserError, match="needs a trained generator"):
        method_spec("network").new_rows(_request(decoder))
    (directory / "network.safetensors").write_bytes(b"no tensors")
    with pytest.raises(UserError, match="a damaged generator"):
        method_spec("network").new_rows(_request(decoder, directory))
