"""Vocabularies with a task's subwords added: what was there stays, and all other text is cut as before."""

from __future__ import annotations

import re
import warnings
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

import subgraft
from old_vocabularies import GERMAN, KINDS, TASK
from published import CHECKPOINTS
from subgraft.base.errors import LossWarning, UserError
from subgraft.data.text import reading
from subgraft.interfaces.cli import main
from subgraft.modeling.tokenizers import load_tokenizers
from subgraft.subwords.vocabulary.alignment import align
from subgraft.subwords.vocabulary.extend import Extender, extend, lengthens_no_text
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.spelling import byte_tokens
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

ADDED = 60


# Their new cuts are old ones, some of whose neighbours are joined.
JOINING = sorted({*KINDS} - {"wordpiece"})


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_there_keeps_its_id_and_its_row(kind: str) -> None:
    old = KINDS[kind]()
    new = extend(old, TASK, ADDED)
    assert len(new) == len(old) + ADDED == len(set(new.pieces))
    assert new.pieces[: len(old)] == old.pieces
    assert (new.special, new.languages, new.byte_ids) == (old.special, old.languages, old.byte_ids)
    alignment = align(old, new)
    assert alignment.origins.tolist() == [*range(len(old)), *[-1] * ADDED]
    assert all(new.ids[entry] == i for entry, i in old.ids.items())


_LAYOUTS = ("gpt2", "Qwen2.5-0.5B", "pythia-70m", "Llama-3.2-1B", "Llama-2-7b", "gemma-2b", "Mistral-7B-v0.1")


@pytest.fixture(scope="module")
def extensions(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Tokenizer, Tokenizer]]:
    """Vocabularies of published decoders, and their extensions."""
    pairs = []
    for name in _LAYOUTS:
        place = tmp_path_factory.mktemp(name)
        CHECKPOINTS[name].publish(place)
        old = load_tokenizers(place)["decoder"]
        assert lengthens_no_text(old)
        pairs.append((old, extend(old, TASK, ADDED)))
    return pairs


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parts=st.lists(st.sampled_from([*TASK[:200], *GERMAN[:100], *" \n\t.,-'"]) | st.text(max_size=12), max_size=8),
    ends=st.lists(st.integers(1, 40), min_size=8, max_size=8),
)
def test_an_extension_of_bpe_lengthens_no_text(
    extensions: list[tuple[Tokenizer, Tokenizer]], parts: list[str], ends: list[int]
) -> None:
    text = "".join(part[:end] for part, end in zip(parts, ends, strict=False))
    for old, new in extensions:
        assert len(new.encode(text)) <= len(old.encode(text)), (old.mark, text)


@pytest.mark.parametrize("kind", KINDS)
def test_text_without_a_new_piece_is_cut_as_before(kind: str) -> None:
    old = KINDS[kind]()
    new = extend(old, TASK, ADDED)
    texts = [*TASK, *GERMAN, "Ω 🙂 naïve", "  two  spaces ", "</s> <mask> [SEP]"]
    cuts = [(_runs_as_one(old, old.encode(text)), _runs_as_one(new, new.encode(text))) for text in texts]
    joined = [after for _, after in cuts if any(token >= len(old) for token in after)]
    assert len(joined) > len(TASK) / 2
    assert all(before == after for before, after in cuts if after not in joined)
    spelled = [text for text in texts if _spells(old, text)]
    assert [old.decode(old.encode(text)) for text in spelled] == [new.decode(new.encode(text)) for text in spelled]


def _spells(tokenizer: Tokenizer, text: str) -> bool:
    """Whether every character has a piece: those that have none get one."""
    return {tokenizer.special.get("unk"), *tokenizer.byte_ids.values()}.isdisjoint(tokenizer.encode(text))


def _runs_as_one(tokenizer: Tokenizer, ids: list[int]) -> list[int]:
    """Without unknown tokens behind one another: how many a text such as "<mask>" has, no vocabulary promises."""
    unknown = tokenizer.special.get("unk")
    return [token for at, token in enumerate(ids) if token != unknown or ids[at - 1 : at] != [unknown]]


