"""Bilingual files as CAT tools write them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.data.sources.bilingual import read_pairs
from subgraft.data.sources.registry import CorpusSource, resolve
from subgraft.data.text import reading
from subgraft.interfaces.cli import main
from toys import english, english_tokenizer, german, german_tokenizer, marian

EN_DE = Languages(source="en", target="de")
HEAD = '<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4"><header srclang="en-US" segtype="sentence"/><body>'
UNITS = """
<tu><tuv xml:lang="en-US"><seg>A <hi>bold</hi> word<bpt i="1">&lt;b&gt;</bpt> &amp; more<ept i="1">&lt;/b&gt;</ept></seg></tuv>
    <tuv xml:lang="de-DE"><seg>Ein <hi>fettes</hi>
      Wort &amp; mehr</seg></tuv></tu>
<tu><note>no segment</note><tuv xml:lang="EN-GB"><seg>Colour</seg></tuv><tuv xml:lang="de-AT"><seg>Farbe</seg></tuv>
    <tuv xml:lang="de-DE"><seg>Die Farbe</seg></tuv><tuv xml:lang="de-CH"><seg>Farbe</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Alone</seg></tuv><tuv xml:lang="de"><seg> </seg></tuv></tu>
"""  # noqa: E501
PAIRS = [("A bold word & more", "Ein fettes Wort & mehr"), ("Colour", "Farbe"), ("Colour", "Die Farbe")]


def memory(place: Path, units: str = UNITS, head: str = HEAD, encoding: str = "utf-8") -> Path:
    path = place / "memory.tmx"
    text = f'<?xml version="1.0" encoding="{encoding}"?>\n{head}{units}</body></tmx>\n'
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_pairs_have_the_text_of_every_variant_without_codes(encoding: str, tmp_path: Path) -> None:
    assert read_pairs(memory(tmp_path, encoding=encoding), None) == (EN_DE, PAIRS)


def test_a_gzipped_memory_is_read_in_the_other_direction(tmp_path: Path) -> None:
    path = memory(tmp_path)
    path.write_bytes(gzip.compress(path.read_bytes()))
    back = Languages(source="de_DE", target="en_XX")
    assert read_pairs(path, back) == (back, [(PAIRS[0][1], PAIRS[0][0]), ("Farbe", "Colour")])


FRENCH = '<tu><tuv xml:lang="en"><seg>A</seg></tuv><tuv xml:lang="fr"><seg>Un</seg></tuv></tu>'


@pytest.mark.parametrize(
    ("units", "head", "languages", "complaint"),
    [
        (UNITS + FRENCH, HEAD, None, "the file is in en, de, fr"),
        (UNITS, HEAD, Languages(source="en", target="fr"), "no unit is in en and in fr\n  Its languages: en, de."),
        ("<tu>", HEAD, EN_DE, "not well-formed XML: mismatched tag"),
        ("", "<html><body>", EN_DE, "outermost element is <html>\n  A bilingual file is one of tmx or xliff."),
        ("", '<!DOCTYPE t [<!ENTITY a "b">]><tmx><body>', EN_DE, "the file declares entities"),
        ("", '<!DOCTYPE t [<!ENTITY a SYSTEM "/etc/passwd">]><tmx><body>&a;', EN_DE, "the file declares entities"),
    ],
)
def test_other_files_are_refused(
    units: str, head: str, languages: Languages | None, complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as refused:
        read_pairs(memory(tmp_path, units, head), languages)
    assert complaint in str(refused.value) and "memory.tmx" in str(refused.value)


XLIFF = """<?xml version="1.0"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file original="a" source-language="en-US" target-language="de-DE" datatype="plaintext"><body>
 <trans-unit id="1"><source>Save <g id="1">all</g><x id="2" ctype="lb"/>files<bpt id="3">&lt;b&gt;</bpt></source>
  <target state="translated">Alle <g id="1">Dateien</g> speichern</target>
  <alt-trans><source>Save a file</source><target>Datei speichern</target></alt-trans></trans-unit>
 <trans-unit id="2"><source>Open</source></trans-unit>
 <trans-unit id="3"><source>Close</source><target state="needs-translation">Close it</target></trans-unit>
 <trans-unit id="4"><source>One. Two.</source>
  <seg-source><mrk mtype="seg" mid="1">One.</mrk> <mrk mtype="seg" mid="2">A <mrk mtype="x-term">two</mrk>.</mrk></seg-source>
  <target><mrk mtype="seg" mid="1">Eins.</mrk> <mrk mtype="seg" mid="2">Zwei.</mrk></target></trans-unit>
