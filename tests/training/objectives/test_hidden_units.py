"""What is hidden as a whole: how often, by which units, at which step; and what a text must have."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from scipy import stats

from documents import documents_of
from subgraft.base.errors import UserError
from subgraft.config.corpora import Cleaning, Languages
from subgraft.config.training import TrainingSettings
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.text.corpus import Corpus
from subgraft.modeling.bundle import Bundle
from subgraft.subwords.vocabulary.learn import learn
from subgraft.training.objectives.compute.embedding_view import IGNORED
from subgraft.training.objectives.compute.hidden_units import hidden_units
from subgraft.training.objectives.compute.interface import ObjectiveInputs
from subgraft.training.objectives.compute.masked import MaskedObjective
from subgraft.training.objectives.masked import MaskedSettings
from toys import bert

TRAINING = TrainingSettings(epochs=1, batch_size=500, learning_rate=0.001, warmup_steps=1, max_length=120)
SYLLABLES = ["bala", "domo", "kini", "luve", "mezu", "noxa", "pafe", "ripo", "situ", "tuga"]
WORDS = ["".join(parts) for parts in product(SYLLABLES, SYLLABLES, SYLLABLES, "snrt")]


def _line(number: int) -> str:
    """Words drawn from many, with one collocation and one entity of two words each."""
    rng = np.random.default_rng(number)
    one, two, three, four = (" ".join(rng.choice(WORDS, 4)) for _ in range(4))
    return f"{one} red herring {two} Captain Flint {three} near Tortuga {four}."


LINES = [_line(number) for number in range(80)]


def test_each_unit_is_hidden_equally_often_whatever_its_size() -> None:
    """A share of exactly count / n, for units of one token and of nine alike; χ² over 20,000 draws."""
    sizes, draws, rng = np.array([1, 1, 1, 2, 2, 4, 9, 1, 1, 8]), 20_000, np.random.default_rng(3)
    hidden, tokens = np.zeros(len(sizes)), 0
    for _ in range(draws):
        chosen = hidden_units(sizes, 12, rng)
        assert len(set(chosen.tolist())) == len(chosen) >= 1
        hidden[chosen] += 1
        tokens += int(sizes[chosen].sum())
    share = 12 / sizes.sum()
    expected = np.stack([np.full(len(sizes), share), np.full(len(sizes), 1 - share)]) * draws
    chi2 = (((np.stack([hidden, draws - hidden]) - expected) ** 2) / expected).sum()
    assert stats.chi2.sf(chi2, df=len(sizes)) > 1e-3
    assert tokens / draws == pytest.approx(12, rel=0.01), "so the share of hidden tokens is exact too"


def test_single_tokens_are_hidden_in_exactly_the_configured_number_and_any_unit_at_least_once() -> None:
    rng = np.random.default_rng(4)
    places = np.zeros(20)
    for _ in range(4000):
        chosen = hidden_units(np.ones(20, dtype=np.int64), 3, rng)
        assert len(chosen) == 3
        places[chosen] += 1
    assert stats.chisquare(places).pvalue > 1e-3
    assert all(len(hidden_units(np.array([7]), 1, rng)) == 1 for _ in range(50))


def _corpus(folder: Path, **fields: Any) -> Corpus:
    (folder / "in").mkdir(parents=True)
    rows = []
    for line in LINES:
        things = [line.index("herring"), line.index("Captain") + len("Captain"), "thing"]
        rows.append({"text": line, "things": [things], "label": "x"})
    (folder / "in" / "train.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    declared = {"text": {"language": "en"}, "things": {"kind": "spans", "of": "text"}, "label": {"kind": "label"}}
    source = CorpusSource.model_validate({"records": {"folder": str(folder / "in"), "fields": declared | fields}})
    return build(source, None, Cleaning(), folder / "out")


def _objective(corpus: Corpus, **settings: Any) -> MaskedObjective:
    tokenizer = learn(LINES, kind="wordpiece", size=90)
    request = ObjectiveInputs(
        Bundle(bert(), tokenizer, tokenizer), corpus, Languages(source="en", target="en"), TRAINING, 1
    )
    return MaskedObjective.of(MaskedSettings(masked=1.0, random=0.0, share=0.3, **settings), request)


def _hidden(objective: MaskedObjective, number: int) -> list[tuple[str, frozenset[bool]]]:
    """The words of a sentence, each with whether tokens of it are hidden, others not, or both."""
    index, epoch = number % len(LINES), number // len(LINES)
    example, tokens = objective.sentences.example(index, epoch), objective.sentences.text(index, epoch).tokens
    return _words(objective, tokens, [label != IGNORED for label in example.labels[1:-1]])


def _words(
    objective: MaskedObjective, tokens: Sequence[int], hidden: Sequence[bool]
) -> list[tuple[str, frozenset[bool]]]:
    pieces, words = objective._bundle.decoder.pieces, list[tuple[str, frozenset[bool]]]()
    for token, own in zip(tokens, hidden, strict=True):
        if pieces[token].startswith("##") and words and words[-1][0] != "[SEP]":
            words[-1] = (words[-1][0] + pieces[token][2:], words[-1][1] | {own})
        else:
            words.append((pieces[token], frozenset({own})))
    return words


def _together(objective: MaskedObjective, first: str, second: str) -> float:
    """How often two words are hidden together or read together, over 200 examples."""
    each = [dict(_hidden(objective, number)) for number in range(200)]
    return sum(len(one[first] | one[second]) == 1 for one in each) / len(each)


def test_stages_hide_words_then_phrases_then_entities(tmp_path: Path) -> None:
    stages = [{"word": 1}, {"step": 10, "phrase": 1}, {"step": 20, "entity": 1}]
    objective = _objective(_corpus(tmp_path), units=stages)
    for step in (0, 9, 10, 19, 20, 10**6):
        objective.begin(step)
        examples = [_hidden(objective, number) for number in range(60)]
        assert all(len(parts) == 1 for words in examples for _, parts in words), "no word is hidden in part"
        assert (_together(objective, "red", "herring") == 1.0) == (10 <= step < 20)
        assert (_together(objective, "Captain", "Flint") == 1.0) == (step >= 10), "it is a collocation and an entity"
    objective.begin(0)
    before = objective.sentences.example(5, 1)
    objective.begin(20)
    assert objective.sentences.example(5, 1) != before
    objective.begin(0)
    assert objective.sentences.example(5, 1) == before, "an example depends on its stage and on nothing before"


def _objective_of_pieces(folder: Path) -> MaskedObjective:
    return _objective(Corpus.open(folder / "out"))


def test_annotated_spans_take_the_place_of_rules_and_units_may_be_mixed(tmp_path: Path) -> None:
    objective = _objective(_corpus(tmp_path), units=[{"phrase": 1}], phrases="things")
    assert _together(objective, "herring", "Captain") == 1.0 > _together(objective, "red", "herring")
    mixed = _objective(Corpus.open(tmp_path / "out"), units=[{"piece": 1, "phrase": 3}], phrases="things")
    broken = sum(any(len(parts) > 1 for _, parts in _hidden(mixed, number)) for number in range(320))
    whole = _together(mixed, "herring", "Captain")
    alone = _together(_objective_of_pieces(tmp_path), "herring", "Captain")
    assert whole == pytest.approx(0.75 + 0.25 * alone, abs=0.1)
    assert broken > 40, "single tokens are hidden in a quarter of the sentences"


def test_the_share_of_hidden_tokens_is_that_of_the_settings_for_every_unit(tmp_path: Path) -> None:
    corpus = _corpus(tmp_path)
    for unit in ("piece", "word", "phrase", "entity"):
        objective = _objective(corpus, units=[{unit: 1}])
        labels = [
            objective.sentences.example(number % len(LINES), number // len(LINES)).labels[1:-1] for number in range(800)
        ]
        hidden = sum(label != IGNORED for of_one in labels for label in of_one)
        wanted = sum(round(0.3 * len(of_one)) for of_one in labels)
        assert hidden == wanted if unit == "piece" else hidden == pytest.approx(wanted, rel=0.02)


@pytest.mark.parametrize("form", ["segment-pair", "sentence-pair", "full-sentences", "doc-sentences"])
def test_units_stay_whole_where_sentences_are_packed(form: str, tmp_path: Path) -> None:
    corpus = documents_of(tmp_path, *(LINES[at : at + 8] for at in range(0, 80, 8)))
    objective = _objective(corpus, units=[{"entity": 1}], input=form, next_sentence=False)
    end = objective._bundle.decoder.special["eos"]
    together = 0
    for index in range(len(objective.sentences)):
        text, example = objective.sentences.text(index, 0), objective.sentences.example(index, 0)
        hidden = [label != IGNORED for label in example.labels[1:-1]]
        assert not any(own for token, own in zip(text.tokens, hidden, strict=True) if token == end)
        words = _words(objective, text.tokens, hidden)
        assert all(len(parts) == 1 for _, parts in words), "no word is hidden in part"
        for (first, one), (second, other) in pairwise(words):
            if (first, second) == ("Captain", "Flint"):
                assert one == other
                together += True in one
    assert together > 5
    numbers = range(len(objective.sentences))
    wanted = sum(round(0.3 * len(objective.sentences.text(at, 0).tokens)) for at in numbers)
    labels = [label for at in numbers for label in objective.sentences.example(at, 0).labels]
    drawn = sum(label != IGNORED for label in labels)
    assert drawn == pytest.approx(wanted, rel=0.1)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"units": [{"phrase": 1}], "phrases": "nothing"}, "no field 'nothing'"),
        ({"units": [{"phrase": 1}], "phrases": "label"}, "'label' is a field of kind label, not spans"),
    ],
)
def test_units_that_a_corpus_lacks_are_refused(settings: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=complaint):
        _objective(_corpus(tmp_path), **settings)


def test_a_text_without_units_of_a_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.en").write_text("".join(f"{line.lower()}\n" for line in LINES[:8]))
    source = CorpusSource(files={"train": (str(tmp_path / "train.en"),)})
    corpus = build(source, Languages(source="en", target="en"), Cleaning(), tmp_path / "out")
    with pytest.raises(UserError, match="no entities to hide: no word within a sentence is capitalised"):
        _objective(corpus, units=[{"word": 1, "entity": 1}])
    with pytest.raises(UserError, match="no phrases to hide: no two words are a collocation"):
        _objective(corpus, units=[{"phrase": 1}])


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"units": [{}]}, "give at least one of piece, word, phrase, entity"),
        ({"units": [{"step": 5, "word": 1}]}, "the first stage must have step 0"),
        ({"units": [{"word": 1}, {"word": 1}]}, "steps must increase"),
        ({"units": [{"word": 1}], "entities": "things"}, "add a stage with `entity`"),
        ({"units": [{"word": 1}], "sentences_per_document": 2}, "which sentences_per_document joins"),
    ],
)
def test_stages_that_make_no_sense_are_refused(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        MaskedSettings(**settings)