@pytest.mark.parametrize("kind", JOINING)
def test_text_with_new_pieces_is_cut_as_before_with_neighbours_joined(kind: str) -> None:
    old = KINDS[kind]()
    new = extend(old, TASK, ADDED)
    texts = [text for text in TASK + GERMAN if kind == "byte-level" or _spells(old, text)]
    assert len(texts) > len(GERMAN) / 2
    before, after = old.encode_with_ends(texts), new.encode_with_ends(texts)
    for (_, old_ends), (ids, new_ends) in zip(before, after, strict=True):
        assert set(new_ends) <= set(old_ends)
        assert len(old_ends) - len(new_ends) >= sum(token >= len(old) for token in ids)
    before_total, after_total = (sum(len(tokenizer.encode(text)) for text in TASK) for tokenizer in (old, new))
    assert after_total < 0.8 * before_total


@pytest.mark.parametrize("kind", KINDS)
def test_most_new_pieces_are_used_and_none_crosses_words(kind: str) -> None:
    new = extend(old := KINDS[kind](), TASK, ADDED, min_count=5)
    counts = dict.fromkeys(range(len(old), len(new)), 0)
    for ids in new.encode_batch(TASK):
        for token in ids:
            counts[token] = counts.get(token, 0) + 1
    rare = [new.pieces[token] for token, count in counts.items() if token >= len(old) and count < 5]
    rare = [piece for piece in rare if len(piece) > 1]  # longer pieces are made of the new characters
    assert len(rare) <= ADDED // (8 if kind == "unigram" else 4)
    added = [entry for entry in new.entries[len(old) :] if entry is not None]
    assert len(added) == ADDED and not [entry for entry in added if " " in entry.surface]


def test_what_cannot_be_spelled_is_part_of_no_new_piece() -> None:
    """A unigram model names an unknown token by the text that it stands for, which may be several characters."""
    old = KINDS["unigram-without-bytes"]()
    lines = [f"({word}… «ж» €{word})" for line in TASK for word in line.split()]
    new = extend(old, lines, 3)  # fewer than the unknown characters
    assert old.encode("(… «ж» €").count(old.special["unk"]) >= 3
    assert all(len(piece) == 1 for piece in new.pieces[len(old) :])


@pytest.mark.parametrize("kind", sorted({*KINDS} - {"byte-level"}))
def test_characters_that_the_vocabulary_lacks_come_first(kind: str) -> None:
    """Also of a script of which it has some letters, symbols and emoji: none of them is unknown any more, or bytes."""
    old = KINDS[kind]()
    lacking = "әғқ" if kind == "llama" else "əɛʉ"
    lines = [
        f"{line} {letter}{symbol} 3{symbol}"
        for line in TASK[:60]
        for letter, symbol in zip(lacking, "→😀₹", strict=True)
    ]
    new = extend(old, lines, 90)
    used = {token for line in lines for token in new.encode(line)}
    assert new.special.get("unk") not in used and used.isdisjoint(new.byte_ids.values())
    assert {*lacking, *"→😀₹"} <= {piece.removeprefix("##") for piece in new.pieces[len(old) :]}
    with pytest.raises(UserError, match="at least 2 times, only") as refused:
        extend(old, lines, 5000)
    possible = int(re.search(r"at most (\d+)", str(refused.value))[1])  # type: ignore[index]
    assert len(extend(old, lines, possible)) == len(old) + possible


_LETTERS = {ord(latin): 0x430 + at for at, latin in enumerate("abcdefghijklmnopqrstuvwxyz")}
CYRILLIC = [re.sub("[^ \u0430-\u044f]", "", line.lower().translate(_LETTERS)) for line in TASK]


@pytest.mark.parametrize("kind", KINDS)
def test_a_script_that_the_vocabulary_lacks_gets_its_letters_and_their_joins(kind: str) -> None:
    """What is cut into bytes, or is unknown, becomes subwords, and other text is cut as before."""
    old = KINDS[kind]()
    new = extend(old, CYRILLIC, 100)
    assert new.pieces[: len(old)] == old.pieces and len(new) == len(old) + 100
    cuts = [token for line in CYRILLIC for token in new.encode(line)]
    assert new.special.get("unk") not in cuts
    if kind != "byte-level":  # of which every character has two, and which joins them as they are
        assert not {*new.byte_ids.values()} & {*cuts}
        assert {"о", "▁о", "##о"} & {*new.pieces}
    assert sum(token >= len(old) for token in cuts) > 0.6 * len(cuts)
    assert len(cuts) < 0.5 * sum(len(line.encode()) for line in CYRILLIC)
    for line in (*TASK, *GERMAN):
        assert _runs_as_one(old, old.encode(line)) == _runs_as_one(new, new.encode(line)), line


