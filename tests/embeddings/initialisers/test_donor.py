"""Rows from a donor: a rotation of the model is undone, and sparse combinations are those of a plain reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from subgraft.base.errors import UserError
from subgraft.config.initialisers import DonorMapping
from subgraft.config.settings_base import VocabularyKind
from subgraft.embeddings.initialisers.donor import (
    combine_shared,
    map_from_donor,
    map_linearly,
    pursuit_by_product,
    shared_tokens,
)
from subgraft.embeddings.initialisers.donor_model import Donor, DonorSide
from subgraft.embeddings.initialisers.new_rows import InitialiserInputs, mix_subwords
from subgraft.modeling.sides import FloatTables, side
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from toys import english, fitted_tokenizer, german, german_tokenizer, gpt2, multilingual_tokenizer
from vectors import request, unseen, untied_decoder

SOURCE, TARGET = multilingual_tokenizer(), fitted_tokenizer()
LINEAR = DonorMapping(mapping="linear")


def donor_of(tables: FloatTables, mapping: DonorMapping, tokenizer: Tokenizer = TARGET) -> Donor:
    return Donor("the donor", {"decoder": DonorSide(tokenizer, tables)}, mapping)


def rotated(width: int, seed: int = 3) -> tuple[FloatTables, FloatTables]:
    """What the model's rows of the fitted vocabulary would be, and a donor's: these, rotated, and the same bias."""
    noise = torch.Generator().manual_seed(seed)
    true = FloatTables(
        torch.randn(len(TARGET), 16, generator=noise),
        torch.randn(len(TARGET), 16, generator=noise),
        torch.randn(len(TARGET), 1, generator=noise),
    )
    turn = torch.linalg.qr(torch.randn(width, width, generator=noise))[0][:16]
    return true, FloatTables(true.input @ turn, None if true.output is None else true.output @ turn, true.bias)


def upstream_with(true: FloatTables) -> InitialiserInputs:
    """The upstream decoder, whose rows of shared tokens are the true ones; the new tokens are wanted."""
    upstream = untied_decoder()
    ours, theirs = shared_tokens(SOURCE, TARGET)
    assert upstream.output is not None and upstream.bias is not None
    assert true.output is not None and true.bias is not None
    with torch.no_grad():
        upstream.input.weight[ours] = true.input[theirs]
        upstream.output.weight[ours] = true.output[theirs]
        upstream.bias.view(-1)[ours] = true.bias[theirs, 0]
    return request(upstream, unseen())


@pytest.mark.parametrize("width", [16, 24])
@pytest.mark.parametrize("mapping", [LINEAR, DonorMapping(mapping="linear", ridge=0.0)])
def test_a_rotation_of_the_model_is_undone_in_all_tables(width: int, mapping: DonorMapping) -> None:
    true, theirs = rotated(width)
    rows = map_from_donor(replace(upstream_with(true), donor=donor_of(theirs, mapping)))
    ids = [TARGET.ids[entry] for entry in unseen()]
    assert rows.output is not None and rows.bias is not None and true.output is not None and true.bias is not None
    assert torch.allclose(rows.input, true.input[ids], atol=1e-4)
    assert torch.allclose(rows.output, true.output[ids], atol=1e-4)
    assert torch.allclose(rows.bias, true.bias[ids, 0], atol=1e-4)
    assert not any(rows.fallbacks.values())


def test_whole_combinations_undo_a_rotation_as_well() -> None:
    """With as many atoms as dimensions every row of the donor is a combination."""
    true, theirs = rotated(16)
    rows = map_from_donor(replace(upstream_with(true), donor=donor_of(theirs, DonorMapping(atoms=16))))
    ids = [TARGET.ids[entry] for entry in unseen()]
    assert torch.allclose(rows.input, true.input[ids], atol=1e-3)


def reference_pursuit(target: np.ndarray, dictionary: np.ndarray, atoms: int) -> np.ndarray:
    """Coefficients of all vectors [m], by the definition."""
    chosen: list[int] = []
    coefficients = np.zeros(0)
    left = target
    for _ in range(atoms):
        products = np.abs(dictionary @ left)
        products[chosen] = -1
        chosen.append(int(products.argmax()))
        coefficients = np.linalg.lstsq(dictionary[chosen].T, target, rcond=None)[0]
        left = target - coefficients @ dictionary[chosen]
    dense = np.zeros(len(dictionary))
    dense[chosen] = coefficients
    return dense


@pytest.mark.parametrize("atoms", [1, 5, 12])
def test_combinations_are_those_of_a_plain_reference(atoms: int) -> None:
    noise = torch.Generator().manual_seed(4)
    dictionary, targets = torch.randn(60, 12, generator=noise), torch.randn(9, 12, generator=noise)
    dictionary *= torch.linspace(0.5, 2, 60)[:, None]
    rows = torch.randn(60, 7, generator=noise)
    dense = np.stack([reference_pursuit(each, dictionary.double().numpy(), atoms) for each in targets.double().numpy()])
    assert torch.allclose(
        combine_shared(targets, dictionary, rows, atoms), torch.from_numpy(dense).float() @ rows, atol=1e-4
    )
    chosen, _ = pursuit_by_product(targets, dictionary, atoms)
    assert all(set(row.tolist()) == set(np.flatnonzero(one)) for row, one in zip(chosen, dense, strict=True))


def test_equal_and_zero_vectors_can_be_combined() -> None:
    dictionary = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    made = combine_shared(torch.tensor([[2.0, 1.0]]), dictionary, torch.eye(3), 64)
    assert torch.isfinite(made).all() and torch.allclose(made @ dictionary, torch.tensor([[2.0, 0.0]]), atol=1e-5)


def test_the_ridge_is_chosen_by_tokens_left_out() -> None:
    """Of noise the best map is none: the rows become the mean, and not those that happen to fit."""
    noise = torch.Generator().manual_seed(1)
    known, rows = torch.randn(60, 40, generator=noise), torch.randn(60, 8, generator=noise)
    wanted = torch.randn(500, 40, generator=noise)
    assert map_linearly(wanted, known, rows, None).std() < 0.4 < 0.8 < map_linearly(wanted, known, rows, 0.0).std()
    few = map_linearly(wanted, known[:3], rows[:3], None)
    assert torch.isfinite(few).all()


def test_tokens_that_the_donor_lacks_get_their_subwords_and_are_counted() -> None:
    true, theirs = rotated(16)
    lacking = unseen()[1:4]
    base = upstream_with(true)
    smaller = TARGET.without(lacking)
    rows = map_from_donor(replace(base, donor=donor_of(theirs, LINEAR, smaller)))
    mean = mix_subwords(base)
    whole = map_from_donor(replace(base, donor=donor_of(theirs, LINEAR)))
    assert torch.equal(rows.input[1:4], mean.input[1:4])
    assert torch.allclose(rows.input[4:], whole.input[4:], atol=1e-4) and torch.allclose(
        rows.input[0], whole.input[0], atol=1e-4
    )
    assert sum(rows.fallbacks.values()) == 3


def test_a_donor_without_any_of_them_gives_none() -> None:
    base = request(untied_decoder(), unseen())
    rows = map_from_donor(replace(base, donor=donor_of(rotated(16)[1], LINEAR, TARGET.without(unseen()))))
    assert torch.equal(rows.input, mix_subwords(base).input)
    assert sum(rows.fallbacks.values()) == len(unseen())


def test_without_a_donor_or_shared_tokens_it_is_refused() -> None:
    with pytest.raises(UserError, match="needs a donor"):
        map_from_donor(request(untied_decoder(), unseen()))
    strangers = TARGET.without([entry for entry in TARGET.ids if entry in SOURCE.ids])
    with pytest.raises(UserError, match=r"the donor: .*share no token(.|\n)*same languages"):
        map_from_donor(replace(request(untied_decoder(), unseen()), donor=donor_of(rotated(16)[1], LINEAR, strangers)))


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "byte-level-bpe"])
def test_tokens_are_shared_whatever_their_mark(kind: VocabularyKind) -> None:
    """By what they are and whether they begin a word; no special token is among them."""
    other = learn(
        [*english(), *german()], kind=kind, size=340 if kind == "byte-level-bpe" else 120, byte_fallback=False
    )
    ours, theirs = shared_tokens(SOURCE, other)
    pairs = list(zip(ours.tolist(), theirs.tolist(), strict=True))
    words = [(SOURCE.entries[one], other.entries[two]) for one, two in pairs if SOURCE.entries[one] is not None]
    assert len(words) > 15 and all(one == two for one, two in words)
    assert any(one.word_initial and len(one.surface) > 1 for one, _ in words if one is not None)
    assert not set(theirs.tolist()) & other.special_ids and not set(ours.tolist()) & SOURCE.special_ids


def test_a_tied_table_is_mapped_from_the_donors_input_embeddings() -> None:
    upstream, tokenizer = side(gpt2(), "decoder"), german_tokenizer(140)
    assert upstream.tied
    table = torch.randn(len(tokenizer), 19, generator=torch.Generator().manual_seed(2))
    entries = [entry for entry in tokenizer.ids if entry not in german_tokenizer().ids]
    asked = InitialiserInputs(upstream, german_tokenizer(), entries, 0, 0.1, 1, 5, None)
    made = [
        map_from_donor(
            replace(asked, donor=donor_of(FloatTables(table, output, None), DonorMapping(atoms=3), tokenizer))
        )
        for output in (None, torch.zeros_like(table))
    ]
    assert made[0].output is None and made[0].bias is None
    assert torch.equal(made[0].input, made[1].input) and made[0].input.std() > 0
