"""A loss of which the rows of new tokens alone are trained: in tied tables, tables apart, and biases."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.config.settings_base import SideName
from subgraft.embeddings.transplanting.computed_tables import NewRowsOnly
from subgraft.modeling.sides import tables_of
from subgraft.training.objectives.compute.seq2seq import Seq2SeqBatch, Seq2SeqLoss
from toys import bert2bert, marian, mbart, t5

BATCH = Seq2SeqBatch(
    torch.tensor([[5, 6, 7, 8]]), torch.ones(1, 4, dtype=torch.long), torch.tensor([[4, 9]]), torch.tensor([[9, 12]])
)
NEW = np.array([6, 9, 12, 40])
BOTH: tuple[SideName, ...] = ("encoder", "decoder")
CASES: dict[str, tuple[PreTrainedModel, tuple[SideName, ...], int]] = {
    "marian": (marian(), ("decoder",), 1),
    "marian, both sides": (marian(), BOTH, 2),
    "mbart, one table": (mbart(), BOTH, 1),
    "t5 1.1, a projection of its own": (t5(tied=False), BOTH, 2),
    "bert2bert, a trained bias": (bert2bert(), ("decoder",), 2),
    "bert2bert, a projection of its own": (bert2bert(tied=False), ("decoder",), 3),
}


def tensors(model: PreTrainedModel) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("case", CASES)
def test_these_rows_are_trained_and_nothing_else_changes_by_a_bit(case: str) -> None:
    """Under weight decay too, and the written rows are the trained ones."""
    model, sides, count = CASES[case]
    before, plain = tensors(model), float(Seq2SeqLoss(model)(BATCH)["loss"].detach())
    tables = {id(table) for table in tables_of(model, sides).values()}
    names = {name for name, parameter in model.named_parameters(remove_duplicate=False) if id(parameter) in tables}
    alone = NewRowsOnly(Seq2SeqLoss(model), dict.fromkeys(sides, NEW))
    assert float(alone(BATCH)["loss"].detach()) == pytest.approx(plain, rel=1e-6)
    trained = [parameter for parameter in alone.parameters() if parameter.requires_grad]
    assert len(trained) == count and all(len(rows) == len(NEW) for rows in trained)
    optimizer = torch.optim.AdamW(trained, lr=0.05, weight_decay=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        alone(BATCH)["loss"].backward()
        optimizer.step()
    alone.write()
    after = float(alone(BATCH)["loss"].detach())
    assert after < plain
    assert float(Seq2SeqLoss(model)(BATCH)["loss"].detach()) == pytest.approx(after, rel=1e-6)
    old = np.setdiff1d(np.arange(min(len(table) for table in tables_of(model, sides).values())), NEW)
    for name, tensor in tensors(model).items():
        if name not in names:
            assert torch.equal(tensor, before[name]), name
        else:
            assert torch.equal(tensor[old], before[name][old]), name
            assert not torch.equal(tensor[NEW], before[name][NEW]), name


def test_gradients_are_those_of_the_rows_in_the_whole_tables() -> None:
    whole, model = mbart(), mbart()
    Seq2SeqLoss(whole)(BATCH)["loss"].backward()
    expected = tables_of(whole, BOTH)["decoder.input"].grad
    alone = NewRowsOnly(Seq2SeqLoss(model), dict.fromkeys(BOTH, NEW))
    alone(BATCH)["loss"].backward()
    (rows,) = alone.trained
    assert expected is not None and rows.grad is not None
    torch.testing.assert_close(rows.grad, expected[NEW])


def test_the_place_of_a_tokens_row() -> None:
    model = marian()
    alone = NewRowsOnly(Seq2SeqLoss(model), {"decoder": NEW})
    rows, places = alone.place_of(tables_of(model, ["decoder"])["decoder.input"], torch.tensor([9, 40]))
    assert rows is alone.trained[0] and places.tolist() == [1, 3]


def test_no_new_token_is_nothing_to_train() -> None:
    with pytest.raises(UserError, match="no token of the vocabulary is new"):
        NewRowsOnly(Seq2SeqLoss(marian()), {"decoder": np.array([], dtype=np.int64)})
