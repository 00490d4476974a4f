from __future__ import annotations

import json
from pathlib import Path

import pytest
from transformers import BertTokenizer, GPT2Tokenizer, MarianTokenizer, MBartTokenizer

from subgraft.base.errors import UserError
from subgraft.modeling.tokenizers import load_tokenizers, save_tokenizers
from subgraft.subwords.vocabulary.sentencepiece_model import parse
from toys import (
    english,
    english_tokenizer,
    fitted_tokenizer,
    german,
    german_tokenizer,
    multilingual_tokenizer,
    publish_bert,
    publish_marian,
    publish_mbart,
    write_config,
)


def test_one_tokenizer_lies_at_the_root_and_two_in_folders(tmp_path: Path) -> None:
    shared, split = tmp_path / "shared", tmp_path / "split"
    both = multilingual_tokenizer()
    save_tokenizers({"encoder": both, "decoder": both}, shared)
    write_config(shared, "mbart")
    save_tokenizers({"encoder": english_tokenizer(), "decoder": german_tokenizer()}, split)
    write_config(split, "marian")
    assert not (shared / "encoder").exists()
    result = load_tokenizers(shared)
    assert result["encoder"] is result["decoder"]
    assert result["encoder"].fingerprint == both.fingerprint
    result = load_tokenizers(split)
    assert result["encoder"].fingerprint == english_tokenizer().fingerprint
    assert result["decoder"].fingerprint == german_tokenizer().fingerprint


def test_a_decoder_alone_has_one_tokenizer(tmp_path: Path) -> None:
    save_tokenizers({"decoder": german_tokenizer()}, tmp_path)
    write_config(tmp_path, "gpt2")
    assert set(load_tokenizers(str(tmp_path))) == {"decoder"}


def test_what_is_not_a_model_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such model directory"):
        load_tokenizers(tmp_path / "absent")
    with pytest.raises(UserError, match=r"no config\.json"):
        load_tokenizers(tmp_path)
    write_config(tmp_path, "marian")
    with pytest.raises(UserError, match=r"no vocabulary here|cannot be read"):
        load_tokenizers(tmp_path)
    write_config(tmp_path, "blenderbot")
    with pytest.raises(UserError, match=r"bart, bert, .*, gpt2, gpt_neox, .*llama, .*, qwen2"):
        load_tokenizers(tmp_path)
    write_config(tmp_path, "encoder-decoder")
    with pytest.raises(UserError, match="only encoder-decoders of two encoders"):
        load_tokenizers(tmp_path)


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_published_marian_gives_the_ids_that_transformers_gives(kind: str, separate: bool, tmp_path: Path) -> None:
    publish_marian(tmp_path, kind=kind, separate=separate)
    reference = MarianTokenizer.from_pretrained(tmp_path)
    result = load_tokenizers(tmp_path)
    sources = [*english(200, seed=9), "thankful §x neighbour", "word  with   spaces "]
    targets = [*german(200, seed=9), "dankbar §x Nachbar", "  Wort  "]
    expected = [ids[:-1] for ids in reference(sources).input_ids]
    assert result["encoder"].encode_batch(sources) == expected
    expected = [ids[:-1] for ids in reference(text_target=targets).input_ids]
    assert result["decoder"].encode_batch(targets) == expected
    assert {role: result["decoder"].pieces[i] for role, i in result["decoder"].special.items()} == {
        "eos": "</s>",
        "unk": "<unk>",
        "pad": "<pad>",
    }
    text = german(1, seed=3)[0]
    assert result["decoder"].decode(result["decoder"].encode(text)) == text


def test_a_piece_of_the_other_language_never_cuts_a_word_of_ones_own(tmp_path: Path) -> None:
    publish_marian(tmp_path, kind="unigram", separate=False)
    result = load_tokenizers(tmp_path)["encoder"]
    own = {piece.piece for piece in parse((tmp_path / "source.spm").read_bytes()).pieces}
    foreign = {i for i, piece in enumerate(result.pieces) if piece not in own and i not in result.special_ids}
    assert len(foreign) > 20
    letters = {character for piece in own for character in piece}
    mixed = [*english(50, seed=9), *("".join(c for c in line if c in letters) for line in german(50, seed=9))]
    assert foreign.isdisjoint(i for ids in result.encode_batch(mixed) for i in ids)
    known = [i for i, piece in enumerate(result.pieces) if piece in own]
    assert min(result.frequency_rank[i] for i in foreign) > max(result.frequency_rank[i] for i in known)


