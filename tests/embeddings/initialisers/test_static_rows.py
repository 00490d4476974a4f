from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from subgraft.base.errors import UserError
from subgraft.embeddings.initialisers.static_rows import map_vectors, take_vectors
from subgraft.embeddings.methods.registry import METHODS, names_with
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.modeling.sides import side
from subgraft.subwords.vocabulary.entry import Entry
from toys import fitted_tokenizer, german_tokenizer, mbart, multilingual_tokenizer
from vectors import all_tables, drawn, request, seen_pairs, space_of, unseen, untied_decoder


def test_a_known_affine_map_is_recovered() -> None:
    """Seen rows are a rotation of their vectors, shifted; unseen rows must then be so as well, in all tables."""
    upstream, embeddings, entries = untied_decoder(), drawn(8), unseen()
    tokens, origins = seen_pairs(embeddings)
    width = all_tables(upstream).shape[1]
    rotation = torch.linalg.qr(torch.randn(width, 8, generator=torch.Generator().manual_seed(6)))[0].T
    shift = torch.linspace(-1, 1, width)
    with torch.no_grad():
        image = embeddings.vectors[tokens] @ rotation + shift
        upstream.input.weight[origins], upstream.output.weight[origins] = image[:, :16], image[:, 16:32]  # type: ignore[union-attr]
        upstream.bias.view(-1)[origins] = image[:, 32]  # type: ignore[union-attr]
    rows = map_vectors(request(upstream, entries), space_of(embeddings, entries))
    expected = embeddings.vectors[[embeddings.tokenizer.ids[entry] for entry in entries]] @ rotation + shift
    assert rows.output is not None and rows.bias is not None
    assert torch.allclose(torch.cat([rows.input, rows.output, rows.bias[:, None]], dim=1), expected, atol=1e-4)


def test_vectors_as_they_are_keep_their_directions_and_get_the_tables_spread() -> None:
    upstream, embeddings, entries = untied_decoder(), drawn(16), unseen()
    space = space_of(embeddings, entries)
    rows = take_vectors(request(upstream, entries), space)
    assert upstream.output is not None and rows.output is not None and rows.bias is not None
    ordinary = [i for i, entry in enumerate(multilingual_tokenizer().entries) if entry is not None]
    spread = torch.cat([space.unseen, space.seen]).std()
    assert torch.allclose(rows.input, space.unseen / spread * upstream.input.weight[ordinary].std(), rtol=1e-4)
    assert torch.allclose(rows.output, space.unseen / spread * upstream.output.weight[ordinary].std(), rtol=1e-4)
    assert not rows.bias.any()


def test_vectors_of_another_width_are_refused_as_they_are() -> None:
    entries = unseen()
    with pytest.raises(UserError, match=r"8 dimensions, the model's table 16(.|\n)*word2vec-mapped"):
        take_vectors(request(untied_decoder(), entries), space_of(drawn(8), entries))


@pytest.mark.parametrize("method", sorted(names_with("static")))
def test_tokens_without_a_vector_get_the_mean_of_their_subwords(method: str, tmp_path: Path) -> None:
    upstream, entries = untied_decoder(), unseen()
    lacking = [entries[0], entries[4], entries[-1]]
    drawn(16, lacking).save(tmp_path)
    rows = METHODS[method].new_rows(request(upstream, entries, tmp_path, others=2))
    mean = METHODS["mean"].new_rows(request(upstream, entries, others=2))
    places = [entries.index(entry) for entry in lacking] + [len(entries), len(entries) + 1]
    for made, expected in ((rows.input, mean.input), (rows.output, mean.output), (rows.bias, mean.bias)):
        assert made is not None and expected is not None
        assert made.shape == expected.shape
        assert torch.allclose(made[places], expected[places], atol=1e-6)
        assert not torch.isclose(made[1:4], expected[1:4]).all(dim=-1).any()
    assert rows.fallbacks == {"subwords": 3 - sum(mean.fallbacks.values()), **mean.fallbacks}


def test_where_no_token_has_a_vector_all_fall_back(tmp_path: Path) -> None:
    entries = unseen()
    drawn(16, list(fitted_tokenizer().ids)).save(tmp_path)
    rows = METHODS["focus"].new_rows(request(untied_decoder(), entries, tmp_path))
    assert sum(rows.fallbacks.values()) == len(entries)


def test_missing_and_foreign_embeddings_are_refused(tmp_path: Path) -> None:
    upstream, entries = untied_decoder(), unseen()
    with pytest.raises(UserError, match=r"needs static embeddings(.|\n)*vocab embed"):
        METHODS["omp"].new_rows(request(upstream, entries))
    with pytest.raises(UserError, match="no static embeddings here"):
        METHODS["omp"].new_rows(request(upstream, entries, tmp_path))
    shared = [entry for entry in fitted_tokenizer().ids if entry in multilingual_tokenizer().ids]
    drawn(16, shared).save(tmp_path / "apart")
    with pytest.raises(UserError, match="the two spaces cannot be related"):
        METHODS["omp"].new_rows(request(upstream, entries, tmp_path / "apart"))
    with pytest.raises(UserError, match=r"another vocabulary: it has no 'ж'"):
        METHODS["omp"].new_rows(request(upstream, [Entry("ж", True)], tmp_path / "apart"))
    german_tokenizer().save(tmp_path / "apart")
    with pytest.raises(UserError, match="do not belong to the vocabulary in the same"):
        METHODS["omp"].new_rows(request(upstream, entries, tmp_path / "apart"))


@pytest.mark.parametrize("method", sorted(names_with("static")))
def test_a_model_is_transplanted(method: str, tmp_path: Path) -> None:
    """Seen rows are copied, unseen ones are the method's; another vector gives another row."""
    source, target = multilingual_tokenizer(), fitted_tokenizer()
    embeddings = drawn(16, unseen()[:2])
    embeddings.save(tmp_path / "one")
    replace(embeddings, vectors=embeddings.vectors.flip(0)).save(tmp_path / "other")
    tables = []
    for name in ("one", "one", "other"):
        model = mbart()
        old = side(model, "decoder").input.weight.detach().clone()
        chosen = Method(method, static={"decoder": tmp_path / name})
        result, reports, _ = transplant(
            model, dict.fromkeys(("encoder", "decoder"), source), {"decoder": target}, chosen
        )
        tables.append(side(result, "decoder").input.weight.detach())
        assert reports["decoder"].fallbacks == {"subwords": 2, "characters": 0, "bytes": 0, "mean": 0}
        assert reports["decoder"].unseen == len(unseen())
        for entry, token in target.ids.items():
            if entry in source.ids:
                assert torch.equal(tables[-1][token], old[source.ids[entry]])
    assert torch.isfinite(tables[0]).all()
    assert torch.equal(tables[0], tables[1])
    assert not torch.allclose(tables[0], tables[2])
