"""Text by language that nobody has split: every line is in one split, and languages need not be parallel."""

from __future__ import annotations

from pathlib import Path

import pytest

from subgraft.base.errors import UserError
from subgraft.config.corpora import Cleaning, Languages
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource, resolve
from subgraft.data.text.corpus import Corpus


def written(folder: Path, **settings: object) -> CorpusSource:
    for language, size in (("sw", 20), ("zu", 11)):
        (folder / f"{language}.txt").write_text("".join(f"{language} {at}\n" for at in range(size)), encoding="utf-8")
    columns = {"folder": str(folder), "languages": ["sw", "zu"], "held_out": {"dev": 2, "test": 4}, **settings}
    return CorpusSource.model_validate({"plain": columns})


@pytest.mark.parametrize("seed", [None, 5])
def test_every_line_is_in_one_split(tmp_path: Path, seed: int | None) -> None:
    source = written(tmp_path, seed=seed)
    corpus = build(source, None, Cleaning(), tmp_path / "out")
    assert not corpus.aligned
    for language, size in (("sw", 20), ("zu", 11)):
        splits = [list(corpus.lines(split, language)) for split in corpus.splits]
        assert [len(lines) for lines in splits] == [size - 6, 2, 4]
        assert {line for lines in splits for line in lines} == {f"{language} {at}" for at in range(size)}
    assert corpus.size("train") == 19
    again = build(source, None, Cleaning(), tmp_path / "again")
    assert list(again.lines("dev", "sw")) == list(corpus.lines("dev", "sw"))


def test_held_out_lines_are_evenly_spaced(tmp_path: Path) -> None:
    corpus = build(written(tmp_path), None, Cleaning(), tmp_path / "out")
    held_out = {int(line.split()[1]) for split in ("dev", "test") for line in corpus.lines(split, "sw")}
    assert held_out == {1, 5, 8, 11, 15, 18}
    assert {int(line.split()[1]) for line in corpus.lines("dev", "sw")} == {8, 18}


def test_a_corpus_of_languages_is_read_again_as_it_was_written(tmp_path: Path) -> None:
    corpus = build(written(tmp_path), None, Cleaning(), tmp_path / "out")
    assert Corpus.open(tmp_path / "out") == corpus
    again = build(CorpusSource(folder=str(tmp_path / "out")), None, Cleaning(), tmp_path / "again")
    assert [list(again.lines("train", name)) for name in ("sw", "zu")] == [
        list(corpus.lines("train", name)) for name in ("sw", "zu")
    ]


def test_two_texts_for_a_task_are_source_and_target_but_no_pairs(tmp_path: Path) -> None:
    result = resolve(written(tmp_path), Languages(source="zu", target="sw"), tmp_path)
    assert not result.parallel
    corpus = build(written(tmp_path), Languages(source="zu", target="sw"), Cleaning(), tmp_path / "out")
    assert [(field.name, field.language) for field in corpus.fields] == [("source", "zu"), ("target", "sw")]
    with pytest.raises(UserError, match="not parallel"):
        corpus.pairs("train")
    alone = build(written(tmp_path), Languages(source="zu", target="zu"), Cleaning(), tmp_path / "alone")
    assert alone.is_pair
    assert alone.size("train") == 5


def test_tagged_lines_are_of_their_language(tmp_path: Path) -> None:
    (tmp_path / "all.txt").write_text("sw\thabari\tya\nzu\tsawubona\nsw\tasante\n", encoding="utf-8")
    settings = {"tagged": "all.txt", "languages": {"swa": "sw", "zul": "zu"}}
    source = CorpusSource.model_validate({"plain": settings})
    corpus = build(source, None, Cleaning(), tmp_path / "out", base=tmp_path)
    assert list(corpus.lines("train", "swa")) == ["habari\tya", "asante"]
    assert list(corpus.lines("train", "zul")) == ["sawubona"]
    missing = CorpusSource.model_validate({"plain": {"tagged": "all.txt", "languages": ["xh"]}})
    with pytest.raises(UserError, match=r"all\.txt: no line of 'xh'"):
        build(missing, None, Cleaning(), tmp_path / "none", base=tmp_path)
    (tmp_path / "all.txt").write_text("sw\thabari\nsawubona\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"all\.txt:2: no tab after a language"):
        build(source, None, Cleaning(), tmp_path / "none", base=tmp_path)


def test_of_several_together_each_is_one_text_or_parallel(tmp_path: Path) -> None:
    plain = written(tmp_path)
    (tmp_path / "more").write_text("sw more\n", encoding="utf-8")
    source = CorpusSource(together=(plain, CorpusSource(files={"train": (str(tmp_path / "more"),)})))
    corpus = build(source, Languages(source="sw", target="sw"), Cleaning(), tmp_path / "out")
    assert corpus.size("train") == 15
    with pytest.raises(UserError, match="together: every part must be a parallel text"):
        resolve(CorpusSource(together=(plain, plain)), Languages(source="sw", target="zu"), tmp_path)


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"sw\.txt: 20 segments are to be held out of 20"):
        build(written(tmp_path, held_out={"dev": 20}), None, Cleaning(), tmp_path / "out")
    with pytest.raises(UserError, match=r"no such file: xh\.txt\[\.gz\]\n.*The folder has: sw\.txt, zu\.txt"):
        resolve(written(tmp_path, languages=["sw", "xh"]), None, tmp_path)
    with pytest.raises(UserError, match=r"no text in the language 'xh'\n.*It has: sw, zu"):
        resolve(written(tmp_path), Languages(source="sw", target="xh"), tmp_path)
    assert not (tmp_path / "out").exists()


