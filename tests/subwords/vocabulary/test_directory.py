from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import sentencepiece

from subgraft.base.errors import UserError
from subgraft.subwords.vocabulary.entry import Entry, Mark
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from vocabularies import byte_level, invented


def _sentencepiece_model(size: int = 120) -> bytes:
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(invented(600)), model_writer=written, vocab_size=size, minloglevel=2
    )
    return written.getvalue()


def test_bert_as_published(tmp_path: Path) -> None:
    learnt = learn(invented(600), kind="wordpiece", size=150)
    (tmp_path / "vocab.txt").write_text("\n".join(learnt.pieces) + "\n")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    read = Tokenizer.load(tmp_path)
    assert read.mark is Mark.WORDPIECE
    assert read.special == learnt.special
    assert read.encode_batch(invented(50, seed=2)) == learnt.encode_batch(invented(50, seed=2))


def test_gpt2_as_published(tmp_path: Path) -> None:
    learnt = byte_level(invented(600), 400)
    model = json.loads(learnt.backend.to_str())["model"]
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "\n".join(map(" ".join, model["merges"])) + "\n")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    read = Tokenizer.load(tmp_path)
    assert read.mark is Mark.BYTELEVEL
    assert read.special["eos"] == learnt.special["eos"]
    assert read.encode_batch(invented(50, seed=2)) == learnt.encode_batch(invented(50, seed=2))


def test_mbart_as_published(tmp_path: Path) -> None:
    (tmp_path / "sentencepiece.bpe.model").write_bytes(_sentencepiece_model())
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "mbart"}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MBartTokenizer"}))
    read = Tokenizer.load(tmp_path)
    assert read.mark is Mark.SENTENCEPIECE
    assert [read.special[role] for role in ("bos", "pad", "eos", "unk")] == [0, 1, 2, 3]
    assert len(read.languages) == 25 and read.languages["ro_RO"] in read.special_ids
    assert read.special["mask"] == len(read) - 1
    processor = sentencepiece.SentencePieceProcessor(model_proto=_sentencepiece_model())
    for text in invented(50, seed=2):
        assert [read.pieces[i] for i in read.encode(text)] == processor.encode(text, out_type=str)


def test_a_bare_sentencepiece_model(tmp_path: Path) -> None:
    (tmp_path / "spiece.model").write_bytes(_sentencepiece_model())
    read = Tokenizer.load(tmp_path)
    assert read.special == {"unk": 0, "bos": 1, "eos": 2}
    assert read.segment(Entry("farm", True))


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "sentencepiece.model"])
def test_broken_files(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"version": "1.0", ')
    with pytest.raises(UserError) as caught:
        Tokenizer.load(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_directories_without_a_vocabulary(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such directory"):
        Tokenizer.load(tmp_path / "absent")
    with pytest.raises(UserError, match="no vocabulary here"):
        Tokenizer.load(tmp_path)
    word_level = {"version": "1.0", "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(word_level))
    with pytest.raises(UserError, match="a WordLevel vocabulary"):
        Tokenizer.load(tmp_path)
