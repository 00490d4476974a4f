from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from subgraft.config.settings_base import SideName
from subgraft.embeddings.initialisers.new_rows import MixingMatrix
from subgraft.embeddings.transplanting.computed_tables import TiedToSources
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.modeling.sides import side
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.seq2seq import Seq2SeqBatch, Seq2SeqLoss
from toys import english_tokenizer, german, german_tokenizer, marian, mbart, multilingual_tokenizer

BATCH = Seq2SeqBatch(
    torch.tensor([[5, 6, 7, 8]]), torch.ones(1, 4, dtype=torch.long), torch.tensor([[4, 9]]), torch.tensor([[9, 12]])
)


def grafted(
    family: str, sides: tuple[SideName, ...]
) -> tuple[PreTrainedModel, PreTrainedModel, dict[SideName, MixingMatrix]]:
    """A model, and what it was before it got a vocabulary of 140 subwords."""
    target = learn(german(400, 7), kind="bpe", size=140)
    source: dict[SideName, Tokenizer] = {"encoder": english_tokenizer(), "decoder": german_tokenizer()}
    make = marian
    if family == "mbart":
        source, make = dict.fromkeys(("encoder", "decoder"), multilingual_tokenizer()), mbart
        target = learn(german(400, 7), kind="bpe", size=140, languages=tuple(multilingual_tokenizer().languages))
    made = transplant(make(), source, dict.fromkeys(sides, target), Method("mean"))
    return make(), made.model, made.matrices


def everything(model: PreTrainedModel) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


CASES: list[tuple[str, tuple[SideName, ...]]] = [
    ("marian", ("decoder",)),
    ("marian", ("encoder", "decoder")),
    ("mbart", ("decoder",)),
    ("mbart", ("encoder", "decoder")),
]


@pytest.mark.parametrize(("family", "sides"), CASES)
def test_it_starts_equal_to_the_model_that_it_wraps(family: str, sides: tuple[SideName, ...]) -> None:
    upstream, model, matrices = grafted(family, sides)
    plain = Seq2SeqLoss(model)(BATCH)["loss"]
    before = everything(model)
    attached = TiedToSources(Seq2SeqLoss(model), upstream, matrices)
    torch.testing.assert_close(attached(BATCH)["loss"], plain)
    attached.write()
    torch.testing.assert_close(everything(model), before)


@pytest.mark.parametrize(("family", "sides"), CASES)
def test_the_written_model_is_the_trained_one(family: str, sides: tuple[SideName, ...]) -> None:
    """The loss of the model as written, without what it was trained under, is the loss that was trained last."""
    upstream, model, matrices = grafted(family, sides)
    attached = TiedToSources(Seq2SeqLoss(model), upstream, matrices)
    optimizer = torch.optim.SGD([p for p in attached.parameters() if p.requires_grad], lr=0.05)
    before = float(attached(BATCH)["loss"].detach())
    for _ in range(3):
        optimizer.zero_grad()
        attached(BATCH)["loss"].backward()
        optimizer.step()
    attached.write()
    trained = float(attached(BATCH)["loss"].detach())
    assert trained < before
    assert float(Seq2SeqLoss(model)(BATCH)["loss"].detach()) == pytest.approx(trained, rel=1e-5)


def test_a_token_teaches_those_that_share_a_subword_with_it() -> None:
    """After one step on one token, its relatives' rows have moved by their share of the common upstream row."""
    upstream, model, matrices = grafted("marian", ("decoder",))
    matrix = matrices["decoder"]
    attached = TiedToSources(Seq2SeqLoss(model), upstream, matrices)
    table = attached.tables["decoder_input"]
    new = [i for i in range(len(matrix)) if int(matrix.offsets[i + 1] - matrix.offsets[i]) > 1]
    token = new[0]
    parts = set(matrix.tokens[matrix.offsets[token] : matrix.offsets[token + 1]].tolist())
    before = table().detach().clone()
    table()[token].sum().backward()
    with torch.no_grad():
        for parameter in table.parameters():
            assert parameter.grad is not None
            parameter.sub_(parameter.grad)
    moved = (table() - before).abs().sum(dim=1) > 1e-6
    for i in range(len(matrix)):
        own = set(matrix.tokens[matrix.offsets[i] : matrix.offsets[i + 1]].tolist())
        assert bool(moved[i]) == bool(own & parts)


def test_tied_tables_are_one_and_the_models_own_is_left_alone() -> None:
    upstream, model, matrices = grafted("marian", ("decoder",))
    assert side(model, "decoder").tied
    attached = TiedToSources(Seq2SeqLoss(model), upstream, matrices)
    assert list(attached.tables) == ["decoder_input"]
    assert attached.model is model
    assert not side(model, "decoder").input.weight.requires_grad