def test_texts_of_several_places_by_language(tmp_path: Path) -> None:
    plain = written(tmp_path)
    (tmp_path / "xh.text").write_text("molo\n", encoding="utf-8")
    texts = {"zu": plain, "xh": CorpusSource(files={"train": (str(tmp_path / "xh.text"),)})}
    corpus = build(CorpusSource(texts=texts), None, Cleaning(), tmp_path / "out")
    assert [(language, sum(1 for _ in lines)) for language, lines in corpus.texts("train")] == [("xh", 1), ("zu", 5)]
    assert [language for language, _ in corpus.texts("dev")] == ["zu"]
    assert corpus.size("dev", "xh") == 0


def test_a_folder_of_more_than_two_languages_is_one_parallel_corpus(tmp_path: Path) -> None:
    for code in ("en", "fr", "de"):
        (tmp_path / f"train.{code}").write_text(f"{code} one\n\n{code} three\n", encoding="utf-8")
    source = CorpusSource(folder=str(tmp_path), languages=("en", "fr", "de"))
    corpus = build(source, None, Cleaning(), tmp_path / "out")
    assert list(corpus.records("train", "de", "en")) == [("de one", "en one"), ("de three", "en three")]
    assert list(corpus.pairs("train", Languages(source="fr", target="en")))[1] == ("fr three", "en three")
    with pytest.raises(UserError, match=r"contains 3 texts \(en, fr, de\), where a pair is needed"):
        corpus.pairs("train")
    (tmp_path / "train.fr").write_text("seul\n", encoding="utf-8")
    with pytest.raises(UserError, match="unequal numbers of lines"):
        build(source, None, Cleaning(), tmp_path / "none")
    (tmp_path / "train.fr").unlink()
    with pytest.raises(UserError, match=r"train\.fr is missing, others are there"):
        build(source, None, Cleaning(), tmp_path / "none")


@pytest.mark.slow
@pytest.mark.data
def test_forty_five_real_languages_are_one_corpus(mirror: Path, tmp_path: Path) -> None:
    names = sorted(path.name.removesuffix(".txt.gz") for path in (mirror / "mono" / "bible-nt").glob("*.txt.gz"))
    assert len(names) == 45
    settings = {"folder": str(mirror / "mono" / "bible-nt"), "languages": names, "held_out": {"dev": 100}}
    source = CorpusSource.model_validate({"plain": settings})
    corpus = build(source, None, Cleaning(drop_held_out=False, deduplicate=False), tmp_path / "out")
    assert len(corpus.languages) == 45
    assert all(corpus.size("dev", name) == 100 for name in names)
    assert corpus.size("train", "Gaelic-PART") < 676 < corpus.size("train", "Zulu-NT")
    assert corpus.size("train") == sum(1 for _, lines in corpus.texts("train") for _ in lines)


@pytest.mark.data
def test_real_tagged_text(mirror: Path, tmp_path: Path) -> None:
    settings = {"tagged": str(mirror / "mono" / "udhr" / "lang-tab-line.txt.gz"), "languages": ["eng", "fra", "zul"]}
    corpus = build(CorpusSource.model_validate({"plain": settings}), None, Cleaning(), tmp_path / "out")
    assert any("All human beings are born free" in line for line in corpus.lines("train", "eng"))
    assert all(50 < corpus.size("train", name) < 200 for name in ("eng", "fra", "zul"))
