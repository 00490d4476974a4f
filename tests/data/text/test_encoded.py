"""Encoded text: equal to what the vocabulary gives, made once, shared, and made again where it is damaged."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from subgraft.base.errors import UserError
from subgraft.data.text import encoded
from subgraft.data.text.encoded import encode, entries
from subgraft.data.text.segments import Text
from subgraft.subwords.vocabulary.tokenizer import SENTENCEPIECE_MIN_TEXTS, Tokenizer
from toys import english, english_tokenizer, german_tokenizer


class Counting:
    """A vocabulary that counts the texts it is asked for."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer, self.digest, self.fingerprint = tokenizer, tokenizer.digest, tokenizer.fingerprint
        self.texts = 0

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        self.texts += len(texts)
        return self._tokenizer.encode_batch(texts)


def written(folder: Path, lines: Sequence[str]) -> Text:
    (folder / "train.source").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return Text(folder / "train.source", folder / "cache")


def test_what_is_mapped_is_what_the_vocabulary_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded, "_AT_ONCE", 7)
    lines = ["", *english(100), "</s> 家"]
    text, tokenizer = written(tmp_path, lines), english_tokenizer()
    expected = tokenizer.encode_batch(lines)
    for result in (encode(text, tokenizer), encode(lines, tokenizer), encode(text, tokenizer)):
        assert [result.sequences[at] for at in range(len(lines))] == expected
        assert result.characters.tolist() == [len(line) for line in lines]
        assert result.sequences.lengths.tolist() == [len(tokens) for tokens in expected]
    places = np.array([5, 3, 90, *range(30, 60)])
    chosen = encode(text.take(places), tokenizer)
    assert [chosen.sequences[at] for at in range(len(places))] == [expected[place] for place in places]


def test_it_is_encoded_once_for_each_text_and_vocabulary(tmp_path: Path) -> None:
    text, first = written(tmp_path, english(50)), Counting(english_tokenizer())
    for _ in range(3):
        encode(Text(text.path, text.cache), first)
    assert first.texts == 50
    second = Counting(german_tokenizer())
    encode(text, second)
    assert second.texts == 50
    changed = Counting(english_tokenizer())
    encode(written(tmp_path, english(51)), changed)
    assert changed.texts == 51
    assert len(list(entries(tmp_path / "cache"))) == 3
    few = Counting(german_tokenizer(100))
    encode(text.take(np.array([1, 2])), few)
    assert few.texts == 2, "a small part is not worth the whole"


def test_files_are_the_same_however_many_cores_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded, "_AT_ONCE", SENTENCEPIECE_MIN_TEXTS)
    lines = [*english(4 * SENTENCEPIECE_MIN_TEXTS), "</s> 家", "e\u0301", *english(SENTENCEPIECE_MIN_TEXTS, 7)]
    tokenizer, made = english_tokenizer(), list[dict[str, bytes]]()
    assert tokenizer.sentencepiece_model is not None
    for cores in (1, 2, 3):
        monkeypatch.setenv("RAYON_NUM_THREADS", str(cores))
        folder = tmp_path / str(cores)
        folder.mkdir()
        text = written(folder, lines)
        encode(text, tokenizer)
        (entry,) = entries(folder / "cache")
        made.append({path.name: path.read_bytes() for path in entry.directory.iterdir()})
    assert made[0] == made[1] == made[2]


def test_a_mistake_in_a_later_chunk_comes_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(Counting):
        def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
            if "the one" in texts:
                raise UserError("this vocabulary cannot segment the text")
            return super().encode_batch(texts)

    monkeypatch.setattr(encoded, "_AT_ONCE", 10)
    monkeypatch.setenv("RAYON_NUM_THREADS", "2")
    text = written(tmp_path, [*english(45), "the one", *english(200)])
    with pytest.raises(UserError, match="cannot segment"):
        encode(text, Failing(english_tokenizer()))
    assert not list(entries(tmp_path / "cache"))


@pytest.mark.parametrize("damage", ["ids.bin", "bounds.bin", "characters.bin", "record.json"])
def test_what_is_damaged_is_made_again(tmp_path: Path, damage: str) -> None:
    text, tokenizer = written(tmp_path, english(20)), english_tokenizer()
    expected = encode(text, tokenizer).sequences
    tokens = [expected[at] for at in range(20)]
    (entry,) = entries(tmp_path / "cache")
    path = entry.directory / damage
    path.write_bytes(path.read_bytes()[:-8] + b"\0" * 4)
    again = encode(text, tokenizer).sequences
    assert [again[at] for at in range(20)] == tokens


def test_remains_of_a_killed_process_are_swept(tmp_path: Path) -> None:
    text, tokenizer = written(tmp_path, english(20)), english_tokenizer()
    encode(text, tokenizer)
    (entry,) = entries(tmp_path / "cache")
    left = entry.directory.with_name(f"{entry.directory.name}.partial-0000")
    left.mkdir()
    (entry.directory / "record.json").unlink()
    encode(text, tokenizer)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [entry.directory.name]


def _encode_in_a_process(path: Path, cache: Path, results: multiprocessing.Queue[tuple[int, int]]) -> None:
    counting = Counting(english_tokenizer())
    result = encode(Text(path, cache), counting)
    results.put((counting.texts, int(result.sequences.flat.sum())))


def test_of_several_processes_one_encodes_and_the_others_wait(tmp_path: Path) -> None:
    text = written(tmp_path, english(400))
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    english_tokenizer()
    workers = [context.Process(target=_encode_in_a_process, args=(text.path, text.cache, results)) for _ in range(3)]
    for worker in workers:
        worker.start()
    message = [results.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    assert sorted(texts for texts, _ in message) == [0, 0, 400]
    assert len({total for _, total in message}) == 1
