"""Labelled examples of each task from files of each format; omitted examples, which are counted; and mistakes."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas
import pytest
from pydantic import ValidationError

from subgraft.base.errors import UserError
from subgraft.config.corpora import Cleaning, Languages
from subgraft.data.sources import catalogue
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.text.corpus import Corpus, class_labels, labels_of

ENGLISH = Languages(source="en", target="en")
CLEANING = Cleaning(max_characters=None, max_ratio=None)


def built(place: Path, settings: Mapping[str, Any], files: Mapping[str, str], **options: Any) -> Corpus:
    """The corpus of files, by name, in a folder called `in`."""
    for name, content in files.items():
        (place / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (place / "in" / name).write_text(content, encoding="utf-8")
    return again(place, {"folder": "in", **settings} if "files" not in settings else settings, **options)


def again(place: Path, settings: Mapping[str, Any], cleaning: Cleaning = CLEANING, **options: Any) -> Corpus:
    source = CorpusSource.model_validate({"labelled": settings, **options})
    number = len(list(place.glob("out*")))
    return build(source, ENGLISH, cleaning, place / f"out{number}", base=place)


def lines(*records: Any) -> str:
    return "".join(f"{json.dumps(record)}\n" for record in records)


def rows(corpus: Corpus, split: str = "train") -> list[tuple[Any, ...]]:
    return list(corpus.records(split))


def test_csv_obeys_quotes_and_finds_columns_by_the_header(tmp_path: Path) -> None:
    train = '\ufefflabel,id,text\npos,1,"Good, and ""cheap"".\nAgain."\n\nneg,2,bad\n'
    corpus = built(tmp_path, {}, {"train.csv": train, "dev.csv": "text,label\nfine,pos\n"})
    assert [(field.name, field.kind, field.language) for field in corpus.fields] == [
        ("source", "text", "en"),
        ("label", "label", None),
    ]
    assert rows(corpus) == [('Good, and "cheap". Again.', "pos"), ("bad", "neg")]
    assert corpus.classes == {"label": ("neg", "pos")}
    assert class_labels(corpus).labels == labels_of(corpus) == ("neg", "pos")
    assert Corpus.open(corpus.directory) == corpus
    with pytest.raises(UserError, match=r"no classes of 'tags'\n.*label"):
        labels_of(corpus, "tags")


def test_pairs_in_numbered_columns_of_zipped_files(tmp_path: Path) -> None:
    for name, content in {"a": 'x1\tone "\ttwo\tyes\n\nx2\tthree\tfour\tno\n', "b": "x3\tfive\tsix\tno\n"}.items():
        (tmp_path / f"{name}.tsv.gz").write_bytes(gzip.compress(content.encode()))
    files = {"train": "a.tsv.gz", "dev": "b.tsv.gz"}
    corpus = again(tmp_path, {"files": files, "text": 2, "text_pair": 3, "label": 4})
    assert rows(corpus) == [('one "', "two", "yes"), ("three", "four", "no")]
    assert rows(corpus, "dev") == [("five", "six", "no")]


def test_values_of_regression(tmp_path: Path) -> None:
    train = lines(
        {"a": "x", "b": "y", "score": 3}, {"a": "z", "b": "y", "score": 2.5}, {"a": "q", "b": "r", "score": None}
    )
    corpus = built(tmp_path, {"text": "a", "text_pair": "b", "value": "score"}, {"train.jsonl": train})
    assert rows(corpus) == [("x", "y", 3), ("z", "y", 2.5)]
    assert list(corpus.annotations("train", "value")) == [3, 2.5]
    assert corpus.counts["train"]["no_label"] == 1
    one = built(tmp_path / "one", {"value": "value"}, {"train.tsv": "text\tvalue\nx\t-1e3\ny\t2\n"})
    assert rows(one) == [("x", -1000.0), ("y", 2.0)]
    with pytest.raises(UserError, match=r"train.tsv:2: the value '1e308' is too large"):
        built(tmp_path / "large", {"value": "value"}, {"train.tsv": "text\tvalue\nx\t1e308\n"})
    for wrong in ("nan", "high", "1,5", "1_000", "\u0661", "infinity", "0x1"):
        with pytest.raises(UserError, match=rf"train.tsv:2: the value '{wrong}' is not a finite number"):
            built(tmp_path / wrong, {"value": "value"}, {"train.tsv": f"text\tvalue\nx\t{wrong}\n"})


@pytest.mark.parametrize(("answer", "index"), [("1", 1), (1, 1), ("B", 1), ("yellow", 1), (0, 0)])
def test_answers_of_multiple_choice(tmp_path: Path, answer: object, index: int) -> None:
    record = {"text": "The sun is", "endings": ["green", " yellow", "blue"], "answer": answer}
    corpus = built(tmp_path, {"choices": "endings", "answer": "answer"}, {"train.jsonl": lines(record)})
    assert [field.name for field in corpus.fields] == ["source", "target", "choice-2", "choice-3", "answer"]
    assert rows(corpus) == [("The sun is", "green", "yellow", "blue", index)]
    assert Corpus.open(corpus.directory) == corpus


def test_examples_have_as_many_choices_as_the_first(tmp_path: Path) -> None:
    records = [{"text": "x", "choices": list(choices), "answer": "A"} for choices in ("ab", "abc", "cd", "")]
    corpus = built(tmp_path, {"answer": "answer"}, {"train.jsonl": lines(*records[:3])})
    assert [row[1:3] for row in rows(corpus)] == [("a", "b"), ("c", "d")]
    assert corpus.counts["train"]["other_choices"] == 1
    with pytest.raises(UserError, match=r"train.jsonl:1: the choices are not a list of two at least"):
        built(tmp_path / "none", {"answer": "answer"}, {"train.jsonl": lines(records[3])})


def test_choices_in_columns_and_answers_from_one(tmp_path: Path) -> None:
    settings = {"choices": ["a", "b"], "answer": "right", "first_choice": 1}
    train = "text,a,b,right\nx,y,z,2\nv,w,u,1\n"
    assert [row[3] for row in rows(built(tmp_path, settings, {"train.csv": train}))] == [1, 0]
    for answer, what in (("0", "is none of 2 choices"), ("C", "is none of 2 choices")):
        with pytest.raises(UserError, match=rf"train.csv:2: the answer '{answer}' {what}\n.*1 to 2"):
            built(tmp_path / answer, settings, {"train.csv": f"text,a,b,right\nx,y,z,{answer}\n"})
    with pytest.raises(UserError, match="'2' could mean several choices"):
        built(tmp_path / "both", settings, {"train.csv": "text,a,b,right\n1+1,2,3,2\n"})


NER = """-DOCSTART- -X- -X- O

