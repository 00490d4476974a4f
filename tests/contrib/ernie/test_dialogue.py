"""Dialogues: which turns are read together, how often they are fake, what is hidden, and both losses."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from scipy import stats
from torch.nn.functional import cross_entropy

from subgraft.base.errors import UserError
from subgraft.config.corpora import Cleaning, Languages
from subgraft.config.training import TrainingSettings
from subgraft.contrib.ernie.dialogue import DialogueObjective, Dialogues
from subgraft.contrib.ernie.objectives import DialogueSettings
from subgraft.contrib.ernie.settings import ErnieSettings
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.text.corpus import Corpus
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import FAMILIES
from subgraft.subwords.vocabulary.learn import learn
from subgraft.training.objectives.compute.embedding_view import IGNORED
from subgraft.training.objectives.compute.interface import ObjectiveInputs
from toys import SHAPE, one_stack

ENGLISH = Languages(source="en", target="en")
TRAINING = TrainingSettings(epochs=1, batch_size=500, learning_rate=0.001, warmup_steps=1, max_length=40)
Roles = Sequence[str]
# Of the runs of three turns, these have an order that is learnt: QRQ, QRR and QQR, QRQ and none.
PATTERNS: tuple[str, ...] = ("QRQ", "QRR", "QQRQ", "RQR", "QRQRQ")


def _text(conversation: int, turn: int) -> str:
    return f"{'ask' if turn % 2 else 'say'} c{conversation} t{turn}"


def _conversations() -> list[list[dict[str, str]]]:
    roles = {"Q": "user", "R": "assistant"}
    return [
        [{"role": roles[role], "content": _text(number, turn)} for turn, role in enumerate(PATTERNS[number % 5])]
        for number in range(40)
    ]


def _corpus(folder: Path, conversations: list[list[dict[str, str]]]) -> Corpus:
    (folder / "in").mkdir(parents=True)
    lines = [json.dumps({"messages": [{"role": "system", "content": "x"}, *turns]}) for turns in conversations]
    (folder / "in" / "train.jsonl").write_text("".join(f"{line}\n" for line in lines))
    source = CorpusSource.model_validate({"conversations": {"folder": str(folder / "in")}})
    return build(source, ENGLISH, Cleaning(min_characters=1), folder / "out")


def _request(corpus: Corpus, segments: int = 3) -> ObjectiveInputs:
    tokenizer = learn([turn["content"] for turns in _conversations() for turn in turns], kind="wordpiece", size=60)
    settings = ErnieSettings(**one_stack(SHAPE, "encoder_layers"), task_embeddings=2, segments=3)
    model = FAMILIES["ernie"].build(settings, tokenizer, tokenizer, 1).eval()
    if segments != 3:
        model.config.type_vocab_size = segments
    return ObjectiveInputs(Bundle(model, tokenizer, tokenizer), corpus, ENGLISH, TRAINING, 1)


def _dialogues() -> Dialogues:
    tokenizer = learn([turn["content"] for turns in _conversations() for turn in turns], kind="wordpiece", size=60)
    return Dialogues(_conversations(), tokenizer, 36, 1)


def test_half_of_the_dialogues_have_one_turn_of_the_same_role_from_elsewhere() -> None:
    """χ² of real and fake dialogues, of the turn that is replaced, and of the conversation that it is from."""
    dialogues = _dialogues()
    tokenizer = learn([turn["content"] for turns in _conversations() for turn in turns], kind="wordpiece", size=60)
    spelled = {tuple(tokenizer.encode(_text(c, t))): (c, t) for c in range(40) for t in range(len(PATTERNS[c % 5]))}
    assert len(dialogues) == 8 * (1 + 1 + 2 + 0 + 2)
    real, replaced, sources = Counter[bool](), np.zeros(3), np.zeros(40)
    for number in range(6000):
        turns, roles, is_real = dialogues.example(number % len(dialogues), np.random.default_rng([3, number]))
        assert roles in {(0, 1, 0), (0, 1, 1), (0, 0, 1)}
        places = [spelled[tuple(turn)] for turn in turns]
        for (conversation, turn), role in zip(places, roles, strict=True):
            assert "QR".index(PATTERNS[conversation % 5][turn]) == role, "a turn is replaced by one of its role"
        own, count = Counter(conversation for conversation, _ in places).most_common(1)[0]
        real[is_real] += 1
        assert is_real == (count == 3)
        if is_real:
            first = places[0][1]
            assert [turn for _, turn in places] == [first, first + 1, first + 2]
        else:
            assert count == 2
            (other,) = (at for at, (conversation, _) in enumerate(places) if conversation != own)
            replaced[other] += 1
            sources[places[other][0]] += 1
    assert stats.chisquare(list(real.values())).pvalue > 1e-3
    assert stats.chisquare(replaced).pvalue > 1e-3
    assert sources.min() > 0


def test_rows_mark_the_roles_and_hide_words_of_turns_only(tmp_path: Path) -> None:
    request = _request(_corpus(tmp_path, _conversations()))
    objective = DialogueObjective(DialogueSettings(share=0.3), request)
    batch = objective.batch(np.arange(len(objective.lengths)), 2)
    special = request.bundle.encoder.special
    for row, types, labels, mask in zip(
        *(getattr(batch, name).tolist() for name in ("input_ids", "token_type_ids", "labels", "attention_mask")),
        strict=True,
    ):
        length = sum(mask)
        assert row[0] == special["bos"] and types[0] == 0 and row[length - 1] == special["eos"]
        ends = [at for at, token in enumerate(row) if token == special["eos"]]
        assert len(ends) == 3 and all(labels[at] == IGNORED for at in (0, *ends))
        bounds = zip([1, *(end + 1 for end in ends)], ends, strict=False)
        roles = [set(types[begin : end + 1]) for begin, end in bounds]
        assert [len(each) for each in roles] == [1, 1, 1] and {role for each in roles for role in each} == {1, 2}
        hidden = sum(label != IGNORED for label in labels)
        assert hidden == max(1, round(0.3 * (length - 4)))
    assert batch.counts == {"loss": int((batch.labels != IGNORED).sum()), "response": len(batch.real)}
    again = objective.batch(np.arange(5), 2)
    assert torch.equal(again.input_ids, objective.batch(np.arange(5), 2).input_ids)
    drawn = {tuple(objective.batch(np.arange(9), epoch).real.tolist()) for epoch in range(8)}
    assert len(drawn) > 4, "other dialogues are fake in another epoch"


def test_the_losses_are_those_of_transformers_classes(tmp_path: Path) -> None:
    request = _request(_corpus(tmp_path, _conversations()))
    objective = DialogueObjective(DialogueSettings(), request)
    loss, batch, model = objective.loss(0.0), objective.batch(np.arange(12), 1), request.bundle.model
    inputs = {name: getattr(batch, name) for name in ("input_ids", "attention_mask", "token_type_ids")}
    inputs["task_type_ids"] = torch.zeros_like(batch.input_ids)
    assert isinstance(loss.model, transformers.ErnieForSequenceClassification)
    with torch.no_grad():
        sums = loss(batch)
        tokens = model(**inputs, labels=batch.labels).loss * batch.counts["loss"]
        response = cross_entropy(loss.model(**inputs).logits, batch.real, reduction="sum")
    assert float(sums["loss"]) == pytest.approx(float(tokens), rel=1e-5)
    assert float(sums["response"]) == pytest.approx(float(response), rel=1e-6)
    torch.stack(list(loss(batch).values())).sum().backward()
    assert all(parameter.grad is not None for parameter in loss.parameters())
    with pytest.raises(UserError, match="trained on the objective dialogue"):
        objective.view("decoder")


def test_unsuitable_conversations_and_models_are_refused(tmp_path: Path) -> None:
    two = [turns[:2] for turns in _conversations() if len(turns) > 2 and turns[0]["role"] == "user"]
    with pytest.raises(UserError, match="no conversation has three turns"):
        DialogueObjective(DialogueSettings(), _request(_corpus(tmp_path / "two", two)))
    with pytest.raises(UserError, match="there is one conversation"):
        DialogueObjective(DialogueSettings(), _request(_corpus(tmp_path / "one", _conversations()[4:5])))
    with pytest.raises(UserError, match="the model has 2 segments"):
        DialogueObjective(DialogueSettings(), _request(_corpus(tmp_path / "all", _conversations()), segments=2))
