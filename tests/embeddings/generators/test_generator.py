from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from subgraft.base.errors import UserError
from subgraft.embeddings.generators import generator as generators
from subgraft.embeddings.generators.generator import (
    Generator,
    GeneratorKind,
    GeneratorOrigin,
    RaggedSimilar,
    check_origin,
    load_generator,
    mix,
    save_generators,
    table_digest,
)
from subgraft.subwords.similar_tokens.finder import SimilarTokens

SIZE, DIMENSION = 40, 12
ORDINARY = np.arange(5, SIZE - 3)  # special tokens before, spare rows behind


def _similar(rows: list[list[tuple[int, int]]]) -> RaggedSimilar:
    offsets = np.cumsum([0, *(len(row) for row in rows)]).astype(np.int64)
    ids = np.array([token for row in rows for token, _ in row], dtype=np.int64)
    relations = np.array([relation for row in rows for _, relation in row], dtype=np.int8)
    similar = SimilarTokens(offsets, ids, relations, np.zeros(len(rows), dtype=np.int8))
    return RaggedSimilar.from_numpy(similar, ORDINARY)


def _random_rows(seed: int, count: int = 25) -> list[list[tuple[int, int]]]:
    generator = np.random.default_rng(seed)
    return [
        [(int(generator.integers(SIZE)), int(generator.integers(6))) for _ in range(generator.integers(1, 11))]
        for _ in range(count)
    ]


def _by_the_equations(
    kind: GeneratorKind, table: Tensor, weight: Tensor, rows: list[list[tuple[int, int]]], literal: bool
) -> Tensor:
    """Equations 1 to 3 of the paper, token by token, in double precision."""
    generated = []
    for row in rows:
        embeddings = [table[token] for token, _ in row]
        if kind == "avg":
            generated.append(sum(embeddings[1:], embeddings[0]) / len(row))
            continue
        scores = [torch.dot(weight[relation if kind == "patt" else 0], table[token]) for token, relation in row]
        exponentials = [torch.exp(score) for score in scores]
        total = sum(exponentials[1:], exponentials[0])
        mixed = [e / total * v for e, v in zip(exponentials, embeddings, strict=True)]
        result = sum(mixed[1:], mixed[0])
        generated.append(result / len(row) if literal else result)
    return torch.stack(generated)


@pytest.mark.parametrize("literal", [False, True])
@pytest.mark.parametrize("kind", ["avg", "att", "patt"])
def test_forward_and_gradients_equal_the_printed_equations(kind: GeneratorKind, literal: bool) -> None:
    torch.manual_seed(0)
    rows = _random_rows(1)
    table = torch.randn(SIZE, DIMENSION, dtype=torch.float64, requires_grad=True)
    generator = Generator(kind, DIMENSION, literal).double()
    torch.nn.init.normal_(generator.weight)
    direction = torch.randn(len(rows), DIMENSION, dtype=torch.float64)

    ours = generator(table, _similar(rows))
    expected = _by_the_equations(kind, table, generator.weight, rows, literal)
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)
    wanted = [table] if kind == "avg" else [table, generator.weight]
    for gradient, right in zip(
        torch.autograd.grad((ours * direction).sum(), wanted),
        torch.autograd.grad((expected * direction).sum(), wanted),
        strict=True,
    ):
        torch.testing.assert_close(gradient, right, rtol=1e-10, atol=1e-12)


def test_an_untrained_generator_is_the_average() -> None:
    table, similar = torch.randn(SIZE, DIMENSION), _similar(_random_rows(2))
    average = Generator("avg", DIMENSION)(table, similar)
    for kind in ("att", "patt"):
        torch.testing.assert_close(Generator(kind, DIMENSION)(table, similar), average)


def test_weights_are_drawn_from_a_standard_normal_by_the_seed() -> None:
    one, again, other = (Generator("patt", 500) for _ in range(3))
    for generator, seed in ((one, 1), (again, 1), (other, 2)):
        generator.draw(seed)
    assert torch.equal(one.weight, again.weight) and not torch.equal(one.weight, other.weight)
    assert one.weight.std().item() == pytest.approx(1.0, abs=0.05)
    assert one.weight.mean().item() == pytest.approx(0.0, abs=0.05)


