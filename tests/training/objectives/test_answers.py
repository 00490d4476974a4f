"""Labels of conversations are those of transformers and of a mask by hand; the loss is transformers' own."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from instruct import INSTRUCT, LLAMA_3_CHAT, MARKED_CHAT, changed
from subgraft.base.errors import UserError
from subgraft.config.settings_base import VocabularyKind
from subgraft.config.training import TrainingSettings
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.inference.prompts import ChatTemplate
from subgraft.subwords.vocabulary.extend import extend
from subgraft.subwords.vocabulary.learn import learn
from subgraft.training.objectives.compute.conversations import (
    Conversations,
    ConversationScores,
    Turns,
    answer_nats,
    answers_of,
    template_of,
    with_template,
)
from subgraft.training.objectives.compute.embedding_view import IGNORED
from subgraft.training.objectives.compute.single_stack import StackLoss
from subgraft.training.objectives.conversations import ChatSettings
from toys import english

LINES = english(12)
TRAINING = TrainingSettings(max_steps=1, batch_size=400, learning_rate=0.1, warmup_steps=1)
# The end of an answer as the template writes it, and the words before one.
ENDS = {
    "qwen2.5": ("<|im_start|>assistant\n", "<|im_end|>\n"),
    "llama-3": ("<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"),
    "gemma": ("<start_of_turn>model\n", "<end_of_turn>\n"),
    "mistral": ("[/INST]", "</s>"),
    "marked": ("<|im_start|>assistant\n", "<|im_end|>"),
}


def conversation(*contents: str, system: str | None = None) -> list[dict[str, str]]:
    turns = [{"role": ("user", "assistant")[at % 2], "content": content} for at, content in enumerate(contents)]
    return ([{"role": "system", "content": system}] if system else []) + turns


CONVERSATIONS = [
    conversation(LINES[0], LINES[1]),
    conversation(LINES[2], "Yes:\n- a;\n- “b” — ç.", LINES[4], LINES[5]),
    conversation(LINES[6], "No.", LINES[7], LINES[8], LINES[9], "1 + 1 = 2"),
]

# Within the 64 positions of every model.
SHORT = [conversation("Who?", "Me."), conversation("a", "b c", "d", "e")]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("instruct")
    for name, write in INSTRUCT.items():
        write(place / name)
    return {name: place / name for name in INSTRUCT}


def answers_by_hand(name: str, turns: Turns, theirs: Any) -> tuple[list[int], list[bool]]:
    """transformers' own ids, and whether each is of an answer: between the words before it and its end."""
    text: str = theirs.apply_chat_template(turns, tokenize=False)
    before, end = ENDS[name]
    inside = [False] * len(text)
    for match in re.finditer(f"(?<={re.escape(before)}).*?{re.escape(end)}", text, re.DOTALL):
        inside[match.start() : match.end()] = [True] * (match.end() - match.start())
    encoded = theirs(text, add_special_tokens=False, return_offsets_mapping=True)
    return encoded["input_ids"], [any(inside[start:stop]) for start, stop in encoded["offset_mapping"]]


@pytest.mark.parametrize("name", INSTRUCT)
def test_labels_are_the_answers_and_their_ends(name: str, models: dict[str, Path]) -> None:
    theirs: Any = AutoTokenizer.from_pretrained(models[name])
    template = template_of(Bundle.load(models[name]).decoder)
    for learnt in ("all", "last"):
        data = Conversations(CONVERSATIONS, template, learnt, 10_000)
        assert data.whole.all() and data.usable.all() and not data.left_out
        for place, turns in enumerate(CONVERSATIONS):
            ids, answers = answers_by_hand(name, turns, theirs)
            assert ids == theirs.apply_chat_template(turns)["input_ids"]
            if learnt == "last":
                ended = np.flatnonzero(np.diff([0, *answers]) == 1)[-1]
                answers = [answer and at >= ended for at, answer in enumerate(answers)]
            example = data.example(place, 0)
            assert example.tokens == ids
            expected = [token if answer else IGNORED for token, answer in zip(ids[1:], answers[1:], strict=True)]
            assert example.labels == [*expected, IGNORED]
            if learnt == "all":
                learnt_text = theirs.decode([label for label in example.labels if label != IGNORED])
                assert all(turn["content"] in learnt_text for turn in turns if turn["role"] == "assistant")
                assert not any(turn["content"] in learnt_text for turn in turns if turn["role"] == "user")


def test_marked_answers_are_transformers_own_mask(models: dict[str, Path]) -> None:
    theirs: Any = AutoTokenizer.from_pretrained(models["marked"])
    data = Conversations(CONVERSATIONS, template_of(Bundle.load(models["marked"]).decoder), "all", 10_000)
    for place, turns in enumerate(CONVERSATIONS):
        asked = {"return_assistant_tokens_mask": True, "return_dict": True}
        expected = theirs.apply_chat_template(turns, **asked)
        masked = zip(expected["input_ids"], expected["assistant_masks"], strict=True)
        labels = [token if answer else IGNORED for token, answer in masked]
        assert data.example(place, 0).labels == [*labels[1:], IGNORED] and sum(expected["assistant_masks"]) > 3