EU NNP I-NP B-ORG
rejects VBZ I-VP O

Peter NNP I-NP B-PER
Blackburn NNP I-NP I-PER
"""


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_tab_separated_cells_are_read_as_pandas_writes_them(quoting: Any, tmp_path: Path) -> None:
    texts = ['He said "yes" twice.', '"All of it."', "plain", 'an inch: 5"']
    frame = pandas.DataFrame({"text": texts, "label": ["a", "b", "a", "b"]})
    corpus = built(tmp_path, {}, {"train.tsv": frame.to_csv(sep="\t", index=False, quoting=quoting)})
    assert [row[0] for row in rows(corpus)] == texts


def test_quotes_of_tab_separated_text_stay(tmp_path: Path) -> None:
    texts = ['"All of it."', '"Yes," he said, "no."', '"', '""']
    lines_of_file = "".join(f"{text}\t{label}\n" for text, label in zip(texts, "abab", strict=True))
    corpus = built(tmp_path, {}, {"train.tsv": f"text\tlabel\n{lines_of_file}"})
    assert [row[0] for row in rows(corpus)] == texts


def test_conll_sentences(tmp_path: Path) -> None:
    corpus = built(tmp_path, {"format": "conll"}, {"train.conll": NER, "dev.txt": "Peter X I-PER\n"})
    assert rows(corpus) == [("EU rejects", ["B-ORG", "O"]), ("Peter Blackburn", ["B-PER", "I-PER"])]
    assert corpus.classes == {"tags": ("B-ORG", "B-PER", "I-PER", "O")} and labels_of(corpus, "tags")[-1] == "O"
    assert corpus.counts["dev"]["ill_nested_tags"] == 1, "it is counted, and stays"
    chunks = built(tmp_path / "chunks", {"format": "conll", "tag": 3}, {"train.conll": NER})
    assert rows(chunks)[0] == ("EU rejects", ["I-NP", "I-VP"])
    assert chunks.counts["train"]["ill_nested_tags"] == 3
    with pytest.raises(UserError, match=r"train.conll:3: a word without a tag"):
        built(tmp_path / "bad", {"format": "conll"}, {"train.conll": "a O\nb B-X\nc\n"})
    with pytest.raises(UserError, match=r"train.conll:1: no column 4\n.*2 columns"):
        built(tmp_path / "few", {"format": "conll", "tag": 4}, {"train.conll": "a O\n"})


def test_conll_with_tabs_and_comments(tmp_path: Path) -> None:
    train = "# text = a b\n1\ta\tDET\n2\tb\tNOUN\n\n1\tnew york\tPROPN\n\n1\t\tX\n"
    corpus = built(tmp_path, {"word": 2, "tag": 3, "comments": "#"}, {"train.conll": train})
    assert rows(corpus) == [("a b", ["DET", "NOUN"])]
    assert corpus.counts["train"]["word_with_space"] == 2


def test_words_of_conll_end_at_a_space_or_a_tab_alone(tmp_path: Path) -> None:
    train = "10\u00a0000 CD B-NUM\nyears NNS  O\n\n\u3000 X O\n\na\u2009b\tX\tO\n"
    corpus = built(tmp_path, {"format": "conll"}, {"train.conll": train})
    assert rows(corpus) == [("10\u00a0000 years", ["B-NUM", "O"]), ("a\u2009b", ["O"])]
    assert corpus.counts["train"]["word_with_space"] == 1, "a word of spaces alone"


def test_a_long_field_of_csv_is_read(tmp_path: Path) -> None:
    text = "word, " * 40_000
    corpus = built(tmp_path, {}, {"train.csv": f'text,label\n"{text}",a\nshort,b\n'})
    assert [text for text, _ in rows(corpus)] == [text.strip(), "short"]
    with pytest.raises(UserError, match=r"train.csv:2: not CSV: unexpected end of data\n.*double the quotes"):
        built(tmp_path / "open", {}, {"train.csv": f'text,label\n"{text}\nshort,b\n'})


def test_tags_in_lists(tmp_path: Path) -> None:
    settings = {"word": "tokens", "tag": "ner"}
    train = lines({"tokens": ["a", "b"], "ner": [0, 1]}, {"tokens": [], "ner": []})
    corpus = built(tmp_path, settings, {"train.jsonl": train})
    assert rows(corpus) == [("a b", ["0", "1"])]
    with pytest.raises(UserError, match=r"train.jsonl:1: no lists of as many words as tags"):
        built(tmp_path / "bad", settings, {"train.jsonl": lines({"tokens": ["a", "b"], "ner": [0]})})


def squad(*paragraphs: tuple[str, list[Any]]) -> str:
    """SQuAD's JSON, with an article for each paragraph; a question has (text, answers or None for impossible)."""
    data = []
    for context, asked in paragraphs:
        qas = [
            {"question": text, "is_impossible": answers is None}
            | {"answers": [{"text": answer, "answer_start": start} for answer, start in answers or ()]}
            for text, answers in asked
        ]
        data.append({"title": "t", "paragraphs": [{"context": context, "qas": qas}]})
    return json.dumps({"data": data})


