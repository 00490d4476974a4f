"""Token Distillation: its loss against a transplanted model, what it moves, and what that does for other sentences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from new_vocabularies import LANGUAGES, TEXTS, new_vocabulary, upstream
from subgraft.config.settings_base import SideName
from subgraft.config.training import TrainingSettings
from subgraft.embeddings.learned_rows.segmentation_pairs import SegmentationBatch, SegmentationPairs
from subgraft.embeddings.learned_rows.student_embeddings import StudentTable
from subgraft.embeddings.learned_rows.token_distillation_loss import TokenDistillationLoss
from subgraft.embeddings.methods.token_distillation import TokenDistillationSettings
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families.encoder_only import BERT2BERT
from subgraft.modeling.sides import side as side_of
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.checkpoint import Checkpoints
from subgraft.training.engine import PlainEngine
from subgraft.training.loop import Trainer
from subgraft.training.objectives.compute.seq2seq import Seq2SeqData, Seq2SeqLoss
from subgraft.training.objectives.compute.translation import Translation
from subgraft.training.schedule import Data
from toys import german, german_tokenizer

CASES = [(family, side) for family in ("marian", "mbart", BERT2BERT) for side in ("encoder", "decoder")]


def settings(steps: int = 1, rate: float = 0.01) -> TrainingSettings:
    return TrainingSettings(max_steps=steps, batch_size=600, max_length=40, learning_rate=rate, warmup_steps=5)


def distillation(
    bundle: Bundle, side: SideName, target: Tokenizer, **changes: object
) -> tuple[TokenDistillationLoss, StudentTable]:
    table = side_of(bundle.model, side)
    start = StudentTable.of(table, bundle.tokenizers[side], target)
    chosen = TokenDistillationSettings.model_validate(changes)
    return TokenDistillationLoss(bundle.model, table, start, chosen), start


def sentences(bundle: Bundle, side: SideName, target: Tokenizer, start: StudentTable, first: int, last: int) -> Data:
    texts = TEXTS[first:last]
    return SegmentationPairs(texts, bundle, side, target, LANGUAGES, settings(), start.tokens)


def distances(before: Tensor, after: Tensor, batch: SegmentationBatch, euclidean: bool) -> float:
    total = 0.0
    for sentence, one, two in batch.agreeing.tolist():
        difference = (before[sentence, one] - after[sentence, two]).double()
        total += float(difference.square().sum().sqrt() if euclidean else difference.square().mean())
    return total


@pytest.mark.parametrize(("family", "side"), CASES)
@pytest.mark.parametrize("distance", ["squared", "euclidean"])
def test_the_student_is_the_model_that_a_transfer_makes(family: str, side: SideName, distance: str) -> None:
    """Its states are those of the transplanted model on the new segmentation; the distance is written out here."""
    bundle, target = upstream(family), new_vocabulary(family, side)
    module, start = distillation(bundle, side, target, distance=distance)
    batch = sentences(bundle, side, target, start, 0, 12).batch(np.arange(10), 0)
    assert isinstance(batch, SegmentationBatch)
    with torch.no_grad():
        loss = float(module(batch)["distillation"])
        before = states(bundle.model, batch, after=False)
        model = transplant(upstream(family).model, bundle.tokenizers, {side: target}, Method("mean")).model
        after = states(model, batch, after=True)
    place = 0 if side == "encoder" else 1
    expected = distances(before[place], after[place], batch, distance == "euclidean")
    assert loss == pytest.approx(expected, rel=1e-4)
    assert loss > 0


def states(model: torch.nn.Module, batch: SegmentationBatch, after: bool) -> tuple[Tensor, Tensor]:
    read = batch.student if after else batch.teacher
    out = model.eval()(
        input_ids=read.input_ids, attention_mask=read.attention_mask, decoder_input_ids=read.decoder_input_ids,
        output_hidden_states=True,
    )  # fmt: skip
    return out.encoder_last_hidden_state, out.decoder_hidden_states[-1]


@pytest.mark.parametrize(("family", "side"), CASES)
def test_only_the_rows_of_new_tokens_that_were_read_move(family: str, side: SideName, tmp_path: Path) -> None:
    bundle, target = upstream(family), new_vocabulary(family, side)
    module, start = distillation(bundle, side, target)
    frozen = {name: tensor.clone() for name, tensor in bundle.model.state_dict().items()}
    data = sentences(bundle, side, target, start, 0, 12)
    batch = data.batch(np.arange(4), 0)
    assert isinstance(batch, SegmentationBatch)
    module(batch)["distillation"].backward()
    assert [name for name, parameter in module.named_parameters() if parameter.grad is not None] == ["embeddings.added"]
    assert module.embeddings.added.grad is not None
    moved = {start.tokens[i] for i in module.embeddings.added.grad.any(dim=1).nonzero().flatten().tolist()}
    student = batch.student.input_ids if side == "encoder" else batch.student.decoder_input_ids
    assert moved == set(start.tokens).intersection(student.flatten().tolist()) != set()
    train(module, data, 3, tmp_path)
    assert all(torch.equal(tensor, frozen[name]) for name, tensor in bundle.model.state_dict().items())
    tokens, rows = module.embeddings.trained()
    every = data.batch(np.arange(len(data.lengths)), 0)
    assert isinstance(every, SegmentationBatch)
    student = every.student.input_ids if side == "encoder" else every.student.decoder_input_ids
    assert set(tokens.tolist()) == set(start.tokens).intersection(student.flatten().tolist())
    assert set(tokens.tolist()).isdisjoint(target.ids[e] for e in target.ids if e in bundle.tokenizers[side].ids)
    expected = start.table.index_copy(0, tokens, rows)
    torch.testing.assert_close(module.embeddings(torch.arange(len(target))) / module.embeddings.scale, expected)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_after_the_last_layer_is_the_top_and_lower_layers_differ(side: SideName) -> None:
    bundle, target = upstream("marian"), new_vocabulary("marian", side)
    layers = {"encoder": 1, "decoder": 2}[side]
    losses = {}
    for layer in (None, *range(1, layers + 1)):
        module, start = distillation(bundle, side, target, layer=layer)
        batch = sentences(bundle, side, target, start, 0, 8).batch(np.arange(6), 0)
        losses[layer] = float(module(batch)["distillation"].detach())
    assert losses[layers] == losses[None]
    assert len(set(losses.values())) == layers


def test_a_token_that_the_upstream_vocabulary_knows_no_part_of_is_not_trained() -> None:
    bundle = upstream("marian")
    target = learn([*german(200, 7), *["☃☃ Straße"] * 40], kind="unigram", size=150, character_coverage=1.0)
    _, start = distillation(bundle, "decoder", target)
    unseen = {token for entry, token in target.ids.items() if entry not in german_tokenizer().ids}
    unknown = {token for entry, token in target.ids.items() if set(entry.surface) == {"☃"}}
    assert unknown
    assert set(start.tokens).isdisjoint(unknown) and set(start.tokens) < unseen


def train(module: torch.nn.Module, data: Data, steps: int, place: Path, rate: float = 0.01) -> None:
    weight = "loss" if isinstance(module, Seq2SeqLoss) else "distillation"
    engine = PlainEngine(module, settings(steps, rate), torch.device("cpu"))
    Trainer(module, {weight: 1.0}, data, settings(steps, rate), engine, Checkpoints(place / weight), seed=1).run()


@pytest.mark.slow
@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_states_on_other_sentences_come_nearer_to_those_of_a_trained_model(side: SideName, tmp_path: Path) -> None:
    """A model that has learnt to translate; its rows by the mean of subwords, and after distillation."""
    bundle, target = upstream("marian"), new_vocabulary("marian", side)
    examples = Translation(TEXTS[:250], bundle.encoder, bundle.decoder, bundle.sequence_format(LANGUAGES), 40)
    train(Seq2SeqLoss(bundle.model), Seq2SeqData(examples, *bundle.padding), 120, tmp_path)
    module, start = distillation(bundle, side, target)
    other = sentences(bundle, side, target, start, 250, 300)
    batch = other.batch(np.arange(len(other.lengths)), 0)
    with torch.no_grad():
        before = float(module(batch)["distillation"])
    train(module, sentences(bundle, side, target, start, 0, 250), 60, tmp_path)
    with torch.no_grad():
        after = float(module(batch)["distillation"])
    assert after < 0.8 * before