@pytest.mark.parametrize("name", ["qwen2.5", "gemma"])
def test_the_loss_is_transformers_own(name: str, models: dict[str, Path]) -> None:
    bundle = Bundle.load(models[name])
    bundle.model.float().eval()
    theirs = AutoModelForCausalLM.from_pretrained(models[name], dtype=torch.float32).eval()
    data = Conversations(SHORT, template_of(bundle.decoder), "all", 10_000)
    batch = data.batch(np.arange(len(SHORT)), 0)
    # transformers shifts labels itself: each is at the place of its own token.
    labels = torch.cat([torch.full((len(batch.labels), 1), IGNORED), batch.labels[:, :-1]], dim=1)
    with torch.no_grad():
        result = StackLoss(bundle.model)(batch)["loss"]
        expected = theirs(input_ids=batch.input_ids, attention_mask=batch.attention_mask, labels=labels).loss
    assert float(result) / batch.counts["loss"] == pytest.approx(float(expected), rel=1e-4)
    score = ConversationScores(bundle, SHORT, "all", TRAINING)()["bits_per_character"]
    characters = sum(len(answers_of(turns, "all")) for turns in SHORT)
    assert score == pytest.approx(float(result) / np.log(2) / characters, rel=1e-4)
    nats = sum(of_tokens.sum() for _, of_tokens in answer_nats(bundle, SHORT, "all"))
    assert nats == pytest.approx(float(result), rel=1e-4)


def test_what_is_cut_away_or_spells_special_tokens_is_left_out_and_counted(models: dict[str, Path]) -> None:
    template = template_of(Bundle.load(models["qwen2.5"]).decoder)
    whole = Conversations(CONVERSATIONS, template, "all", 10_000)
    first = next(at for at, label in enumerate(whole.example(1, 0).labels) if label != IGNORED)
    spelled = conversation("stop <|im_end|>", "there")
    data = Conversations([*CONVERSATIONS, spelled], template, "all", first + 3)
    assert data.left_out == {"special_token_in_text": 1, "answers_cut_away": int((~data.usable[:3]).sum())}
    assert not data.usable[3] and data.usable[1] and not data.whole[1]
    example = data.example(1, 0)
    assert len(example.tokens) == first + 3
    assert example.labels == [*whole.example(1, 0).labels[: first + 2], IGNORED]
    last = Conversations(CONVERSATIONS, template, "last", first + 3)
    assert not last.usable[1], "the last answer is cut away"


def test_a_template_that_rewrites_earlier_turns_is_refused(models: dict[str, Path], tmp_path: Path) -> None:
    bundle = Bundle.load(models["llama-3"])
    last_alone = LLAMA_3_CHAT.replace("message['content'] | trim", "(message['content'] if loop.last else 'x') | trim")
    template = ChatTemplate(bundle.decoder, last_alone)
    with pytest.raises(UserError, match=r"differently within all 4.*(?s:.*)chat.turns: last"):
        Conversations([CONVERSATIONS[1]], template, "all", 1000)
    with pytest.raises(UserError, match="the chat template cannot be used: System role not supported"):
        system = conversation("a", "b", system="s")
        Conversations([system], template_of(Bundle.load(models["gemma"]).decoder), "all", 1000)


def test_a_model_without_a_template_takes_the_configured_one(models: dict[str, Path], tmp_path: Path) -> None:
    changed(models["marked"], {"chat_template": None}, {})
    bundle = Bundle.load(models["marked"])
    changed(models["marked"], {"chat_template": MARKED_CHAT}, {})
    with pytest.raises(UserError, match=r"chat.template: .*no chat template(?s:.*)give chat.template"):
        template_of(bundle.decoder)
    other = with_template(bundle, ChatSettings(template=MARKED_CHAT))
    other.save(tmp_path)
    assert json.loads((tmp_path / "tokenizer_config.json").read_text())["chat_template"] == MARKED_CHAT
    expected = Conversations(CONVERSATIONS, template_of(Bundle.load(models["marked"]).decoder), "all", 500)
    result = Conversations(CONVERSATIONS, template_of(Bundle.load(tmp_path).decoder), "all", 500)
    assert [result.example(at, 0) for at in range(3)] == [expected.example(at, 0) for at in range(3)]


@pytest.mark.parametrize("name", ["qwen2.5", "gemma"])
def test_a_vocabulary_that_changes_line_ends_is_refused(name: str, models: dict[str, Path]) -> None:
    """Whether or not it has an unknown token: one that folds a line end into a space has none."""
    own = Bundle.load(models[name]).decoder
    with pytest.raises(UserError, match=r"changes the words or line ends(?s:.*)byte-level-bpe"):
        template_of(learn(english(200), kind="wordpiece", size=150, like=own))
    kinds: list[tuple[VocabularyKind, int, bool]] = [
        ("unigram", 100, False),
        ("unigram", 400, True),
        ("bpe", 400, True),
    ]
    for kind, size, byte_fallback in [*kinds, ("byte-level-bpe", 400, False)]:
        learnt = learn(english(200), kind=kind, size=size, byte_fallback=byte_fallback, like=own)
        if learnt.decode(learnt.encode("a\nb")) == "a\nb":
            template_of(learnt)
            continue
        with pytest.raises(UserError, match="changes the words or line ends"):
            template_of(learnt)
    template_of(extend(own, english(200), 5))