PASSAGE = "  A green door. The door is open. "


def test_answers_of_squad_are_spans_of_the_stored_passage(tmp_path: Path) -> None:
    asked: list[Any] = [
        ("Which door?", [("green", 4), ("green ", 4), ("A green", 2)]),
        ("How is it?", [("open", 0)]),
        ("When?", None),
        ("Who?", [("Ann", 3)]),
    ]
    corpus = built(tmp_path, {"format": "squad"}, {"train.json": squad((PASSAGE, asked))})
    passage = PASSAGE.strip()
    assert rows(corpus) == [
        ("Which door?", passage, [[2, 7], [0, 7]]),
        ("How is it?", passage, [[26, 30]]),
        ("When?", passage, []),
    ]
    assert passage[2:7] == "green" and passage[26:30] == "open"
    counts = corpus.counts["train"]
    assert (counts["answer_moved"], counts["answer_not_found"], counts["unanswerable"]) == (1, 1, 1)


@pytest.mark.parametrize(
    "answers", [[[4, 9]], {"text": ["green"], "answer_start": [4]}, [{"text": "green", "answer_start": 4}], [4, 9]]
)
def test_answers_in_columns(tmp_path: Path, answers: object) -> None:
    record = {"question": "Which?", "context": PASSAGE, "answers": answers}
    corpus = built(tmp_path, {"question": "question", "passage": "context"}, {"train.jsonl": lines(record)})
    assert rows(corpus) == [("Which?", PASSAGE.strip(), [[2, 7]])]


