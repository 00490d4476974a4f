"""Records of named fields: texts, labels, spans and tensors, segment by segment, and one message for each mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from safetensors.numpy import save_file

from subgraft.base.errors import UserError
from subgraft.config.corpora import Cleaning, Languages
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.text.corpus import Corpus

FIELDS = {"text": {"language": "en"}, "label": {"kind": "label"}}


def records(folder: Path, *lines: object, split: str = "train", **settings: object) -> CorpusSource:
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    (folder / f"{split}.jsonl").write_text(text, encoding="utf-8")
    return CorpusSource.model_validate({"records": {"folder": str(folder), "fields": FIELDS, **settings}})


def test_labels_stay_with_their_texts(tmp_path: Path) -> None:
    train = [("good", "pos"), ("", "neg"), ("bad", "neg"), ("good", "pos"), ("held", "neg")]
    source = records(tmp_path / "in", *({"text": text, "label": label} for text, label in train))
    records(tmp_path / "in", {"text": "held", "label": "pos"}, split="dev")
    corpus = build(source, None, Cleaning(), tmp_path / "out")
    assert Corpus.open(tmp_path / "out") == corpus
    assert list(corpus.records("train", "text", "label")) == [("good", "pos"), ("bad", "neg")]
    assert list(corpus.lines("dev", "label")) == ["pos"]
    assert corpus.classes == {"label": ("neg", "pos")}
    counts = corpus.counts["train"]
    assert (counts["too_short"], counts["duplicate"], counts["held_out"]) == (1, 1, 1), "labels are not part of a text"
    assert corpus.languages == ("en",)
    with pytest.raises(UserError, match="is a label, not a text"):
        corpus.text("train", "label")


def test_a_task_of_one_language_has_its_text_as_source(tmp_path: Path) -> None:
    source = records(tmp_path / "in", {"text": "good", "label": 1})
    corpus = build(source, Languages(source="en", target="en"), Cleaning(), tmp_path / "out")
    assert list(corpus.records("train", "source", "label")) == [("good", "1")]
    with pytest.raises(UserError, match=r"no text in the language 'fr'\n.*It has: en"):
        build(source, Languages(source="fr", target="fr"), Cleaning(), tmp_path / "other")


def test_spans_point_at_the_same_characters_after_stripping(tmp_path: Path) -> None:
    fields = {"text": {"language": "en"}, "answer": {"kind": "span", "of": "text"}}
    source = records(tmp_path / "in", {"text": "  a green door ", "answer": [4, 9]}, fields=fields)
    corpus = build(source, None, Cleaning(), tmp_path / "out")
    ((text, span),) = corpus.records("train")
    assert isinstance(text, str)
    assert isinstance(span, tuple)
    assert text[slice(*span)] == "green"
    outside = records(tmp_path / "bad", {"text": "short", "answer": [2, 9]}, fields=fields)
    with pytest.raises(UserError, match=r"train\.jsonl:1: the span 'answer' \(2 to 9\) is not within its text"):
        build(outside, None, Cleaning(), tmp_path / "none")


def test_named_spans_point_at_the_same_characters_and_stay_with_their_texts(tmp_path: Path) -> None:
    fields = {"text": {"language": "en"}, "entities": {"kind": "spans", "of": "text"}}
    lines = [
        {"text": "  Oslo lies on a fjord ", "entities": [[17, 22, "Oslofjord"], [2, 6, "Oslo"]]},
        {"text": "", "entities": []},
        {"text": "None here", "entities": []},
    ]
    corpus = build(records(tmp_path / "in", *lines, fields=fields), None, Cleaning(), tmp_path / "out")
    assert Corpus.open(tmp_path / "out") == corpus
    rows: list[Any] = list(corpus.records("train"))
    assert [[(text[start:end], name) for start, end, name in spans] for text, spans in rows] == [
        [("Oslo", "Oslo"), ("fjord", "Oslofjord")],
        [],
    ]
    assert corpus.fields_of("text", "spans") == ("entities",)
    for spans, message in (
        ([[0, 99, "x"]], r"train\.jsonl:1: the span 'entities' \(0 to 99\) is not within its text"),
        ([[0, 4]], r"train\.jsonl:1: 'entities' is not a list of \[start, end, name\]"),
        ("Oslo", "not a list of"),
        ([[2, 6, ""]], "the name of a span of 'entities' is empty"),
    ):
        wrong = records(tmp_path / "bad", {"text": "  Oslo", "entities": spans}, fields=fields)
        with pytest.raises(UserError, match=message):
            build(wrong, None, Cleaning(), tmp_path / "none")


def test_triples_stay_with_the_texts_that_state_them(tmp_path: Path) -> None:
    fields = {"text": {"language": "en"}, "facts": {"kind": "triples", "of": "text"}}
    stated = [["Oslo", "capital of", "Norway"], ["Oslo", "on", "Oslofjord"]]
    lines = [{"text": "Oslo is one", "facts": stated}, {"text": "", "facts": []}, {"text": "None here", "facts": []}]
    corpus = build(records(tmp_path / "in", *lines, fields=fields), None, Cleaning(), tmp_path / "out")
    assert list(corpus.annotations("train", "facts")) == [stated, []]
    assert (corpus.fields_of("text", "triples"), corpus.fields_of("text", "spans")) == (("facts",), ())
    for facts, message in (
        ([["a", "b"]], r"train\.jsonl:1: 'facts' is not a list of \[head, relation, tail\]"),
        ([["a", " ", "c"]], "a part of a triple of 'facts' is empty"),
    ):
        wrong = records(tmp_path / "bad", {"text": "Oslo", "facts": facts}, fields=fields)
        with pytest.raises(UserError, match=message):
            build(wrong, None, Cleaning(), tmp_path / "none")


def test_rows_of_tensors_stay_with_their_segments(tmp_path: Path) -> None:
    fields = {"text": {"language": "en"}, "image": {"kind": "tensor"}}
    source = records(tmp_path / "in", *({"text": text} for text in ("a", "", "b", "a", "c")), fields=fields)
    rows = np.arange(10, dtype=np.float32).reshape(5, 2)
    save_file({"image": rows}, tmp_path / "in" / "train.image.safetensors")
    corpus = build(source, None, Cleaning(), tmp_path / "out")
    selected = [(text, np.asarray(row).tolist()) for text, row in corpus.records("train")]
    assert selected == [("a", rows[0].tolist()), ("b", rows[2].tolist()), ("c", rows[4].tolist())]
    save_file({"image": rows[:4]}, tmp_path / "in" / "train.image.safetensors")
    with pytest.raises(UserError, match=r"train\.image\.safetensors: the tensor 'image' has 4 rows\n.*5 segments"):
        build(source, None, Cleaning(), tmp_path / "none")
    (tmp_path / "in" / "train.image.safetensors").unlink()
    with pytest.raises(UserError, match="no such file"):
        build(source, None, Cleaning(), tmp_path / "none")


def test_columns_of_tab_separated_files(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text('d1\ta "b\tx\nd1\tc\ty\nd2\te\tx\n', encoding="utf-8")
    fields = {"en": {"column": 2}, "tag": {"kind": "label", "column": 3}}
    source = CorpusSource.model_validate({"records": {"folder": str(tmp_path), "fields": fields, "document": 1}})
    corpus = build(source, None, Cleaning(), tmp_path / "out")
    assert list(corpus.records("train")) == [('a "b', "x"), ("c", "y"), ("e", "x")]
    assert [run.document for run in corpus.documents("train")] == ["d1", "d2"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"text": "a"}, r":2: no field 'label'\n.*The line has: text"),
        ({"text": 3, "label": "x"}, r":2: the field 'text' contains no text"),
        ({"text": [{"role": "user", "content": "a"}], "label": "x"}, r":2: the field 'text' contains a conversation"),
        ({"text": "a", "label": "x\ty"}, r":2: the label 'label' is empty.*or contains a tab"),
        ({"text": "a", "label": "x\ny"}, r":2: the label 'label'"),
        ({"text": "a", "label": " "}, r":2: the label 'label'"),
        ({"text": "a", "label": [1]}, r":2: the label 'label' is neither"),
        ("{", r":2: not JSON"),
        ("[1]", r":2: not a JSON object"),
    ],
)
def test_a_mistake_names_file_and_line_and_nothing_is_written(tmp_path: Path, line: object, message: str) -> None:
    source = records(tmp_path / "in", {"text": "fine", "label": "x"}, line)
    with pytest.raises(UserError, match=r"train\.jsonl" + message):
        build(source, None, Cleaning(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_field_is_named_as_in_the_file(tmp_path: Path) -> None:
    fields = {"en": {"language": "en", "column": "english"}}
    for english, said in (
        (3, "contains no text"),
        (["a", "b"], "lists the segments of a document\n  Write `document:`"),
    ):
        source = records(tmp_path / "in", {"english": english}, fields=fields)
        with pytest.raises(UserError, match=rf"train\.jsonl:1: the field 'english' {said}"):
            build(source, None, Cleaning(), tmp_path / "out")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"document": "b", "en": ["a", "b"], "fr": ["a"]}, r":2: unequal numbers of segments \(en: 2, fr: 1\)"),
        ({"document": "b", "en": ["a"], "fr": "a"}, r":2: in a document all texts must be lists"),
        ({"document": "b\tc", "en": ["a"], "fr": ["a"]}, r":2: a document's name .*contains a tab"),
        ({"document": "a", "en": ["a"], "fr": ["a"]}, None),
    ],
)
def test_mistakes_of_documents(tmp_path: Path, line: object, message: str | None) -> None:
    settings: dict[str, Any] = {"fields": {"en": {}, "fr": {}}, "document": "document"}
    first = {"document": "a", "en": ["x"], "fr": ["y"]}
    if message is None:
        source = records(tmp_path / "in", first, {**first, "document": "z"}, line, **settings)
        message = r":3: the document 'a' comes again"
    else:
        source = records(tmp_path / "in", first, line, **settings)
    with pytest.raises(UserError, match=message):
        build(source, None, Cleaning(), tmp_path / "out")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"label": {"kind": "label"}}, "must be a text"),
        ({"a": {"language": "en"}, "b": {"kind": "span", "of": "c"}}, "not a text field"),
        ({"a": {}, "b": {"kind": "span"}}, "spans and triples need `of`"),
        ({"a": {"language": "en"}, "b": {"kind": "spans", "of": "c"}}, "the spans b is of 'c', which is not a text"),
        ({"a": {"column": 1}, "b": {}}, "not both"),
        ({"documents": {}}, "no field can be called documents"),
        ({"a b": {}}, "pattern"),
    ],
)
def test_settings_that_cannot_be(fields: object, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        CorpusSource.model_validate({"records": {"folder": "x", "fields": fields}})


@pytest.mark.data
@pytest.mark.parametrize("name", ["movie-reviews", "sentence-polarity", "subjectivity", "pros-cons"])
def test_real_labels(mirror: Path, tmp_path: Path, name: str) -> None:
    source = CorpusSource.model_validate({"records": {"folder": str(mirror / "labels" / name), "fields": FIELDS}})
    corpus = build(source, None, Cleaning(max_characters=None), tmp_path / "out")
    assert len(corpus.classes["label"]) == 2
    for split in corpus.splits:
        labels = list(corpus.lines(split, "label"))
        assert len(labels) == corpus.size(split) == sum(1 for _ in corpus.lines(split, "text"))
        assert set(labels) == {*corpus.classes["label"]}