def test_large_scores_do_not_overflow() -> None:
    generator = Generator("att", DIMENSION)
    torch.nn.init.constant_(generator.weight, 1e4)
    assert torch.isfinite(generator(torch.randn(SIZE, DIMENSION), _similar(_random_rows(3)))).all()


def test_a_token_without_similar_ones_gets_the_mean_of_ordinary_rows() -> None:
    """What special tokens and spare rows hold is not in it."""
    table, similar = torch.randn(SIZE, DIMENSION), _similar([[(1, 0)], [], [(2, 2)]])
    table[:5], table[-3:] = 1e6, torch.nan
    generated = Generator("patt", DIMENSION)(table, similar)
    torch.testing.assert_close(generated[1], table[5:-3].mean(dim=0))
    torch.testing.assert_close(generated[0], table[1])


def test_one_set_of_weights_mixes_any_table() -> None:
    similar = _similar(_random_rows(4))
    table, bias = torch.randn(SIZE, DIMENSION), torch.randn(SIZE, 1)
    weights = Generator("avg", DIMENSION).mixing_weights(table, similar)
    together = mix(torch.cat([table, bias], dim=1), weights, similar)
    torch.testing.assert_close(together[:, -1:], mix(bias, weights, similar))


def test_saved_generators_come_back_and_know_their_model(tmp_path: Path) -> None:
    table = torch.randn(SIZE, DIMENSION)
    generator = Generator("patt", DIMENSION, literal_equation=True)
    torch.nn.init.normal_(generator.weight)
    origin = GeneratorOrigin(table_digest(table), "vocabulary", 7)
    save_generators({"decoder": generator}, {"decoder": origin}, tmp_path)

    loaded, loaded_origin = load_generator(tmp_path, "decoder")
    assert loaded_origin == origin
    assert loaded.literal_equation
    assert torch.equal(loaded.weight, generator.weight)
    check_origin(loaded_origin, table, "vocabulary", "here")
    with pytest.raises(UserError, match="another model"):
        check_origin(loaded_origin, table + 1e-3, "vocabulary", "here")
    with pytest.raises(UserError, match="another vocabulary"):
        check_origin(loaded_origin, table, "another", "here")
    with pytest.raises(UserError, match="not for the encoder"):
        load_generator(tmp_path, "encoder")


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("generator.json", b"[]", "not a JSON object"),
        ("generator.json", b'{"kind": "patt", "sides": {"decoder": {}}}', "a damaged generator"),
        ("generator.safetensors", b"cut", "a damaged generator"),
        ("generator.safetensors", None, "a damaged generator"),
    ],
)
def test_a_damaged_generator_is_refused(tmp_path: Path, name: str, content: bytes | None, complaint: str) -> None:
    origin = GeneratorOrigin("table", "vocabulary", 7)
    save_generators({"decoder": Generator("patt", DIMENSION)}, {"decoder": origin}, tmp_path)
    assert load_generator(tmp_path, "decoder")[1] == origin
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=complaint):
        load_generator(tmp_path, "decoder")


@pytest.mark.parametrize("kind", ["att", "patt"])
def test_a_large_table_of_which_few_rows_are_used(kind: GeneratorKind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights and gradients are those of all rows; what is multiplied is what is used."""
    torch.manual_seed(0)
    similar, table = _similar(_random_rows(3, count=4)), torch.randn(SIZE, DIMENSION, requires_grad=True)
    multiplied = list[int]()

    def linear(rows: Tensor, weight: Tensor) -> Tensor:
        multiplied.append(len(rows))
        return rows @ weight.T

    def outcome() -> list[Tensor]:
        generator = Generator(kind, DIMENSION)
        generator.draw(1)
        weights = generator.mixing_weights(table, similar)
        weights.square().sum().backward()
        tensors = [weights.detach(), generator.weight.grad, table.grad]
        table.grad = None
        return [tensor for tensor in tensors if tensor is not None]

    monkeypatch.setattr("subgraft.embeddings.generators.generator.F.linear", linear)
    whole = outcome()
    monkeypatch.setattr(generators, "LARGE_TABLE", SIZE)
    monkeypatch.setattr(generators, "ROWS_TO_A_PAIR", 0)
    used = outcome()
    assert multiplied == [SIZE, len(similar.token_ids.unique())] and multiplied[1] < SIZE
    assert len(whole) == 3
    torch.testing.assert_close(used, whole)