def test_sentences_of_a_passage_are_ranked(tmp_path: Path) -> None:
    asked: list[Any] = [("Which?", [("green", 4)]), ("Across?", [("door. The", 10)]), ("Never?", None)]
    text = squad((PASSAGE, asked), ("One sentence.", [("Which?", [("One", 0)])]))
    corpus = built(tmp_path, {"format": "squad", "ranking": True}, {"train.json": text})
    assert rows(corpus) == [("Which?", "A green door.", 1, "1"), ("Which?", "The door is open.", 0, "1")]
    assert (corpus.counts["train"]["answer_not_in_sentence"], corpus.counts["train"]["one_candidate"]) == (2, 1)
    assert not corpus.classes, "a query is not a class"


RANKED = "query,candidate,relevance\na,x,0\na,y,2\nb,x,1\nb,z,0\nc,x,1\n"
RANKING = {"query": "query", "candidate": "candidate", "relevance": "relevance"}


def test_candidates_of_queries(tmp_path: Path) -> None:
    corpus = built(tmp_path, RANKING, {"train.csv": RANKED, "dev.csv": "query,candidate,relevance\nd,x,1\na,q,0\n"})
    assert rows(corpus)[:3] == [("a", "x", 0, "1"), ("a", "y", 2, "1"), ("b", "x", 1, "2")]
    assert corpus.size("train") == 5, "a candidate or a query of dev alone does not hold a training example out"
    limited = again(tmp_path, {**RANKING, "folder": "in"}, limit={"train": 4})
    assert rows(limited) in (rows(corpus)[:4], [*rows(corpus)[:2], rows(corpus)[4]], rows(corpus)[2:]), "whole queries"
    named = built(
        tmp_path / "named", {**RANKING, "query_id": "id"}, {"train.csv": "id,query,candidate,relevance\nq7,a,x,1\n"}
    )
    assert rows(named) == [("a", "x", 1, "q7")]
    with pytest.raises(UserError, match=r"train.csv:4: the query 'a' comes again\n.*sort the file"):
        built(tmp_path / "again", RANKING, {"train.csv": "query,candidate,relevance\na,x,0\nb,y,2\na,z,1\n"})
    for wrong in ("-1", "0.5"):
        with pytest.raises(UserError, match="is not a whole number from 0"):
            built(tmp_path / wrong, RANKING, {"train.csv": f"query,candidate,relevance\na,x,{wrong}\n"})
    for large in ("101", "2000", "1e300"):
        with pytest.raises(UserError, match=r"train.csv:2: the relevance '?[\d+e]+'? is too large"):
            built(tmp_path / large, RANKING, {"train.csv": f"query,candidate,relevance\na,x,{large}\n"})


def test_a_header_of_many_columns_is_read_and_named_in_short(tmp_path: Path) -> None:
    names = ",".join(f"column-{number}" for number in range(40_000))
    built(tmp_path / "many", {}, {"train.csv": f"text,label,{names}\nx,y\nz,w\n"})
    with pytest.raises(UserError, match="two columns are called 'column-7'"):
        built(tmp_path / "twice", {}, {"train.csv": f"text,label,{names},column-7\nx,y\n"})
    with pytest.raises(UserError, match="no field 'label'") as refused:
        built(tmp_path / "short", {}, {"train.csv": f"text,{names}\nx,y\n"})
    assert len(str(refused.value)) < 1000


