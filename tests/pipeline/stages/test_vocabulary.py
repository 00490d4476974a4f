"""A vocabulary of two corpora is the vocabulary of their texts, each as often as it is said to count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest

import published
from subgraft.base.errors import UserError
from subgraft.config.corpora import Cleaning, Languages
from subgraft.config.runtime import Runtime
from subgraft.config.vocabularies import VocabularySettings
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.orchestration.store.events import EventLog, StageContext
from subgraft.pipeline.compute.vocabularies import adapt_vocabulary, learn_vocabulary, measure_gap
from subgraft.pipeline.stages.vocabularies import AdaptedVocabularyStage, GapStage, VocabularyStage
from subgraft.subwords.vocabulary.learn import learn, sample
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from toys import english, german

UPSTREAM, DOWNSTREAM = german(160, 1), german(50, 2)


def corpus(place: Path, lines: list[str]) -> Path:
    for split, count in (("train", len(lines)), ("dev", 1), ("test", 1)):
        for language, text in (("en", english(len(lines), 3)), ("de", lines)):
            (place / f"{split}.{language}").write_text("".join(f"{line}\n" for line in text[:count]))
    cleaning = Cleaning(drop_held_out=False, deduplicate=False, max_characters=None, max_ratio=None)
    build(CorpusSource(folder=str(place)), Languages(source="en", target="de"), cleaning, place / "corpus")
    return place / "corpus"


@pytest.mark.parametrize(("weighing", "copies"), [("as-they-are", 1), ("equal", 3)])
def test_texts_count_as_they_are_or_equally(
    weighing: Literal["as-they-are", "equal"], copies: int, tmp_path: Path
) -> None:
    ratio = sum(map(len, UPSTREAM)) / sum(map(len, DOWNSTREAM))
    assert 2.5 < ratio < 3.5, "the smaller text is taken three times"
    for name in ("one", "two", "out"):
        (tmp_path / name).mkdir()
    inputs = {"corpus": corpus(tmp_path / "one", UPSTREAM), "second": corpus(tmp_path / "two", DOWNSTREAM)}
    settings = VocabularySettings(size=90, byte_fallback=False)
    stage = VocabularyStage(side="target", settings=settings, weighing=weighing)
    learn_vocabulary(
        stage, inputs, tmp_path / "out", StageContext(tmp_path, Runtime(), EventLog(tmp_path / "events.jsonl"))
    )
    expected = learn([*UPSTREAM, *DOWNSTREAM * copies], kind="unigram", size=90)
    assert Tokenizer.load(tmp_path / "out").fingerprint == expected.fingerprint


@pytest.mark.parametrize("byte_fallback", [True, False])
def test_what_a_task_writes_can_be_spelled(byte_fallback: bool, tmp_path: Path) -> None:
    """Every character of the training text has a piece; what it lacks is spelled in bytes, where there are any."""
    rare, foreign = "Ω", "f(x) = 漢"
    for name in ("text", "out"):
        (tmp_path / name).mkdir()
    inputs = {"corpus": corpus(tmp_path / "text", [*UPSTREAM * 20, f"{rare} garten haus"])}
    settings = VocabularySettings(size=350 if byte_fallback else 90, byte_fallback=byte_fallback)
    stage = VocabularyStage(side="target", settings=settings)
    learn_vocabulary(
        stage, inputs, tmp_path / "out", StageContext(tmp_path, Runtime(), EventLog(tmp_path / "events.jsonl"))
    )
    learnt = Tokenizer.load(tmp_path / "out")
    assert learnt.decode(learnt.encode(rare)) == rare
    assert (learnt.decode(learnt.encode(foreign)) == foreign) is byte_fallback
    assert (learnt.special["unk"] in learnt.encode(foreign)) is not byte_fallback


def test_a_vocabulary_may_be_learnt_from_a_sample(tmp_path: Path) -> None:
    for name in ("text", "out"):
        (tmp_path / name).mkdir()
    inputs = {"corpus": corpus(tmp_path / "text", UPSTREAM)}
    settings = VocabularySettings(size=90, byte_fallback=False, max_lines=100)
    learn_vocabulary(
        VocabularyStage(side="target", settings=settings),
        inputs,
        tmp_path / "out",
        StageContext(tmp_path, Runtime(), EventLog(tmp_path / "events.jsonl")),
    )
    expected = learn(sample(UPSTREAM, 100, seed=1), kind="unigram", size=90)
    assert Tokenizer.load(tmp_path / "out").fingerprint == expected.fingerprint
    assert expected.fingerprint != learn(UPSTREAM, kind="unigram", size=90).fingerprint


def test_text_that_only_the_models_vocabulary_gives_back_is_refused_and_recorded(tmp_path: Path) -> None:
    """WordPiece writes spaces around brackets, which a byte-level vocabulary does not."""
    for name in ("text", "out", "gap", "model"):
        (tmp_path / name).mkdir()
    published.gpt2(tmp_path / "model")
    lines = [*UPSTREAM, *(f"{line} (haus)" for line in UPSTREAM[:8])]
    inputs = {"corpus": corpus(tmp_path / "text", lines[::-1]), "model": tmp_path / "model"}
    context = StageContext(tmp_path, Runtime(), EventLog(tmp_path / "events.jsonl"))
    stage = VocabularyStage(side="target", settings=VocabularySettings(kind="wordpiece", size=120))
    with pytest.raises(UserError, match=r"downstream.vocabulary.max_lost_lines: the new vocabulary changes 8 of 168"):
        learn_vocabulary(stage, inputs, tmp_path / "out", context)
    assert not list((tmp_path / "out").iterdir())
    learn_vocabulary(stage.model_copy(update={"max_lost_lines": 0.1}), inputs, tmp_path / "out", context)
    assert "changes 8 of 168 lines" in (tmp_path / "events.jsonl").read_text(encoding="utf-8")
    measure_gap(GapStage(), {**inputs, "vocabulary": tmp_path / "out"}, tmp_path / "gap", context)
    record = json.loads((tmp_path / "gap" / "gap.json").read_text(encoding="utf-8"))
    assert (record["text"]["lost"]["lost"], record["lost"]["decoder"]["lost"]) == (8, 1), "training and test text"


def test_what_remains_unknown_is_reported(tmp_path: Path) -> None:
    for name in ("text", "out", "learnt"):
        (tmp_path / name).mkdir()
    learn(UPSTREAM, kind="unigram", size=90).save(tmp_path / "old")
    inputs = {"corpus": corpus(tmp_path / "text", [*UPSTREAM, "Ω Ω ☃", *["tgac" * 251] * 2])}
    context = StageContext(tmp_path, Runtime(), EventLog(tmp_path / "events.jsonl"))
    extending = AdaptedVocabularyStage(side="target", model_side="decoder", added=1, min_count=2)
    adapt_vocabulary(extending, {**inputs, "vocabulary": tmp_path / "old"}, tmp_path / "out", context)
    settings = VocabularySettings(kind="wordpiece", size=150)
    learn_vocabulary(VocabularyStage(side="target", settings=settings), inputs, tmp_path / "learnt", context)
    unknown, too_long = map(json.loads, (tmp_path / "events.jsonl").read_text(encoding="utf-8").splitlines())
    assert unknown["line"].startswith("still unknown, the most frequent first: ☃; ")
    assert too_long["line"].startswith("2 words of the text have more than 1,000 characters")
