"""Text that a new vocabulary changes and the old one gives back is counted, shown, and refused in quantity."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from tokenizers import normalizers

import subgraft
from subgraft.base.errors import ArgumentError, LossWarning, UserError
from subgraft.config.settings_base import MAX_LOST_LINES, VocabularyKind
from subgraft.interfaces.cli import main
from subgraft.subwords.vocabulary import lost_text as module
from subgraft.subwords.vocabulary.learn import SampledLines, learn, sample
from subgraft.subwords.vocabulary.lost_text import LostText, lost_probes, lost_text
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from vocabularies import byte_level, invented, with_room, wordpiece

PLAIN = [line.rstrip(".!?") for line in invented(200) if "," not in line]
SPECIAL = [
    "می\u200cخواهم این کتاب\u200cها را",  # zero-width non-joiners
    "read\tthe  farm",
    "    if farm",
    "e\u0300ko\u0323",  # decomposed letters
    "paint\u00a0: sing",
    "\u202eread",  # would change the direction of a terminal
]
TEXT = [*PLAIN, *SPECIAL * 5]
OLD = byte_level(TEXT, 300)
KINDS: tuple[VocabularyKind, ...] = get_args(VocabularyKind)


def learnt(kind: VocabularyKind) -> Tokenizer:
    return learn(TEXT, kind=kind, size=with_room(kind, 200 if kind != "unigram" else 130))


@pytest.mark.parametrize("kind", KINDS)
def test_lines_are_counted_that_only_the_new_vocabulary_changes(kind: VocabularyKind) -> None:
    new = learnt(kind)
    expected = [line for line in TEXT if new.decode(new.encode(line)) not in (line, f" {line}", line.removeprefix(" "))]
    lost = lost_text(OLD, new, iter(TEXT))
    assert (lost.lines, lost.lost) == (len(TEXT), len(expected))
    assert (lost.lost == 0) is (kind == "byte-level-bpe")
    assert lost.share == pytest.approx(len(expected) / len(TEXT))


def test_lost_characters_are_named_and_examples_are_readable() -> None:
    lost = lost_text(OLD, learnt("unigram"), SPECIAL)
    assert {"tabs", "spaces", "U+200C ZERO WIDTH NON-JOINER", "decomposed letters (NFD)"} <= set(lost.characters)
    deleting = wordpiece(["read"], normalizers.BertNormalizer(lowercase=False))
    message = str(lost_text(OLD, deleting, SPECIAL[-1:]))
    assert r"'\u202eread' becomes 'read'" in message and message.isprintable()
    long = lost_text(OLD, learnt("unigram"), [f"{'read ' * 40}\t{'farm ' * 40}"])
    ((before, after),) = long.examples
    assert r"\t" in before and len(before) < 60 > len(after) and before.startswith("'…") and before.endswith("…'")


def test_what_the_old_vocabulary_changes_too_is_not_lost() -> None:
    pieces = ["read", "farm", *"readfm", *(f"##{letter}" for letter in "readfm")]
    uncased, cased = wordpiece(pieces, normalizers.Lowercase()), wordpiece(pieces)
    assert lost_text(uncased, cased, ["Read farm", "read farm"]) == LostText(2, 0)
    folding = learnt("unigram")
    assert folding.decode(folding.encode("m²\t½")) != "m²\t½"
    assert lost_text(folding, learnt("unigram"), ["m²\t½", "read\tfarm"]).lost == 0


def test_white_space_at_the_end_of_lines_is_not_text() -> None:
    assert lost_text(OLD, learnt("unigram"), ["read farm  ", "read farm\t"]).lost == 0


def test_few_lines_are_a_warning_and_many_are_refused_unless_that_is_allowed() -> None:
    few, many = LostText(200, 2, ("tabs",), (("'a\\tb'", "'a b'"),)), LostText(200, 3)
    assert few.warning(MAX_LOST_LINES, "max_lost_lines").startswith("the new vocabulary changes 2 of 200 lines (1.0%)")
    with pytest.raises(UserError, match=r"max_lost_lines: .*3 of 200(?s:.*)allow the loss"):
        many.warning(MAX_LOST_LINES, "max_lost_lines")
    assert "3 of 200" in many.warning(1.0, "max_lost_lines")
    with pytest.raises(UserError, match="2 of 200"):
        few.warning(0.0, "max_lost_lines")
    assert LostText(200, 0).warning(0.0, "max_lost_lines") == "" == LostText(0, 0).warning(0.0, "max_lost_lines")


def test_of_a_long_text_a_sample_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SAMPLE", 50)
    assert lost_text(OLD, learnt("unigram"), TEXT).lines == 50
    lines = SampledLines(iter(TEXT), 50)
    assert list(lines) == TEXT and lines.sample == sample(TEXT, 50, seed=1)


def test_probes_name_what_is_lost_where_there_is_no_text() -> None:
    message = lost_probes(OLD, learnt("unigram"))
    assert all(what in message for what in ("line ends", "tabs", "runs of spaces", "zero-width non-joiners", "½"))
    assert lost_probes(OLD, byte_level(PLAIN, 280)) == "" == lost_probes(learnt("unigram"), OLD)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a byte-level vocabulary, with a file of text."""
    OLD.save(tmp_path / "old")
    (tmp_path / "text.txt").write_text("".join(f"{line}\n" for line in TEXT), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_commands_refuse_a_loss_and_warn_of_one_that_is_allowed(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["vocab", "learn", "--text", "text.txt", "--size", "220", "--kind", "wordpiece", "--like", "old"]
    assert main([*command, "--out", "new"]) == 2
    refused = capsys.readouterr().err
    assert "--max-lost-lines: the new vocabulary changes" in refused and "tabs" in refused
    assert sorted(path.name for path in model.iterdir()) == ["old", "text.txt"]
    assert main([*command, "--out", "new", "--max-lost-lines", "1"]) == 0
    message = capsys.readouterr()
    assert message.err.startswith("warning: the new vocabulary changes") and "written to new" in message.out
    assert main(["vocab", "compare", "old", "new", "--text", "text.txt"]) == 0
    assert "In a sample the new vocabulary changes" in " ".join(capsys.readouterr().out.split())
    assert main(["vocab", "learn", "--text", "text.txt", "--size", "220", "--kind", "wordpiece", "--out", "own"]) == 0
    assert capsys.readouterr().err == "", "without a model there is nothing to lose"


def test_functions_refuse_a_loss_and_warn_of_one_that_is_allowed() -> None:
    with pytest.raises(ArgumentError, match="max_lost_lines: the new vocabulary changes"):
        subgraft.learn_vocabulary(iter(TEXT), size=220, kind="wordpiece", like=OLD)
    with pytest.warns(LossWarning, match="tabs") as caught:
        subgraft.learn_vocabulary(iter(TEXT), size=220, kind="wordpiece", like=OLD, max_lost_lines=1)
    assert [warning.filename for warning in caught] == [__file__]
    with pytest.raises(ArgumentError, match="max_lost_lines: expected a number from 0 to 1"):
        subgraft.extend(OLD, TEXT, add=5, max_lost_lines=2)
    assert len(subgraft.extend(OLD, TEXT, add=5, max_lost_lines=0)) == len(OLD) + 5
    assert len(subgraft.trim(OLD, TEXT, max_lost_lines=0)) <= len(OLD)