def test_relations_between_two_spans(tmp_path: Path) -> None:
    def record(head: Any, tail: Any, label: str = "in") -> dict[str, Any]:
        return {"text": " Ann is in Rome", "head": head, "tail": tail, "label": label}

    train = [record([1, 4], "11:15"), record([11, 15], [1, 4], "has"), record([0, 3], [1, 4]), record([3, 3], [5, 6])]
    corpus = built(tmp_path, {"head": "head", "tail": "tail"}, {"train.jsonl": lines(*train, record([1, 9], [4, 15]))})
    assert rows(corpus) == [("Ann is in Rome", (0, 3), (10, 14), "in"), ("Ann is in Rome", (10, 14), (0, 3), "has")]
    assert (corpus.counts["train"]["span_outside"], corpus.counts["train"]["spans_overlap"]) == (2, 1)
    columns = {"text": 1, "head": [2, 3], "tail": [4, 5], "label": 6}
    files = {"train.tsv": "Ann is in Rome\t0\t3\t10\t14\tin\nBob\t0\t1\t1\t2\tno\n"}
    assert rows(built(tmp_path / "columns", columns, files))[0] == rows(corpus)[0]
    with pytest.raises(UserError, match="the span 'head' is not a pair of whole numbers"):
        built(tmp_path / "bad", {"head": "head", "tail": "tail"}, {"train.jsonl": lines(record([1], [2, 3]))})


def test_types_of_an_entity(tmp_path: Path) -> None:
    train = lines(
        {"text": "Ann met Bob", "span": [0, 3], "types": ["person", "woman"]},
        {"text": "Ann met Bob", "span": [8, 11], "types": "person, man,"},
        {"text": "Ann met Bob", "span": [4, 7], "types": []},
    )
    dev = lines(
        {"text": "Oslo", "span": [0, 4], "types": ["city", "person"]},
        {"text": "Rome", "span": [0, 4], "types": ["city"]},
    )
    files = {"train.jsonl": train, "dev.jsonl": dev}
    corpus = built(tmp_path, {"entity": "span", "labels": "types"}, files)
    assert [row[1:] for row in rows(corpus)] == [((0, 3), ["person", "woman"]), ((8, 11), ["person", "man"])]
    assert corpus.counts["train"]["no_label"] == 1
    assert rows(corpus, "dev") == [("Oslo", (0, 4), ["person"])]
    assert (corpus.counts["dev"]["unknown_types_removed"], corpus.counts["dev"]["unknown_label"]) == (1, 1)
    assert labels_of(corpus, "labels") == ("man", "person", "woman") and corpus.sizes == {"train": 2, "dev": 1}


def test_folders_of_classes(tmp_path: Path) -> None:
    files = {
        "train/pos/1.txt": "good\nfilm",
        "train/pos/2.txt": "fine",
        "train/neg/1.txt": "bad",
        "train/urls_pos.txt": "https://example.org",
        "test/pos.txt": "a\nb\n",
    }
    corpus = built(tmp_path, {"format": "folders"}, files)
    assert rows(corpus) == [("bad", "neg"), ("good film", "pos"), ("fine", "pos")]
    assert rows(corpus, "test") == [("a", "pos"), ("b", "pos")]
    whole = built(
        tmp_path / "whole", {"format": "folders", "held_out": {"dev": 1}}, {"x.txt": "a\nb\n", "y.txt": "c\nd\n"}
    )
    assert whole.sizes == {"train": 3, "dev": 1}
    moved = build(
        CorpusSource.model_validate({"labelled": {"folder": "in", "format": "folders"}}),
        ENGLISH,
        CLEANING,
        tmp_path / "whole" / "moved",
        base=tmp_path,
    )
    assert moved.identity == corpus.identity, "the place of the folder is not part of it"


def test_a_stored_corpus_is_read_again(tmp_path: Path) -> None:
    train = lines(*({"text": "x", "a": [f"{n}1", f"{n}2", f"{n}3"], "answer": n % 3} for n in range(5)))
    corpus = built(tmp_path, {"choices": "a", "answer": "answer"}, {"train.jsonl": train})
    source = CorpusSource(folder=str(corpus.directory))
    second = build(source, ENGLISH, CLEANING, tmp_path / "second")
    third = build(CorpusSource(folder="second"), ENGLISH, CLEANING, tmp_path / "third", base=tmp_path)
    assert rows(third) == rows(second) == rows(corpus) and third.labelled
    assert third.fields == corpus.fields


