"""Where words, answers and entities are among the tokens, with vocabularies and characters of all kinds."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoTokenizer

import published
from labelled import ENGLISH, labelled_corpus
from subgraft.config.corpora import Cleaning
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.metrics.sentence_statistics import FloatArray
from subgraft.modeling.families import InputLayout
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.understanding.inputs import TextEncoder
from subgraft.training.understanding.registry import TASK_CLASSES
from subgraft.training.understanding.sequences import insert_marks
from subgraft.training.understanding.spans import SpanExtraction
from subgraft.training.understanding.tags import Tagging
from subgraft.training.understanding.task import Split
from toys import english

TEXTS = [
    "Zoë's café naïvely sold crème brûlée",
    "the 🙂 👩\u200d👩\u200d👧 emoji, and 漢字 and 東京都",
    "Ǆ ﬁnal ½ e\u0301te\u0301 Straße",
    "a  double  space",
    "an</s>ordinary [CLS] text <unk>",
    "x",
]
KINDS: tuple[Any, ...] = ("unigram", "bpe", "byte-level-bpe", "wordpiece")


@cache
def vocabulary(kind: Any, byte_fallback: bool = False) -> Tokenizer:
    lines = english(200)
    size = 450 if kind == "byte-level-bpe" or byte_fallback else 90
    return learn(lines, kind=kind, size=size, byte_fallback=byte_fallback)


def vocabularies() -> list[Tokenizer]:
    return [*(vocabulary(kind) for kind in KINDS), vocabulary("unigram", True)]


def encoder_of(tokenizer: Tokenizer, longest: int = 512, forwards: bool = False) -> TextEncoder:
    begin, end = tokenizer.special.get("bos", 1), tokenizer.special.get("eos", 2)
    layout = InputLayout(() if forwards else (begin,), (end,), () if forwards else (end,), not forwards, 512)
    return TextEncoder(tokenizer, layout, longest, 0)


def corpus_of(task: Mapping[str, Any], records: list[Mapping[str, Any]], place: Path) -> Corpus:
    (place / "files").mkdir()
    for split in ("train", "dev", "test"):
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (place / "files" / f"{split}.jsonl").write_text(lines, encoding="utf-8")
    cleaning = Cleaning(max_characters=None, max_ratio=None, deduplicate=False, drop_held_out=False)
    settings = CorpusSource.model_validate({"labelled": {"folder": str(place / "files"), **task}})
    return build(settings, ENGLISH, cleaning, place / "corpus", base=place)


@pytest.mark.parametrize("text", TEXTS)
def test_a_words_pieces_have_its_characters(text: str) -> None:
    for tokenizer in vocabularies():
        ((ids, ends),) = encoder_of(tokenizer).with_ends([text])
        assert ids == tokenizer.encode_batch([text])[0] and min(ends) >= 0 and sorted(ends) == ends
        starts = [0, *ends]
        ((same_ids, words),) = encoder_of(tokenizer).with_words([text])
        assert same_ids == ids and sorted(words) == words
        for number, word in enumerate(text.split(" ")):
            tokens = [token for token, of in enumerate(words) if of == number]
            if word:
                assert text[starts[tokens[0]] : ends[tokens[-1]]].strip() == word
            elif tokens:
                assert not text[starts[tokens[0]] : ends[tokens[-1]]].strip()


# Characters that vocabularies remove, spell as several tokens, or lack, so that the word's first token is a bare mark.
WORDS = (
    *("Thank", "you", "of", "the", "friend", "(", "é", "😀", "Ångström", "2024", "中文", "ﬁ", "e\u0301te\u0301"),
    *("\u200b", "\ufeff", "\u00ad", "\u200d", "\u0301", "Than\u00adk"),
)
LAYOUTS = ("mbert", "xlm_roberta", "mbart_cc25", "t5", "deberta_v3", "llama_2", "roberta", "gpt2")


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_token_is_of_the_word_that_transformers_names(name: str, tmp_path: Path) -> None:
    getattr(published, name)(tmp_path)
    prefix = {"add_prefix_space": True} if name in ("roberta", "gpt2") else {}
    theirs = AutoTokenizer.from_pretrained(tmp_path, **prefix)
    theirs.save_pretrained(tmp_path / "saved")
    unrecorded = Tagging.of_model(("O", "A"), {})
    ours, rng, compared = Tokenizer.load(tmp_path / "saved"), random.Random(1), 0
    sentences = [[rng.choice(WORDS) for _ in range(6)] for _ in range(100)]
    for sentence, (ids, words) in zip(sentences, ours.encode_with_words([" ".join(s) for s in sentences]), strict=True):
        expected = theirs(sentence, is_split_into_words=True, add_special_tokens=False)
        if ids == expected.input_ids:  # words alone and in a line may differ in spelling
            assert words == (of := expected.word_ids()), sentence
            (places,) = unrecorded.read([" ".join(sentence)], encoder_of(ours, forwards=True)).details
            assert places == [of.index(word) if word in of else None for word in range(len(sentence))]
            compared += 1
    assert compared > 50


@pytest.mark.parametrize("name", LAYOUTS)
def test_only_a_words_own_tokens_have_its_tag(name: str, tmp_path: Path) -> None:
    getattr(published, name)(tmp_path)
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.encode_with_words(["", "x"])[0] == (tokenizer.encode(""), [0] * len(tokenizer.encode("")))
    task, sentence = Tagging(("O", "A")), "you \u200b Thank ( friend"
    for forwards in (False, True):
        split = task.read([sentence], encoder_of(tokenizer, forwards=forwards))
        (words,), begin = [each for _, each in tokenizer.encode_with_words([sentence])], 0 if forwards else 1
        owners = [None if place is None else words[place - begin] for place in split.details[0]]
        assert owners in ([0, 1, 2, 3, 4], [0, None, 2, 3, 4])
        bare = split.examples[0].rows[0].tokens[split.details[0][0 if forwards else 4]]
        assert not forwards or tokenizer.pieces[bare] != tokenizer.mark.value, "which is the next word's"


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_reads_forwards_tags_a_word_where_it_has_read_it(kind: Any, tmp_path: Path) -> None:
    corpus = labelled_corpus("tagging", tmp_path)
    both, forwards = (
        Tagging.of(corpus).split(corpus, "test", encoder_of(vocabulary(kind), forwards=only)) for only in (False, True)
    )
    assert [len(pieces) for pieces in both.details] == [len(tags) for tags in both.references]
    firsts, lasts = ([piece for pieces in split.details for piece in pieces] for split in (both, forwards))
    assert all(first - 1 <= last for first, last in zip(firsts, lasts, strict=True)), "one has a token at the beginning"
    assert any(first - 1 < last for first, last in zip(firsts, lasts, strict=True))
    labels = [[tag for tag in example.target.tolist() if tag >= 0] for example in both.examples]
    assert labels == [[tag for tag in example.target.tolist() if tag >= 0] for example in forwards.examples]


def certain(split: Split) -> list[FloatArray]:
    """Outputs of a model that is sure of the wanted places."""
    outputs = []
    for example in split.examples:
        logits = np.zeros((len(example.rows[0].tokens) + 3, 2))
        logits[-3:] = -np.inf
        logits[example.target[0], 0] += 9
        logits[example.target[1], 1] += 9
        outputs.append(logits)
    return outputs


@pytest.mark.parametrize("forwards", [False, True])
@pytest.mark.parametrize("longest", [512, 24])
def test_answers_are_found_in_text_of_all_characters(longest: int, forwards: bool, tmp_path: Path) -> None:
    passages = [text for text in TEXTS if len(text.split()) > 3]
    records: list[Mapping[str, Any]] = []
    for passage in passages:
        at = 0
        for word in passage.split(" "):
            if word:
                records.append({"question": "where?", "passage": passage, "answers": [[at, at + len(word)]]})
            at += len(word) + 1
        records.append({"question": "nowhere?", "passage": passage, "answers": []})
    corpus = corpus_of({"question": "question", "passage": "passage", "answers": "answers"}, records, tmp_path)
    task = SpanExtraction.of(corpus)
    assert not task.answerable and task.longest == max(len(word) for text in passages for word in text.split(" "))
    for tokenizer in vocabularies():
        split = task.split(corpus, "test", encoder_of(tokenizer, longest, forwards))
        assert all(len(example.rows[0].tokens) <= longest for example in split.examples)
        sure = task.predictions(certain(split), split)
        wanted = [answers[0] if answers else "" for answers in split.references]
        fits = [
            any(example.target[0] != window.no_answer_position for example, window in of_one)
            for of_one in _by_question(split, len(wanted))
        ]
        judged = zip(sure.predicted, wanted, fits, strict=True)
        assert [text for text, _, fit in judged if fit] == [
            right for right, fit in zip(wanted, fits, strict=True) if fit
        ]
        assert longest < 512 or sum(fits) == sum(map(bool, wanted)), tokenizer.mark
        assert all(text == "" for text, right in zip(sure.predicted, wanted, strict=True) if not right)


def _by_question(split: Split, count: int) -> list[list[Any]]:
    by_question: list[list[Any]] = [[] for _ in range(count)]
    for example, window in zip(split.examples, split.details.windows, strict=True):
        by_question[window.question].append((example, window))
    return by_question


def test_a_model_that_reads_forwards_says_at_the_end_that_there_is_no_answer(tmp_path: Path) -> None:
    corpus = labelled_corpus("span-extraction", tmp_path)
    tokenizer = vocabulary("byte-level-bpe")
    split = SpanExtraction.of(corpus).split(corpus, "test", encoder_of(tokenizer, 24, forwards=True))
    unanswered = [place for place, answers in enumerate(split.references) if not answers]
    for example, window in zip(split.examples, split.details.windows, strict=True):
        last = len(example.rows[0].tokens) - 1
        assert window.no_answer_position == last >= window.tokens.stop and len(example.rows[0].tokens) <= 24
        assert example.rows[0].tokens[last] == tokenizer.special["eos"]
        assert window.question not in unanswered or example.target == (last, last)


def test_a_question_takes_at_most_half_of_a_row_and_an_empty_passage_is_read(tmp_path: Path) -> None:
    texts = english(30, 3)
    read = " ".join(texts[:10])
    records: list[Mapping[str, Any]] = [{"question": " ".join(texts), "passage": read, "answers": [[0, 3]]}]
    corpus = corpus_of({"question": "question", "passage": "passage", "answers": "answers"}, records, tmp_path)
    task = SpanExtraction.of(corpus)
    split = task.split(corpus, "test", encoder_of(vocabulary("unigram"), 40))
    passage = len(vocabulary("unigram").encode_batch([read])[0])
    windows = split.details.windows
    assert len(windows) < passage / 5 and split.truncated == 1 == len(split.references) < len(windows)
    covered = np.zeros(passage, dtype=bool)
    for window in windows:
        covered[window.passage] = True
        assert window.tokens.stop - window.tokens.start <= 19
    assert covered.all()
    assert split.owners is not None and len(split.examples_of(np.array([0]))) == len(windows)


def test_limits_of_answers_do_not_depend_on_the_vocabulary() -> None:
    task = SpanExtraction(answerable=True, longest=40)
    passage = "word " * 20
    for size in (1, 5):
        ends = list(range(size, len(passage) + 1, size))
        tokens = len(ends)
        logits = np.zeros((tokens + 1, 2))
        logits[1, 0], logits[[tokens, 40 // size], 1] = 5, [9, 7]
        split = _one_question(passage, ends, logits)
        assert len(task.predictions([logits], split).predicted[0]) in (39, 40)


def _one_question(passage: str, ends: list[int], logits: FloatArray) -> Split:
    from subgraft.training.understanding.spans import Characters, Window, _Details

    window = Window(0, -1, slice(1, len(logits)), 0)
    details = _Details([window], [passage], [Characters.of(ends)])
    return Split([], [""], details, [[]], np.zeros(1, dtype=np.int64))


def test_marks_of_entities_that_touch_or_contain_each_other_are_nested() -> None:
    assert insert_marks("head tail", [((0, 4), "@"), ((5, 9), "#")]).text == "@ head @ # tail #"
    assert insert_marks("東京都", [((0, 2), "@"), ((2, 3), "#")]).text == "@ 東京 @# 都 #"
    assert insert_marks("東京都", [((2, 3), "@"), ((0, 2), "#")]).text == "# 東京 #@ 都 @"
    assert insert_marks("New York", [((0, 8), "@"), ((0, 3), "#")]).text == "@ # New # York @"
    assert insert_marks("New York", [((4, 8), "@"), ((0, 8), "#")]).text == "# New @ York @ #"


@pytest.mark.parametrize("name", ["relation-classification", "entity-typing"])
def test_marks_are_characters_that_the_vocabulary_spells(name: str, tmp_path: Path) -> None:
    corpus = labelled_corpus(name, tmp_path)
    tokenizer = vocabulary("wordpiece")
    plain = learn(english(200), kind="wordpiece", size=90, like=None)
    assert "@" not in plain.pieces, "the text that it was learnt on has none"
    known = learn([*english(200), "| ~ |"] * 2, kind="wordpiece", size=110)
    split = TASK_CLASSES[name].of(corpus).split(corpus, "test", encoder_of(known))
    assert all(known.special["unk"] not in example.rows[0].tokens for example in split.examples)
    marks = {tuple(known.encode_batch([mark])[0]) for mark in "|~"}
    assert any(set(mark) <= set(split.examples[0].rows[0].tokens.tolist()) for mark in marks)
    assert "@" in split.texts[0] or "*" in split.texts[0], "reports show the usual marks"
    TASK_CLASSES[name].of(corpus).split(corpus, "test", encoder_of(tokenizer))