</body></file></xliff>
"""  # noqa: E501
XLIFF_2 = """<x:xliff xmlns:x="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="de">
<x:file id="f"><x:unit id="u"><x:notes><x:note>not text</x:note></x:notes>
 <x:segment state="final"><x:source>A <x:pc id="1">bold</x:pc> word<x:ph id="2"/></x:source>
  <x:target>Ein <x:pc id="1">fettes</x:pc> Wort</x:target></x:segment>
 <x:ignorable><x:source> </x:source></x:ignorable>
 <x:segment><x:source>Two</x:source><x:target>Zwei</x:target></x:segment>
 <x:segment state="initial"><x:source>Three</x:source><x:target>Machine</x:target></x:segment>
</x:unit></x:file></x:xliff>
"""


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        (XLIFF, [("Save all files", "Alle Dateien speichern"), ("One.", "Eins."), ("A two.", "Zwei.")]),
        (XLIFF_2, [("A bold word", "Ein fettes Wort"), ("Two", "Zwei")]),
    ],
)
def test_xliff_has_the_pairs_that_somebody_has_translated(
    text: str, pairs: list[tuple[str, str]], tmp_path: Path
) -> None:
    (tmp_path / "a.xlf").write_text(text)
    assert read_pairs(tmp_path / "a.xlf", None) == (EN_DE, pairs)


def test_a_corpus_of_bilingual_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    memory(tmp_path)
    Path("a.xlf").write_text(XLIFF)
    source = CorpusSource(bilingual={"train": "memory.tmx", "dev": "a.xlf"})
    corpus = resolve(source, EN_DE, tmp_path)
    assert [*corpus.read("train")] == PAIRS and corpus.size("dev") == 3
    assert resolve(source, EN_DE.reversed, tmp_path).identity() != corpus.identity()
    assert main(["corpora", "get", "a.xlf", "--out", "out"]) == 0, capsys.readouterr().err
    assert [*reading.lines(Path("out/train.target"))] == ["Alle Dateien speichern", "Eins.", "Zwei."]
    assert main(["corpora", "check", "memory.tmx", "--languages", "de-en"]) == 0
    assert main(["corpora", "check", "absent.tmx"]) == 2 and "absent.tmx" in capsys.readouterr().err


def test_a_fit_of_a_memory_is_one_of_its_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUBGRAFT_HOME", str(tmp_path / "home"))
    marian().save_pretrained(tmp_path / "model")
    english_tokenizer().save(tmp_path / "model" / "encoder")
    german_tokenizer().save(tmp_path / "model" / "decoder")
    pairs = zip(english(400, 5), german(400, 5), strict=True)
    memory(
        tmp_path,
        "".join(
            f'<tu><tuv xml:lang="en"><seg>{source}</seg></tuv><tuv xml:lang="de"><seg>{target}</seg></tuv></tu>'
            for source, target in pairs
        ),
    )
    command = ["fit", "model", "--out", "fitted", "--quick", "--plan"]
    assert main([*command, "--pairs", "memory.tmx"]) == 0, capsys.readouterr().err
    assert "400 pairs, en to de" in capsys.readouterr().out
    experiment = load(tmp_path / "fitted" / "fit.yaml", Experiment)
    assert (experiment.languages.source, experiment.languages.target) == ("en", "de")
    assert main([*command, "--pairs", "memory.tmx"]) == 0, "the same memory is the same fit"
    assert main([*command, "--pairs", "memory.tmx", "a", "b"]) == 2 and "two files" in capsys.readouterr().err
