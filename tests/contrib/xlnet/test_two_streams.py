"""XLNet's two streams against explicit sums in float64, and against transformers where it can do the same."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from reference_xlnet import ReferenceXLNet
from subgraft.contrib.xlnet.two_streams import CONTEXT, Memory, Streams, permutation_mask, two_streams
from toys import xlnet

SEP, CLS = 2, 0


def streams(
    model: Any, tokens: Tensor, order: list[int], types: Tensor | None = None, **options: Any
) -> tuple[Streams, Tensor]:
    """Both streams of rows [B, T] that have one order, and the targets, ascending."""
    ranks = torch.full(tokens.shape, CONTEXT)
    ranks[:, order] = torch.arange(len(order))
    targets = torch.tensor(sorted(order)).expand(len(tokens), -1)
    defaults = {
        "attention_mask": torch.ones_like(tokens),
        "token_type_ids": torch.zeros_like(tokens) if types is None else types,
        "backwards": torch.zeros(len(tokens), dtype=torch.bool),
    }
    counted = torch.ones(targets.shape, dtype=torch.bool)
    inputs: Any = defaults | options
    with torch.no_grad():
        made = two_streams(
            model.transformer, {"input_ids": tokens}, ranks=ranks, targets=targets, counted=counted, **inputs
        )
    return made, targets


def log_likelihoods(model: Any, made: Streams, tokens: Tensor, targets: Tensor) -> Tensor:
    logits = model.lm_loss(made.query).log_softmax(dim=-1)
    gold: Tensor = logits.gather(2, tokens.gather(1, targets)[..., None])[..., 0].detach()
    return gold


def test_all_orders_of_four_tokens_are_as_the_equations_say() -> None:
    model, tokens = xlnet(d_model=8).double(), torch.tensor([[7, 30, 12, 30, SEP, CLS]])
    types, reference = torch.tensor([[0, 0, 0, 0, 0, 2]]), ReferenceXLNet(model)
    values = set()
    for order in permutations(range(4)):
        made, targets = streams(model, tokens, list(order), types)
        ours = log_likelihoods(model, made, tokens, targets)[0]
        theirs = reference.log_likelihoods(tokens[0].tolist(), types[0].tolist(), list(order))
        assert [float(ours[place]) for place in order] == pytest.approx(theirs, abs=1e-6)
        contents, _ = reference.streams(tokens[0].tolist(), types[0].tolist(), list(order))
        np.testing.assert_allclose(made.content[0].numpy(), np.array(contents), atol=1e-5)
        values.add(round(sum(theirs), 6))
    assert len(values) == 24, "each order is another way to compute the likelihood"


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_probabilities_of_all_texts_add_up_to_one(order: tuple[int, ...]) -> None:
    """A target that saw itself, or a later one, would make them add up to more."""
    model = xlnet(d_model=8).double()
    few = [*range(3, 8)]
    texts = torch.tensor([[*text, SEP, CLS] for text in product(few, repeat=3)])
    made, targets = streams(model, texts, list(order))
    logits = model.lm_loss(made.query)[..., few].log_softmax(dim=-1)  # of a vocabulary of five
    gold = (texts.gather(1, targets) - 3)[..., None]
    total = logits.gather(2, gold)[..., 0].sum(dim=1).exp().sum().detach()
    assert float(total) == pytest.approx(1.0, abs=1e-9)


def test_the_context_sees_no_target_and_targets_see_those_before_them() -> None:
    hidden = permutation_mask(torch.tensor([[CONTEXT, 1, 0, CONTEXT, 2]]))[0].int().tolist()
    assert hidden == [
        [0, 1, 1, 0, 1],
        [0, 1, 0, 0, 1],
        [0, 1, 1, 0, 1],
        [0, 1, 1, 0, 1],
        [0, 0, 0, 0, 1],
    ]


def test_a_memory_that_rows_lack_in_part_is_read_as_far_as_it_goes() -> None:
    model = xlnet(d_model=8).double()
    tokens, types = torch.tensor([[9, 11, 40, 41, SEP, CLS]] * 3), torch.tensor([[0, 0, 1, 1, 1, 2]] * 3)
    generator, order = torch.Generator().manual_seed(1), [3, 0]
    states = torch.randn(2, 4, 3, 8, generator=generator, dtype=torch.float64)
    has = [4, 2, 0]
    absent = torch.tensor([[place < 4 - count for place in range(4)] for count in has])
    backwards = torch.tensor([False, True, True])
    made, targets = streams(model, tokens, order, types, memory=Memory(states, absent), backwards=backwards)
    ours, reference = log_likelihoods(model, made, tokens, targets), ReferenceXLNet(model)
    for row, count in enumerate(has):
        memory = states[:, 4 - count :, row].numpy() if count else None
        sign = -1 if backwards[row] else 1
        wanted = reference.log_likelihoods(tokens[row].tolist(), types[row].tolist(), order, memory, sign)
        assert [float(ours[row, sorted(order).index(place)]) for place in order] == pytest.approx(wanted, abs=1e-6)
    assert len({round(float(row.sum()), 5) for row in ours}) == 3


def test_what_transformers_can_do_itself_is_the_same() -> None:
    """A memory of all rows, and a batch whose second half is read backwards (bi_data)."""
    model = xlnet()
    tokens = torch.arange(5, 5 + 4 * 7).reshape(4, 7)
    order, generator = [5, 1, 3], torch.Generator().manual_seed(2)
    states = torch.randn(2, 3, 4, 16, generator=generator)
    backwards = torch.tensor([False, False, True, True])
    memory = Memory(states, torch.zeros(4, 3, dtype=torch.bool))
    made, targets = streams(model, tokens, order, memory=memory, backwards=backwards)
    ranks = torch.full(tokens.shape, CONTEXT)
    ranks[:, order] = torch.arange(3)
    model.transformer.bi_data = True
    with torch.no_grad():
        theirs = model.transformer(
            tokens,
            token_type_ids=torch.zeros_like(tokens),
            perm_mask=permutation_mask(ranks).float(),
            target_mapping=torch.nn.functional.one_hot(targets, 7).float(),
            mems=list(states.unbind()),
            use_mems=True,
        )
    torch.testing.assert_close(made.query, theirs.last_hidden_state, rtol=1e-5, atol=1e-6)
    for layer, remembered in enumerate(theirs.mems):
        torch.testing.assert_close(made.below[layer], remembered[3:].permute(1, 0, 2), rtol=1e-5, atol=1e-6)
    assert not any(layer._forward_pre_hooks for layer in model.transformer.layer)