@pytest.mark.parametrize("seed", [None, 3])
def test_examples_are_held_out_of_train(tmp_path: Path, seed: int | None) -> None:
    train = "text,label\n" + "".join(f"text {n},{'ab'[n % 2]}\n" for n in range(100))
    settings = {"held_out": {"dev": 10, "test": 20}, "seed": seed}
    corpus = built(tmp_path, settings, {"train.csv": train})
    assert corpus.sizes == {"train": 70, "dev": 10, "test": 20}
    seen = [set(corpus.lines(split, "source")) for split in corpus.splits]
    assert len(set.union(*seen)) == 100
    assert {*corpus.lines("test", "label")} == {"a", "b"}
    assert rows(again(tmp_path, {"folder": "in", **settings})) == rows(corpus)
    other = again(tmp_path, {"folder": "in", **settings, "seed": 4})
    assert rows(other, "dev") != rows(corpus, "dev")


def test_held_out_queries_and_articles_stay_whole(tmp_path: Path) -> None:
    ranked = "".join(f"q{n},c{n} {m},{int(m == 0)}\n" for n in range(20) for m in range(3))
    files = {"train.csv": f"query,candidate,relevance\n{ranked}"}
    corpus = built(tmp_path, {**RANKING, "held_out": {"dev": 4, "test": 3}}, files)
    assert corpus.sizes == {"train": 51, "dev": 6, "test": 3}
    queries = [set(corpus.lines(split, "query-id")) for split in corpus.splits]
    assert sum(map(len, queries)) == len(set.union(*queries)) == 20
    articles = [(f"Passage {n} is here.", [(f"{n} {m}?", [("here", 0)]) for m in range(3)]) for n in range(6)]
    settings = {"files": {"train": "in/t.json"}, "format": "squad", "held_out": {"dev": 2}, "seed": 1}
    questions = built(tmp_path, settings, {"t.json": squad(*articles)})
    assert questions.sizes == {"train": 15, "dev": 3}
    assert len({*questions.lines("dev", "target")}) == 1
    with pytest.raises(UserError, match=r"20 examples are to be held out of 18 examples in 6 groups\n.*Lower"):
        again(tmp_path, {**settings, "held_out": {"dev": 20}})


def test_duplicates_are_equal_in_text_and_label(tmp_path: Path) -> None:
    train = "text,label\ngood,pos\ngood,pos\ngood,neg\nbad,neg\nheld,neg\n"
    corpus = built(tmp_path, {}, {"train.csv": train, "dev.csv": "text,label\nHeld.,pos\n"})
    assert rows(corpus) == [("good", "pos"), ("good", "neg"), ("bad", "neg")]
    counts = corpus.counts["train"]
    assert (counts["duplicate"], counts["contradictory"], counts["held_out"]) == (1, 1, 1)
    header = "text\ttext_pair\tlabel\n"
    pair = {"train.tsv": f"{header}a\tb\t1\na\tc\t0\nd\tc\t0\n", "dev.tsv": f"{header}a\tc\t1\n"}
    corpus = built(tmp_path / "pair", {"text_pair": "text_pair"}, pair)
    assert rows(corpus) == [("a", "b", "1"), ("d", "c", "0")], "one side alone does not make a pair one of dev"


