"""Building a corpus: cleaned, counted, recorded; bad input leaves nothing behind."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path

import pytest

from subgraft.base.errors import UserError
from subgraft.config.corpora import Cleaning, Languages
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.text.corpus import Corpus

EN_FR = Languages(source="en", target="fr")
ENGLISH = Languages(source="en", target="en")


def write_folder(folder: Path, **splits: list[tuple[str, str]]) -> CorpusSource:
    folder.mkdir(parents=True, exist_ok=True)
    for split, pairs in splits.items():
        for at, code in enumerate(("en", "fr")):
            text = "".join(f"{pair[at]}\n" for pair in pairs)
            (folder / f"{split}.{code}").write_text(text, encoding="utf-8")
    return CorpusSource(folder=str(folder))


def test_built_corpus_opens_again_with_its_counts(tmp_path: Path) -> None:
    source = write_folder(
        tmp_path / "in",
        train=[("a cat", "un chat"), ("", "vide"), ("a cat", "un chat"), ("held", "tenu"), (" x\u2028y ", "x y")],
        dev=[("held", "tenu"), ("", ""), ("held", "tenu")],
    )
    built = build(source, EN_FR, Cleaning(), tmp_path / "out")
    opened = Corpus.open(tmp_path / "out")
    assert opened == built
    assert opened.languages == ("en", "fr")
    assert not opened.generated
    assert opened.splits == ("train", "dev")
    assert list(opened.pairs("train")) == [("a cat", "un chat"), ("x y", "x y")]
    assert list(opened.pairs("dev")) == [("held", "tenu"), ("", ""), ("held", "tenu")]
    assert opened.size("train") == 2
    assert opened.counts["train"] == {
        "read": 5,
        "kept": 2,
        "too_short": 1,
        "duplicate": 1,
        "held_out": 1,
        "line_breaks_replaced": 1,
    }
    assert sum(1 for _ in opened.lines("dev", "source")) == opened.size("dev") == 3


def test_same_input_gives_the_same_bytes_and_no_paths(tmp_path: Path) -> None:
    source = write_folder(tmp_path / "in", train=[("a", "b"), ("c", "d")], test=[("e", "f")])
    for name in ("one", "two"):
        build(source, EN_FR, Cleaning(), tmp_path / name)
    first = {path.name: path.read_bytes() for path in (tmp_path / "one").iterdir()}
    second = {path.name: path.read_bytes() for path in (tmp_path / "two").iterdir()}
    assert first == second
    assert set(first) == {"train.source", "train.target", "test.source", "test.target", "corpus.json"}
    assert str(tmp_path) not in first["corpus.json"].decode()


def test_monolingual_corpus_has_one_side(tmp_path: Path) -> None:
    (tmp_path / "text.gz").write_bytes(gzip.compress(b"one\ntwo\none\n"))
    source = CorpusSource(files={"train": ("text.gz",)})
    corpus = build(source, ENGLISH, Cleaning(), tmp_path / "out", base=tmp_path)
    assert corpus.monolingual
    assert list(corpus.lines("train", "source")) == ["one", "two"]
    assert not (tmp_path / "out" / "train.target").exists()
    with pytest.raises(UserError, match="no target side"):
        corpus.pairs("train")


def test_progress_reaches_the_end_of_every_split(tmp_path: Path) -> None:
    source = write_folder(tmp_path / "in", train=[("a", "b")] * 3, dev=[("c", "d")])
    seen: list[tuple[int, int, str]] = []
    build(source, EN_FR, Cleaning(), tmp_path / "out", progress=lambda *message: seen.append(message))
    assert seen == [(1, 1, "dev"), (3, 3, "train")]


def test_unequal_files_tell_both_counts_and_write_nothing(tmp_path: Path) -> None:
    source = write_folder(tmp_path / "in", train=[("a", "b")] * 3, dev=[("c", "d")] * 2)
    (tmp_path / "in" / "train.fr").write_text("b\n" * 4, encoding="utf-8")
    with pytest.raises(UserError, match=r"train\.en: 3 and .*train\.fr: 4") as caught:
        build(source, EN_FR, Cleaning(), tmp_path / "out")
    assert caught.value.exit_code == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("raw", "message"),
    [(b"", "an empty corpus"), (b"caf\xe9\n", r"dev\.fr:1: not UTF-8")],
)
def test_empty_or_broken_files_write_nothing(tmp_path: Path, raw: bytes, message: str) -> None:
    source = write_folder(tmp_path / "in", train=[("a", "b")], dev=[("c", "d")])
    (tmp_path / "in" / "dev.fr").write_bytes(raw)
    with pytest.raises(UserError, match=message):
        build(source, EN_FR, Cleaning(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_cleaning_that_leaves_nothing_says_which_rule(tmp_path: Path) -> None:
    source = write_folder(tmp_path / "in", train=[("a", "b"), ("c", "d")])
    with pytest.raises(UserError, match=r"leaves no training segment .*too_short: 2"):
        build(source, EN_FR, Cleaning(min_characters=9), tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    source = write_folder(tmp_path / "in", train=[("a", "b")])
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    with pytest.raises(UserError, match="not an empty folder"):
        build(source, EN_FR, Cleaning(), tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


def test_what_is_not_a_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a corpus"):
        Corpus.open(tmp_path)
    (tmp_path / "corpus.json").write_text('{"format": 99}', encoding="utf-8")
    with pytest.raises(UserError, match="another version"):
        Corpus.open(tmp_path)
    source = write_folder(tmp_path / "in", train=[("a", "b")])
    with pytest.raises(UserError, match=r"no dev split \(there is: train\)"):
        build(source, EN_FR, Cleaning(), tmp_path / "out").lines("dev", "source")


@pytest.mark.data
def test_a_real_corpus_keeps_its_held_out_splits_and_loses_no_line(
    mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBGRAFT_DATA", str(mirror))
    source = CorpusSource(folder="en-fr/itdocs")
    corpus = build(source, EN_FR, Cleaning(max_characters=300), tmp_path / "out", base=tmp_path)
    assert corpus.size("dev") == corpus.size("test") == 1000
    counts = dict(corpus.counts["train"])
    counts.pop("line_breaks_replaced", None)
    assert counts.pop("near_copies") == 26, "of dev and test segments, which are not lines of the training text"
    assert counts.pop("read") == 15_576 == sum(counts.values())
    assert counts["too_long"] > 0
    held_out = set(corpus.pairs("dev")) | set(corpus.pairs("test"))
    train = list(corpus.pairs("train"))
    assert len(train) == len(set(train)) == corpus.size("train")
    assert held_out.isdisjoint(train)
    declared = json.loads((tmp_path / "out" / "corpus.json").read_text(encoding="utf-8"))["identity"]["files"]
    raw = (mirror / "en-fr/itdocs/train.en.gz").read_bytes()
    assert declared["train"][0] == hashlib.sha256(raw).hexdigest()
