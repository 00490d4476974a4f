"""Corpora are found where they should be, known by what they hold, and read alike from everywhere."""

from __future__ import annotations

import functools
import gzip
import hashlib
import importlib.util
import json
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from subgraft.base.errors import UserError
from subgraft.config.corpora import Cleaning, Languages
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.files import FileSource
from subgraft.data.sources.registry import CorpusSource, resolve
from subgraft.data.sources.urls import UrlFile

EN_FR = Languages(source="en", target="fr")
ENGLISH = Languages(source="en", target="en")


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUBGRAFT_DATA", raising=False)


def write(folder: Path, name: str, text: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    raw = text.encode()
    (folder / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return name


def fill(folder: Path) -> None:
    write(folder, "train.en.gz", "".join(f"a{number}\n" for number in range(10)))
    write(folder, "train.fr", "".join(f"b{number}\n" for number in range(10)))
    write(folder, "dev.en", "c\n")
    write(folder, "dev.fr", "d\n")


def test_a_folder_is_found_next_to_the_configuration_before_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "data" / "corpus")
    monkeypatch.setenv("SUBGRAFT_DATA", str(tmp_path / "data"))
    source = CorpusSource(folder="corpus")
    result = resolve(source, EN_FR, tmp_path / "configs")
    assert result.splits == ("train", "dev")
    assert list(result.read("dev")) == [("c", "d")]
    fill(tmp_path / "configs" / "corpus")
    write(tmp_path / "configs" / "corpus", "dev.fr", "beside\n")
    assert list(resolve(source, EN_FR, tmp_path / "configs").read("dev")) == [("c", "beside")]


def test_what_is_not_there_names_the_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = CorpusSource(folder="corpus")
    with pytest.raises(UserError, match="SUBGRAFT_DATA, the folder of corpora to look in, is not set"):
        resolve(source, EN_FR, tmp_path)
    monkeypatch.setenv("SUBGRAFT_DATA", str(tmp_path / "data"))
    with pytest.raises(UserError) as caught:
        resolve(source, EN_FR, tmp_path)
    assert str(tmp_path / "corpus") in str(caught.value)
    assert str(tmp_path / "data" / "corpus") in str(caught.value)
    write(tmp_path / "corpus", "train.en", "a\n")
    with pytest.raises(UserError, match=r"train\.fr is missing, the other side is there"):
        resolve(source, EN_FR, tmp_path)
    with pytest.raises(UserError, match=r"contains no corpus: .*\.de\[\.gz\] and .*\.fr"):
        resolve(source, Languages(source="de", target="fr"), tmp_path)


def test_identity_is_of_bytes_not_of_places(tmp_path: Path) -> None:
    for name in ("one", "two"):
        fill(tmp_path / name)

    def identity(name: str) -> dict[str, Any]:
        return dict(resolve(CorpusSource(folder=name), EN_FR, tmp_path).identity())

    one, two = identity("one"), identity("two")
    # gzip writes the time into its header, so only the plain files are surely the same.
    assert one["files"]["dev"] == two["files"]["dev"] == [hashlib.sha256(raw).hexdigest() for raw in (b"c\n", b"d\n")]
    assert json.loads(json.dumps(one)) == one
    assert str(tmp_path) not in json.dumps(one)
    write(tmp_path / "two", "dev.fr", "other\n")
    assert identity("two")["files"]["dev"] != one["files"]["dev"]


def test_a_limit_spaces_segments_evenly_and_is_part_of_the_identity(tmp_path: Path) -> None:
    fill(tmp_path)
    source = CorpusSource(folder=".", limit={"train": 4, "dev": 9})
    result = resolve(source, EN_FR, tmp_path)
    taken = list(result.read("train"))
    assert result.size("train") == len(taken) == 4
    assert taken == [("a2", "b2"), ("a4", "b4"), ("a7", "b7"), ("a9", "b9")]
    assert result.size("dev") == 1
    assert result.identity()["limit"] == {"train": 4, "dev": 9}


def test_files_of_a_monolingual_corpus(tmp_path: Path) -> None:
    name = write(tmp_path, "text.txt", "one\ntwo\n")
    result = resolve(CorpusSource(files={"train": (name,)}), ENGLISH, tmp_path)
    assert result.monolingual
    assert list(result.read("train")) == [("one",), ("two",)]


@pytest.mark.parametrize(("languages", "files"), [(EN_FR, ("a",)), (ENGLISH, ("a",) * 3), (EN_FR, ("a",) * 3)])
def test_the_number_of_files_must_fit_the_languages(
    tmp_path: Path, languages: Languages, files: tuple[str, ...]
) -> None:
    write(tmp_path, "a", "x\n")
    with pytest.raises(UserError, match=rf"files\.train: {len(files)} given; expected"):
        resolve(CorpusSource(files={"train": files}), languages, tmp_path)


def test_a_folder_given_for_a_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="this is a folder"):
        resolve(CorpusSource(files={"train": (".",)}), ENGLISH, tmp_path)