def test_examples_that_cannot_be_learnt_are_counted(tmp_path: Path) -> None:
    train = lines({"text": " ", "label": "a"}, {"text": None, "label": "a"}, *({"text": t, "label": t} for t in "ab"))
    dev = lines({"text": "x", "label": "c"}, {"text": "y", "label": "a"}, {"text": "z", "label": ""})
    corpus = built(tmp_path, {}, {"train.jsonl": train, "dev.jsonl": dev})
    assert corpus.counts["train"]["no_text"] == 2
    assert rows(corpus, "dev") == [("y", "a")] and corpus.size("dev") == 1
    assert (corpus.counts["dev"]["unknown_label"], corpus.counts["dev"]["no_label"]) == (1, 1)
    with pytest.raises(UserError, match=r"no example has a label that occurs in training text \(-1\)\n.*withheld"):
        built(tmp_path / "none", {}, {"train.jsonl": train, "test.jsonl": lines({"text": "x", "label": -1})})
    assert not any((tmp_path / "none" / "out0").iterdir()), "nothing is half-written"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train.csv", "text,label\na,b\nc,b\n", r"only 'b' as label"),
        ("train.csv", "text,label\n", r"no example for classification \(empty\)"),
        ("train.csv", "text,label\na,\n", r"no example for classification \(1 without a label\)"),
        ("train.csv", "text,label\na,b,c\n", r"train.csv:2: 3 columns, where the header has 2\n.*text, label"),
        ("train.csv", 'text,label\n"a,b\n', r"train.csv:2: not CSV: unexpected end of data"),
        ("train.csv", 'text,label\nok,1\n"a\nb" c,d\n', r"train.csv:3: not CSV"),
        ("train.csv", "text,text\na,b\n", r"train.csv:1: two columns are called 'text'"),
        ("train.tsv", "sentence\tlabel\na\tb\n", r"train.tsv:2: no field 'text'\n.*sentence, label"),
        ("train.tsv", "text\tlabel\na\n", r"train.tsv:2: no field 'label'"),
        ("train.jsonl", '{"text": 3, "label": "a"}\n', r"train.jsonl:1: the field 'text' contains no text"),
        ("train.jsonl", '{"text": "a", "label": 0.5}\n', r"train.jsonl:1: the label is the decimal 0.5"),
        ("train.jsonl", "[]\n", r"train.jsonl:1: not a JSON object"),
        (
            "train.doc",
            "",
            r"contains no labelled examples: \{train,dev,test\}.\{csv,tsv,jsonl,parquet\}\[.gz\] expected",
        ),
    ],
)
def test_files_that_are_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        built(tmp_path, {}, {name: content})