@pytest.mark.parametrize("kind", KINDS)
def test_transformers_reads_it(kind: str, tmp_path: Path) -> None:
    new = extend(KINDS[kind](), TASK, ADDED)
    new.save(tmp_path)
    theirs, ours = AutoTokenizer.from_pretrained(tmp_path), Tokenizer.load(tmp_path)
    assert len(theirs) == len(ours) == len(new) and ours.fingerprint == new.fingerprint
    for text in TASK[:30]:
        assert theirs(text, add_special_tokens=False)["input_ids"] == ours.encode(text) == new.encode(text)


@pytest.mark.parametrize("kind", KINDS)
def test_more_than_the_text_has_is_refused_with_what_it_has(kind: str) -> None:
    old = KINDS[kind]()
    with pytest.raises(UserError, match="does not support 5000 new subwords that occur at least 30 times") as refused:
        extend(old, TASK, 5000, min_count=30)
    possible = int(refused.value.hint.split()[4].rstrip(","))
    assert len(extend(old, TASK, possible, min_count=30)) == len(old) + possible


@pytest.mark.parametrize("kind", KINDS)
def test_extensions_of_words_that_were_counted_once_are_the_same(kind: str) -> None:
    old = KINDS[kind]()
    extender = Extender.of(old, TASK)
    for added, min_count in ((ADDED, 2), (10, 30)):
        assert extender.extend(added, min_count).fingerprint == extend(old, TASK, added, min_count).fingerprint
    largest = extender.extend_at_most(5000, 30)
    assert largest.fingerprint == extend(old, TASK, len(largest) - len(old), 30).fingerprint
    assert extender.extend_at_most(5000, 10**6) is old


@pytest.mark.data
def test_published_like_sizes_keep_real_text_as_it_was(mirror: Path) -> None:
    """A unigram of thousands: near ties are where its old cuts could move."""
    everyday = list(islice(reading.lines(mirror / "en-fr/tatoeba/train.fr.gz"), 8000))
    manual = list(islice(reading.lines(mirror / "en-fr/itdocs/train.fr.gz"), 3000))
    old = learn(everyday, kind="unigram", size=4000, byte_fallback=True)
    new = extend(old, manual, 1000)
    before, after = old.encode_with_ends(everyday + manual), new.encode_with_ends(everyday + manual)
    spelled = byte_tokens(old)  # bytes of neighbouring characters all end where the last of these characters ends
    known = [(o, n) for (ids, o), (_, n) in zip(before, after, strict=True) if spelled.isdisjoint(ids)]
    moved = sum(not set(n) <= set(o) for o, n in known)
    assert len(known) > 8000 and moved <= 0.002 * len(known)
    assert sum(len(ids) for ids, _ in after) < 0.9 * sum(len(ids) for ids, _ in before)


def test_characters_that_remain_unknown_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = KINDS["unigram-without-bytes"]()
    old.save(tmp_path / "old")
    (tmp_path / "text").write_text("ə ə ə 数 数 ☃\n", encoding="utf-8")
    command = ["vocab", "extend", str(tmp_path / "old"), "--text", str(tmp_path / "text"), "--add", "1"]
    assert main([*command, "--out", str(tmp_path / "new")]) == 0
    message = capsys.readouterr().err
    assert message.startswith("warning: still unknown, the most frequent first: 数 ☃; ") and message.count("\n") == 1
    with pytest.warns(LossWarning, match="still unknown, the most frequent first: 数 ☃;"):
        subgraft.extend(old, iter(["ə ə ə", "数 数 ☃"]), add=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LossWarning)
        subgraft.extend(old, ["ə ə ə 数 数 ☃"], add=3, min_count=1)


def test_pruning_leaves_as_many_tokens_as_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = KINDS["byte-level"]()
    old.save(tmp_path / "old")
    text = tmp_path / "text.txt"
    text.write_text("".join(f"{line}\n" for line in TASK), encoding="utf-8")
    arguments = ["vocab", "extend", str(tmp_path / "old"), "--text", str(text), "--add", "20", "--prune"]
    assert main([*arguments, "--out", str(tmp_path / "pruned")]) == 0
    assert "20 subwords added" in (said := capsys.readouterr().out) and "it may use what was dropped" in said
    pruned = Tokenizer.load(tmp_path / "pruned")
    assert f"and {len(old) + 20 - len(pruned)} unused ones dropped" in said and len(pruned) < len(old) + 20
    assert subgraft.extend(old, iter(TASK), add=20, prune=True).fingerprint == pruned.fingerprint
    for line in TASK:
        assert pruned.decode(pruned.encode(line)) == line and len(pruned.encode(line)) <= len(old.encode(line))
