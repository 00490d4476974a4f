"""Which rows the initialiser takes, what the others get, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from subgraft.base.errors import UserError
from subgraft.embeddings.initialisers.learned_embeddings import LearnedEmbeddings, origin, take_distilled
from subgraft.embeddings.methods.registry import METHODS
from subgraft.modeling.sides import Side
from subgraft.subwords.vocabulary.entry import Entry
from toys import fitted_tokenizer, german_tokenizer, multilingual_tokenizer
from vectors import request, unseen, untied_decoder


@pytest.fixture(scope="module")
def upstream() -> Side:
    return untied_decoder()


def distilled(upstream: Side, directory: Path) -> LearnedEmbeddings:
    """Rows of every second unseen token."""
    tokens = torch.tensor([fitted_tokenizer().ids[entry] for entry in unseen()[::2]])
    rows = torch.randn(len(tokens), 16, generator=torch.Generator().manual_seed(4))
    made = LearnedEmbeddings(fitted_tokenizer(), tokens, rows, *origin(upstream, multilingual_tokenizer()))
    made.save(directory)
    return made


def test_trained_tokens_get_their_rows_and_all_else_is_the_mean(upstream: Side, tmp_path: Path) -> None:
    made = distilled(upstream, tmp_path)
    asked = replace(request(upstream, unseen(), others=2), distilled=tmp_path)
    rows, means = take_distilled(asked), METHODS["mean"].new_rows(asked)
    assert torch.equal(rows.input[: len(unseen()) : 2], made.rows)
    assert torch.equal(rows.input[1 : len(unseen()) : 2], means.input[1 : len(unseen()) : 2])
    assert torch.equal(rows.input[-2:], means.input[-2:])
    assert rows.output is not None and means.output is not None and torch.equal(rows.output, means.output)
    assert rows.bias is not None and means.bias is not None and torch.equal(rows.bias, means.bias)
    assert rows.fallbacks == {"subwords": len(unseen()) // 2, "characters": 0, "bytes": 0, "mean": 0}
    assert means.matrix is not None and rows.matrix is None, "distilled rows are not a mixture of upstream rows"


def test_rows_for_something_else_are_refused(upstream: Side, tmp_path: Path) -> None:
    distilled(upstream, tmp_path)
    asked = replace(request(upstream, unseen()), distilled=tmp_path)
    with pytest.raises(UserError, match="another model's decoder"):
        take_distilled(replace(asked, source=german_tokenizer()))
    changed = replace(upstream, input=torch.nn.Embedding.from_pretrained(upstream.input.weight.detach() + 1))
    with pytest.raises(UserError, match="another model's decoder"):
        take_distilled(replace(asked, side=changed))
    with pytest.raises(UserError, match="another new vocabulary"):
        take_distilled(replace(asked, entries=[Entry("unheard", True)]))


def test_a_directory_without_rows_is_refused(upstream: Side, tmp_path: Path) -> None:
    asked = request(upstream, unseen())
    with pytest.raises(UserError, match="needs distilled rows"):
        take_distilled(asked)
    with pytest.raises(UserError, match="no distilled rows here"):
        take_distilled(replace(asked, distilled=tmp_path / "nothing"))
    distilled(upstream, tmp_path)
    german_tokenizer().save(tmp_path)
    with pytest.raises(UserError, match="do not belong to the vocabulary in the same"):
        take_distilled(replace(asked, distilled=tmp_path))
