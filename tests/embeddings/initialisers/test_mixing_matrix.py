from __future__ import annotations

from pathlib import Path

import pytest
import torch

from subgraft.config.settings_base import SideName
from subgraft.embeddings.initialisers.new_rows import load_matrix, save_matrices
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.modeling.sides import side
from subgraft.subwords.vocabulary.alignment import align
from subgraft.subwords.vocabulary.learn import learn
from toys import english_tokenizer, german, german_tokenizer, marian, mbart, multilingual_tokenizer

SIDES: tuple[SideName, ...] = ("encoder", "decoder")


@pytest.mark.parametrize("method", ["mean", "avg"])
def test_the_matrix_makes_the_table_again(method: str, tmp_path: Path) -> None:
    """Rows of tokens without anything similar too, which are the mean of the rows of ordinary tokens."""
    model, source = marian(), german_tokenizer()
    target = learn([*german(400, 7), "☃ ☃☃"], kind="bpe", size=140, character_coverage=1.0)
    table = side(model, "decoder").input.weight.detach().clone()
    both: dict[SideName, object] = {"encoder": english_tokenizer(), "decoder": source}
    result, _, matrices = transplant(model, both, {"decoder": target}, Method(method))  # type: ignore[arg-type]
    save_matrices(matrices, tmp_path)
    matrix = load_matrix(tmp_path, "decoder")
    assert len(matrix) == len(target)
    made, expected = matrix.mix(table), side(result, "decoder").input.weight
    empty = matrix.offsets.diff() == 0
    torch.testing.assert_close(made, expected)
    ordinary = [i for i, entry in enumerate(source.entries) if entry is not None]
    assert empty.any()
    torch.testing.assert_close(expected[empty], table[ordinary].mean(dim=0).expand(int(empty.sum()), -1))


def test_tokens_with_an_origin_are_one_row() -> None:
    model, source = marian(), german_tokenizer()
    target = learn(german(400, 7), kind="bpe", size=140)
    alignment = align(source, target)
    both: dict[SideName, object] = {"encoder": english_tokenizer(), "decoder": source}
    matrix = transplant(model, both, {"decoder": target}, Method("mean")).matrices["decoder"]  # type: ignore[arg-type]
    for token, origin in enumerate(alignment.origins.tolist()):
        if origin >= 0:
            row = slice(int(matrix.offsets[token]), int(matrix.offsets[token + 1]))
            assert matrix.tokens[row].tolist() == [origin]
            assert matrix.weights[row].tolist() == [1.0]


def test_methods_that_do_not_mix_have_no_matrix() -> None:
    both: dict[SideName, object] = {"encoder": english_tokenizer(), "decoder": german_tokenizer()}
    target = learn(german(400, 7), kind="bpe", size=140)
    assert not transplant(marian(), both, {"decoder": target}, Method("random")).matrices  # type: ignore[arg-type]


def test_where_no_token_is_new_every_row_is_an_upstream_row() -> None:
    model, source = marian(), german_tokenizer()
    table = side(model, "decoder").input.weight.detach().clone()
    both: dict[SideName, object] = {"encoder": english_tokenizer(), "decoder": source}
    matrix = transplant(model, both, {"decoder": source}, Method("mean")).matrices["decoder"]  # type: ignore[arg-type]
    torch.testing.assert_close(matrix.mix(table), table)


def test_the_matrix_of_a_table_that_both_sides_share_is_kept_for_both(tmp_path: Path) -> None:
    both = dict.fromkeys(SIDES, multilingual_tokenizer())
    target = learn(german(400, 7), kind="unigram", size=140, like=multilingual_tokenizer())
    matrices = transplant(mbart(), both, dict.fromkeys(SIDES, target), Method("mean")).matrices
    save_matrices(matrices, tmp_path)
    for name in SIDES:
        assert torch.equal(load_matrix(tmp_path, name).tokens, matrices["decoder"].tokens)