@pytest.mark.parametrize(("target", "message"), [("b\nb\n", "unequal numbers of lines"), ("", "an empty corpus")])
def test_reading_checks_before_the_first_segment(tmp_path: Path, target: str, message: str) -> None:
    files = (write(tmp_path, "a", "x\n"), write(tmp_path, "b", target))
    result = resolve(CorpusSource(files={"test": files}), EN_FR, tmp_path)
    with pytest.raises(UserError, match=message):
        next(result.read("test"))


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "served"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_download_reads_and_is_identified_like_the_file_itself(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBGRAFT_HOME", str(tmp_path / "home"))
    fill(tmp_path / "served")
    names = ("train.en.gz", "train.fr")
    local = resolve(CorpusSource(files={"train": names}), EN_FR, tmp_path / "served")
    assert isinstance(local, FileSource)
    urls = tuple(
        UrlFile(url=f"{address}/{name}", sha256=hashlib.sha256((tmp_path / "served" / name).read_bytes()).hexdigest())
        for name in names
    )
    remote = resolve(CorpusSource(urls={"train": urls}), EN_FR, tmp_path)
    assert remote.identity() == local.identity()
    assert not (tmp_path / "home").exists(), "an identity needs no download"
    assert list(remote.read("train")) == list(local.read("train"))
    assert len(list((tmp_path / "home" / "downloads").glob("*[0-9a-f]"))) == 2


@pytest.mark.skipif(importlib.util.find_spec("mtdata") is not None, reason="mtdata is installed")
def test_mtdata_that_is_not_installed_says_how_to_get_it(tmp_path: Path) -> None:
    result = resolve(CorpusSource(mtdata={"test": "Statmt-newstest_fren-2014-fra-eng"}), EN_FR, tmp_path)
    assert result.identity()["mtdata"] == {"test": "Statmt-newstest_fren-2014-fra-eng"}
    with pytest.raises(UserError, match=r"pip install 'subgraft\[mtdata\]'"):
        result.size("test")


def test_the_generated_corpus_is_what_its_generator_yields_in_either_direction(tmp_path: Path) -> None:
    source = CorpusSource(generated="law", limit={"train": 5})
    forth = resolve(source, Languages(source="en", target="de"), tmp_path)
    back = resolve(source, Languages(source="de", target="en"), tmp_path)
    assert forth.generated
    assert forth.splits == ("train", "dev", "test")
    pairs = list(forth.read("train"))
    assert len(set(pairs)) == len(pairs) == forth.size("train") == 5
    assert list(back.read("train")) == [pair[::-1] for pair in pairs]
    assert forth.identity() == {
        "generated": "law",
        "version": 2,
        "counts": {"train": 5, "dev": 500, "test": 1000},
        "seed": 1,
    }
    with pytest.raises(UserError, match="English and German"):
        resolve(source, EN_FR, tmp_path)


def test_several_corpora_together_are_one(tmp_path: Path) -> None:
    """Training text one after the other; of dev, each part in turn, as often as it is large."""
    fill(tmp_path / "small")
    for language in ("en", "fr"):
        for split, count in (("train", 4), ("dev", 3), ("test", 2)):
            write(tmp_path / "large", f"{split}.{language}", "".join(f"{language}{n}\n" for n in range(count)))
    parts = [{"folder": "small", "limit": {"train": 2}}, {"folder": "large"}]
    result = resolve(CorpusSource.model_validate({"together": parts}), EN_FR, tmp_path)
    assert result.splits == ("train", "dev", "test") and result.on_disk and not result.generated
    train = [source for source, _ in result.read("train")]
    assert train == ["a4", "a9", "en0", "en1", "en2", "en3"] and result.size("train") == 6
    assert [source for source, _ in result.read("dev")] == ["en0", "c", "en1", "en2"]
    assert list(result.read("test")) == [("en0", "fr0"), ("en1", "fr1")], "the other part has none"
    alone = [resolve(CorpusSource.model_validate(part), EN_FR, tmp_path).identity() for part in parts]
    assert result.identity() == {"together": alone}


def test_parts_of_a_corpus_are_cleaned_together(tmp_path: Path) -> None:
    """What one part holds out is not trained on from another."""
    for name, train in (("one", "a\nb\n"), ("two", "b\nc\nd\n")):
        for language in ("en", "fr"):
            write(tmp_path / name, f"train.{language}", train)
            write(tmp_path / name, f"dev.{language}", "d\n" if name == "one" else "e\n")
    source = CorpusSource.model_validate({"together": [{"folder": "one"}, {"folder": "two"}]})
    corpus = build(source, EN_FR, Cleaning(max_ratio=None), tmp_path / "out", base=tmp_path)
    assert list(corpus.lines("train", "source")) == ["a", "b", "c"]
    assert corpus.counts["train"]["held_out"] == corpus.counts["train"]["duplicate"] == 1


def test_what_parts_with_one_source_hold_out_is_not_trained_on(tmp_path: Path) -> None:
    lines = [f"line {number}" for number in range(20)]
    for name in ("one", "two", "three"):
        for split, rows in (("train", lines), ("dev", lines[:10])):
            write(tmp_path / name, f"{split}.en", "".join(f"{line}\n" for line in rows))
            write(tmp_path / name, f"{split}.fr", "".join(f"{name} {split} {line}\n" for line in rows))
    source = CorpusSource.model_validate({"together": [{"folder": name} for name in ("one", "two", "three")]})
    corpus = build(source, EN_FR, Cleaning(), tmp_path / "out", base=tmp_path)
    assert set(corpus.lines("train", "source")) == set(lines[10:])


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"together": [{"folder": "a"}], "limit": {"train": 3}}, "limit applies to one corpus"),
        ({"together": [{"squad": "a"}]}, "parts of kind squad"),
        ({"together": [{"together": [{"folder": "a"}]}]}, "parts of kind together"),
        ({"together": [{"folder": "a"}], "multipliers": [1, 2]}, "multipliers has 2 numbers, but together has 1 parts"),
        ({"folder": "a", "multipliers": [1]}, "multipliers has 1 numbers, but together has 0 parts"),
        ({"texts": {"en": {"folder": "a"}}, "limit": {"train": 3}}, "limit applies to one corpus"),
        ({"files": {"train": ["a"]}, "languages": ["en"]}, "languages applies to a folder only"),
        ({"columns": {"folder": "a"}, "documents": "blank-lines"}, "applies to a folder or files only"),
        ({"together": [{"folder": "a"}], "folder": "b"}, "exactly one of"),
        ({"together": []}, "exactly one of"),
    ],
)
def test_what_is_not_one_corpus_is_refused(settings: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        CorpusSource.model_validate(settings)


def test_parts_of_one_side_and_of_two_are_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        for split in ("train", "dev"):
            write(tmp_path, f"{name}-{split}", "a\n")
    parts = [{"files": {"train": ["one-train"]}}, {"files": {"train": ["one-train", "two-train"]}}]
    with pytest.raises(UserError, match="some parts have one side and some have two"):
        resolve(CorpusSource.model_validate({"together": parts}), ENGLISH, tmp_path)


@pytest.mark.data
def test_laws_are_parallel_and_limited_over_their_whole_length(
    mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBGRAFT_DATA", str(mirror))
    source = CorpusSource(folder="en-fr/laws", limit={"train": 500})
    result = resolve(source, EN_FR, tmp_path)
    assert len(list(result.read("train"))) == result.size("train") == 500
    assert result.size("test") == 2000