def test_a_control_piece_that_is_numbered_is_not_text(tmp_path: Path) -> None:
    """SentencePiece cuts nothing into <s>, whatever a text spells."""
    publish_marian(tmp_path, kind="unigram", separate=False)
    ids = json.loads((tmp_path / "vocab.json").read_text(encoding="utf-8"))
    (tmp_path / "vocab.json").write_text(json.dumps({**ids, "<s>": len(ids)}), encoding="utf-8")
    result, reference = load_tokenizers(tmp_path)["encoder"], MarianTokenizer.from_pretrained(tmp_path)
    assert result.special["bos"] == len(ids)
    assert result.encode("a <s> b") == reference("a <s> b").input_ids[:-1]


def test_a_published_marian_survives_saving_in_our_layout(tmp_path: Path) -> None:
    publish_marian(tmp_path / "published", kind="unigram", separate=False)
    result = load_tokenizers(tmp_path / "published")
    save_tokenizers(result, tmp_path / "ours")
    write_config(tmp_path / "ours", "marian")
    again = load_tokenizers(tmp_path / "ours")
    for side in ("encoder", "decoder"):
        assert again[side].fingerprint == result[side].fingerprint


@pytest.mark.parametrize(
    ("broken", "complaint"), [("{", r"vocab\.json: not JSON"), ('{"</s>": 0, "<unk>": 5, "<pad>": 2}', "ids are not")]
)
def test_a_broken_numbering_is_reported(broken: str, complaint: str, tmp_path: Path) -> None:
    publish_marian(tmp_path, kind="unigram", separate=False)
    (tmp_path / "vocab.json").write_text(broken)
    with pytest.raises(UserError, match=complaint):
        load_tokenizers(tmp_path)


def test_a_published_mbart_is_read_with_its_offset_and_language_codes(tmp_path: Path) -> None:
    publish_mbart(tmp_path)
    result = load_tokenizers(tmp_path)["decoder"]
    assert [result.special[role] for role in ("bos", "pad", "eos", "unk")] == [0, 1, 2, 3]
    assert len(result.languages) == 25
    assert result.special["mask"] == len(result) - 1
    text = german(1, seed=3)[0]
    assert result.decode(result.encode(text)) == text
    reference = MBartTokenizer.from_pretrained(tmp_path)
    assert len(result) == len(reference)
    assert result.encode(text) == reference(text, add_special_tokens=False).input_ids
    assert result.languages["de_DE"] == reference.convert_tokens_to_ids("de_DE")


@pytest.mark.parametrize("pretraining", [False, True])
def test_a_published_bert_gives_the_ids_that_transformers_gives(pretraining: bool, tmp_path: Path) -> None:
    publish_bert(tmp_path, pretraining=pretraining)
    assert not (tmp_path / "tokenizer.json").exists()
    result, reference = load_tokenizers(tmp_path), BertTokenizer.from_pretrained(tmp_path)
    assert result["encoder"] is result["decoder"]
    tokenizer = result["decoder"]
    texts = [*english(100, seed=9), *german(100, seed=9), "Thankful, neighbour §x!", "  a   b "]
    assert tokenizer.encode_batch(texts) == reference(texts, add_special_tokens=False).input_ids
    special = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    assert {role: tokenizer.pieces[tokenizer.special[role]] for role in special} == special
    assert (tokenizer.special["bos"], tokenizer.special["eos"]) == (reference.cls_token_id, reference.sep_token_id)


def test_a_published_gpt2_is_read(tmp_path: Path) -> None:
    from tokenizers import ByteLevelBPETokenizer

    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator([*german(), "Straße"], vocab_size=330, special_tokens=["<|endoftext|>"])
    trained.save_model(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["merges.txt", "vocab.json"]
    write_config(tmp_path, "gpt2")
    result = load_tokenizers(tmp_path)["decoder"]
    reference = GPT2Tokenizer.from_pretrained(tmp_path)
    for text in ("dankbar freundlich", "Straße  ☃"):
        assert result.encode(text) == reference(text).input_ids
        assert result.decode(result.encode(text)) == text
    assert result.special["eos"] == result.special["bos"] == reference.eos_token_id


def test_a_learnt_vocabulary_fits_the_multilingual_model() -> None:
    upstream, fitted = multilingual_tokenizer(), fitted_tokenizer()
    assert set(fitted.languages) == set(upstream.languages)
    assert set(fitted.special) == set(upstream.special)