def test_places_that_are_refused(tmp_path: Path) -> None:
    files = {"train.csv": "text,label\na,1\n", "dev.csv": "text,label\na,1\n", "dev.tsv": "", "a.txt": "a\tb\n"}
    with pytest.raises(UserError, match=r"dev.csv and dev.tsv are both there\n.*labelled.format"):
        built(tmp_path, {}, files)
    with pytest.raises(UserError, match="has dev, which is to be held out of train"):
        again(tmp_path, {"folder": "in", "format": "csv", "held_out": {"dev": 1}})
    with pytest.raises(UserError, match=r"does not show the format of the file\n.*labelled.format"):
        again(tmp_path, {"files": {"train": "in/a.txt"}, "text": 1, "label": 2})
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"no text by class"):
        again(tmp_path, {"folder": "empty", "format": "folders"})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"folder": "a", "files": {"train": "b.csv"}}, "exactly one of folder, files"),
        ({"folder": "a", "value": "v", "tag": "t"}, "to two tasks: tag does not belong to regression"),
        (
            {"folder": "a", "text_pair": "v", "choices": "c"},
            "to two tasks: text_pair does not belong to multiple-choice",
        ),
        ({"folder": "a", "text": 1}, "all names or all numbers; classification needs text, label"),
        ({"folder": "a", "text": 0, "label": 1}, "greater than or equal to 1"),
        ({"folder": "a", "choices": ["x"], "answer": "y"}, "choices needs at least two different columns"),
        ({"folder": "a", "format": "conll", "tag": "ner"}, "the columns of conll are numbers"),
        ({"folder": "a", "format": "squad", "text": "x"}, "format squad has no columns: leave out text"),
        ({"folder": "a", "ranking": True}, "ranking applies to format squad"),
        ({"files": {"train": "a"}, "format": "folders"}, "format folders needs `folder`"),
        ({"files": {"train": "a.csv", "dev": "b.csv"}, "held_out": {"dev": 3}}, "dev has a file, so it cannot be held"),
        ({"files": {"test": "a.csv"}, "held_out": {"dev": 3}}, "held_out needs a training file"),
    ],
)
def test_settings_that_contradict_each_other(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        CorpusSource.model_validate({"labelled": settings})


@pytest.mark.parametrize(
    ("settings", "task"),
    [
        ({}, "classification"),
        ({"text": "a", "text_pair": "b"}, "pair-classification"),
        ({"value": "v"}, "regression"),
        ({"choices": ["a", "b"]}, "multiple-choice"),
        ({"format": "squad"}, "span-extraction"),
        ({"answers": "a"}, "span-extraction"),
        ({"format": "conll"}, "tagging"),
        ({"format": "squad", "ranking": True}, "ranking"),
        ({"query": "q"}, "ranking"),
        ({"head": "h"}, "relation-classification"),
        ({"entity": "e"}, "entity-typing"),
    ],
)
def test_columns_decide_the_task(settings: dict[str, Any], task: str) -> None:
    source = CorpusSource.model_validate({"labelled": {"folder": "x", **settings}})
    assert source.labelled is not None and source.labelled.task == task


def test_check_counts_classes_and_omitted_examples(tmp_path: Path) -> None:
    files = {"train.csv": "text,label\na,x\nb,y\nc,y\nd,\n", "dev.conll": ""}
    built(tmp_path, {}, files)
    source = CorpusSource.model_validate({"labelled": {"folder": "in"}})
    text, label = catalogue.check(source, ENGLISH, tmp_path)
    assert (text.words, text.remarks, label.classes, label.remarks) == (3, {"no_label": 1}, {"x": 1, "y": 2}, {})
    assert text.sha256 == label.sha256
    (tmp_path / "ner").mkdir()
    (tmp_path / "ner" / "train.conll").write_text(NER)
    source = CorpusSource.model_validate({"labelled": {"folder": "ner", "format": "conll"}})
    _, tags = catalogue.check(source, ENGLISH, tmp_path)
    assert tags.classes == {"B-ORG": 1, "O": 1, "B-PER": 1, "I-PER": 1}
    for name in ("pos", "neg"):
        (tmp_path / f"{name}.txt").write_text("a\nb\n")
    source = CorpusSource.model_validate({"labelled": {"folder": ".", "format": "folders"}})
    text, label = catalogue.check(source, ENGLISH, tmp_path)
    assert label.classes == {"pos": 2, "neg": 2} and text.sha256 is None


EN_QG = "qg-en/squad-v1.1-dev48"


@pytest.mark.data
@pytest.mark.parametrize("name", ["movie-reviews", "sentence-polarity", "subjectivity", "pros-cons"])
def test_real_labels(mirror: Path, tmp_path: Path, name: str) -> None:
    corpus = again(tmp_path, {"folder": str(mirror / "labels" / name)})
    assert len(labels_of(corpus)) == 2
    for split in corpus.splits:
        counts = corpus.counts[split]
        assert counts["kept"] == counts["read"] > 0 and {*corpus.lines(split, "label")} == {*labels_of(corpus)}


@pytest.mark.data
def test_real_questions(mirror: Path, tmp_path: Path) -> None:
    corpus = again(tmp_path, {"folder": str(mirror / EN_QG), "format": "squad"})
    declared = [
        {answer["text"].strip() for answer in asked["answers"]}
        for article in json.loads(gzip.decompress((mirror / EN_QG / "test.json.gz").read_bytes()))["data"]
        for paragraph in article["paragraphs"]
        for asked in paragraph["qas"]
    ]
    passages, answers = corpus.lines("test", "target"), corpus.annotations("test", "answers")
    spans = [{text[start:end] for start, end in each} for text, each in zip(passages, answers, strict=True)]
    assert spans == declared
    ranked = again(tmp_path, {"folder": str(mirror / EN_QG), "format": "squad", "ranking": True})
    by_query: dict[str, list[int]] = {}
    for query, relevance in zip(ranked.lines("test", "query-id"), ranked.annotations("test", "relevance"), strict=True):
        by_query.setdefault(query, []).append(relevance)
    assert len(by_query) > 1700
    assert all(sum(relevances) >= 1 and len(relevances) > 1 for relevances in by_query.values())


@pytest.mark.data
def test_real_attributes_and_languages(mirror: Path, tmp_path: Path) -> None:
    columns = {"text": "question", "text_pair": "context", "label": "attribute"}
    stories = again(tmp_path, {"folder": str(mirror / "qg-en/fairytaleqa"), **columns})
    assert len(labels_of(stories)) == 7 and stories.size("test") == 1007
    file = str(mirror / "mono/udhr/lang-tab-line.txt.gz")
    settings = {"files": {"train": file}, "format": "tsv", "text": 2, "label": 1, "held_out": {"dev": 500, "test": 500}}
    languages = again(tmp_path, settings)
    assert len(labels_of(languages)) > 300 and languages.counts["train"]["contradictory"] > 1000
    assert sum(languages.counts[split]["read"] for split in languages.splits) == 29_317
