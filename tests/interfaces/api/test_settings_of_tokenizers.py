"""What a published tokenizer and a generation configuration say is the same after every change of the vocabulary."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

import subgraft
from published import CHECKPOINTS, english, german
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.transformers import export_transformers
from subgraft.modeling.families import family_of
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

TEXT = [*english(300), *german(300)]
FIRST, SECOND = "Thank you very much", "my friend"
STATED = {
    "truncation_side": "left",
    "model_max_length": 48,
    "clean_up_tokenization_spaces": True,
    "a_setting_of_somebody": [1, 2],
}
LAYOUTS = (
    "bert-base-multilingual-cased",
    "ModernBERT-base",
    "deberta-v3-base",
    "roberta-base",
    "xlm-roberta-base",
    "bart-base",
    "t5-small",
    "pegasus-xsum",
    "mbart-large-50",
    "nllb-200-distilled-600M",
    "gpt2",
    "Llama-2-7b",
    "Llama-3.2-1B",
    "Qwen2.5-0.5B-Instruct",
    "gemma-2-2b",
    "Phi-3-mini-4k-instruct",
    "opt-125m",
)
# Their exports begin texts with a token that their tokenizers leave to users.
PADDED = "first of a padded text"
BEGUN = {"gpt2", "Llama-3.2-1B", "Qwen2.5-0.5B-Instruct"}


def _published(name: str, directory: Path, **stated: Any) -> Path:
    """A checkpoint whose tokenizer_config.json has these settings as well."""
    CHECKPOINTS[name].publish(directory)
    file = directory / "tokenizer_config.json"
    settings = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    file.write_text(json.dumps({**settings, **stated}), encoding="utf-8")
    return directory


def _loaded(directory: Path, name: str) -> Any:
    return AutoTokenizer.from_pretrained(directory, **CHECKPOINTS[name].settings)


def _around(tokenizer: Any, *texts: str) -> list[Any]:
    """The special tokens of a text or pair, each with its segment, and the text between them as one."""
    read = tokenizer(*texts)
    types = read.get("token_type_ids", [0] * len(read["input_ids"]))
    pieces = tokenizer.convert_ids_to_tokens(read["input_ids"])
    special = {tokenizer.convert_ids_to_tokens(i) for i in tokenizer.all_special_ids}
    return [key for key, _ in groupby(zip((p if p in special else "text" for p in pieces), types, strict=True))]


def _said(tokenizer: Any, *, begun: bool = False) -> Mapping[str, Any]:
    batch = tokenizer([FIRST, f"{FIRST} {SECOND}"], padding=True) if tokenizer.pad_token else {}
    around = {} if begun else {"single": _around(tokenizer, FIRST), "pair": _around(tokenizer, FIRST, SECOND)}
    return {
        **around,
        "end": tokenizer(FIRST, return_offsets_mapping=True, add_special_tokens=False)["offset_mapping"][-1][1],
        PADDED: batch["attention_mask"][0][0] if batch else None,
        "inputs": set(tokenizer.model_input_names),
        "further special tokens": set(tokenizer.extra_special_tokens) - set(tokenizer.special_tokens_map.values()),
        "roles": dict(tokenizer.special_tokens_map),
        "template": tokenizer.chat_template,
        "sides": (tokenizer.padding_side, tokenizer.truncation_side),
        "length": tokenizer.model_max_length,
        "clean up": tokenizer.clean_up_tokenization_spaces,
    }


def _same(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether all is the same; a vocabulary may have a further role."""
    assert new == {**old, "roles": {**new["roles"], **old["roles"]}}
    return True


def _changed(model: Path, vocabulary: Tokenizer, out: Path) -> Path:
    family = family_of(json.loads((model / "config.json").read_text(encoding="utf-8")))
    subgraft.transfer(model, vocabulary, sides=family.sides).write(out)
    return out


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_door_leaves_the_settings_as_they_are(name: str, tmp_path: Path) -> None:
    model = _published(name, tmp_path / "model", **STATED)
    expected = _said(_loaded(model, name))
    assert expected["sides"][1] == "left" and expected["length"] == 48
    extended, trimmed = subgraft.extend(model, TEXT, add=20), subgraft.trim(model, TEXT)
    for vocabulary, door in ((extended, "extend"), (trimmed, "trim")):
        vocabulary.save(tmp_path / door / "vocabulary")
        changed = _changed(model, Tokenizer.load(tmp_path / door / "vocabulary"), tmp_path / door / "model")
        assert _same(_said(_loaded(changed, name)), expected), door
        assert json.loads((changed / "tokenizer_config.json").read_text("utf-8"))["a_setting_of_somebody"] == [1, 2]
    for source, door in ((model, "export"), (tmp_path / "extend" / "model", "export of the extended")):
        (tmp_path / door).mkdir()
        export_transformers(source, tmp_path / door, CHECKPOINTS[name].languages)
        exported = _said(_loaded(tmp_path / door, name), begun=name in BEGUN)
        assert _same(exported, {key: expected[key] for key in exported}), door


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_graft_reads_as_the_tokenizer_that_was_given(name: str, tmp_path: Path) -> None:
    model = _published(name, tmp_path / "model", **STATED)
    bundle, tokenizer = Bundle.load(model), _loaded(model, name)
    tokenizer.padding_side = "left" if tokenizer.padding_side == "right" else "right"  # which it does not save
    expected = _said(tokenizer)
    for mode in ("replace", "extend"):
        size = 20 if mode == "extend" else 800
        grafted = subgraft.graft(
            bundle.model, tokenizer, TEXT, mode=mode, size=size, languages=CHECKPOINTS[name].languages
        )
        known = set(grafted.tokenizer.get_vocab())
        further = "further special tokens"
        wanted = {**expected, further: expected[further] & known} | ({} if tokenizer.pad_token else {PADDED: None})
        if mode == "replace" and tokenizer.unk_token == tokenizer.eos_token:  # which a new vocabulary distinguishes
            wanted["roles"] = {role: token for role, token in expected["roles"].items() if role != "unk_token"}
        grafted.tokenizer.save_pretrained(tmp_path / mode)
        for after in (grafted.tokenizer, AutoTokenizer.from_pretrained(tmp_path / mode)):
            said = _said(after)
            assert _same(said if tokenizer.pad_token else {**said, PADDED: None}, wanted), mode


SETTINGS = ("bad_words_ids", "force_words_ids", "sequence_bias", "suppress_tokens", "begin_suppress_tokens")


def _with_generation_settings(model: Path) -> dict[str, Any]:
    """A model's generation settings, now with ids in all forms: of ordinary tokens, and of the mark of a word alone."""
    own = Bundle.load(model).decoder
    mark = own.pieces.index(own.mark.value)
    first, second, third = (own.encode(word)[-1] for word in ("friend", "book", "wrote"))
    file = model / "generation_config.json"
    settings: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) | {
        "bad_words_ids": [[mark], [first, mark, second]],
        "force_words_ids": [[second], [[first], [mark, third]]],
        "sequence_bias": [[[first, mark], -5.0], [[third], 2.5]],
        "suppress_tokens": [first, mark],
        "begin_suppress_tokens": [third],
        "forced_eos_token_id": own.special["eos"],
        "max_new_tokens": 12,
    }
    file.write_text(json.dumps(settings), encoding="utf-8")
    return settings


def _in_pieces(value: Any, pieces: Sequence[str]) -> Any:
    if isinstance(value, list):
        return [_in_pieces(each, pieces) for each in value]
    return pieces[value] if isinstance(value, int) else value


@pytest.mark.parametrize("name", ["bart-base", "gpt2", "Llama-2-7b", "Qwen2.5-0.5B-Instruct"])
def test_ids_in_generation_settings_follow_their_tokens(name: str, tmp_path: Path) -> None:
    model = _published(name, tmp_path / "model")
    settings, old = _with_generation_settings(model), Bundle.load(model).decoder
    expected = {key: _in_pieces(settings[key], old.pieces) for key in (*SETTINGS, "forced_eos_token_id")}
    for vocabulary, door in ((subgraft.extend(model, TEXT, add=20), "extend"), (subgraft.trim(model, TEXT), "trim")):
        changed = _changed(model, vocabulary, tmp_path / door)
        (tmp_path / f"{door} exported").mkdir()
        export_transformers(changed, tmp_path / f"{door} exported")
        for written in (changed, tmp_path / f"{door} exported"):
            settings_after = json.loads((written / "generation_config.json").read_text(encoding="utf-8"))
            assert {key: _in_pieces(settings_after[key], vocabulary.pieces) for key in expected} == expected, written
            assert settings_after["max_new_tokens"] == 12 and settings_after.get("max_length") is None


def test_settings_about_tokens_that_a_vocabulary_lacks_are_named(tmp_path: Path, capsys: Any) -> None:
    model = _published("Llama-2-7b", tmp_path / "model")
    lost = next(i for i, piece in enumerate(Bundle.load(model).decoder.pieces) if len(piece) > 4 and piece.isalpha())
    file = model / "generation_config.json"
    bias = {"sequence_bias": [[[lost], -1.0]], "suppress_tokens": [lost]}
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | bias), encoding="utf-8")
    piece = Bundle.load(model).decoder.pieces[lost]
    changed = _changed(model, subgraft.trim(model, [line for line in TEXT if piece not in line]), tmp_path / "out")
    settings_after = json.loads((changed / "generation_config.json").read_text(encoding="utf-8"))
    assert "sequence_bias" not in settings_after and "suppress_tokens" not in settings_after
    message = capsys.readouterr().err
    assert f"sequence_bias: {piece} -1.0" in message and f"suppress_tokens: {piece}" in message


def test_a_batch_padded_on_the_left_writes_what_single_prompts_do(tmp_path: Path) -> None:
    model = _published("gemma-2-2b", tmp_path / "model")
    (tmp_path / "out").mkdir()
    export_transformers(model, tmp_path / "out")
    written = []
    for directory in (model, tmp_path / "out"):
        tokenizer = AutoTokenizer.from_pretrained(directory)
        read: Any = AutoModelForCausalLM.from_pretrained(directory)
        texts = [FIRST, f"{FIRST} for the book that {SECOND} wrote"]
        limit: Any = {"max_new_tokens": 6, "do_sample": False}
        batch = read.generate(**tokenizer(texts, padding=True, return_tensors="pt"), **limit)[:, -6:].tolist()
        for text, ids in zip(texts, batch, strict=True):
            assert read.generate(**tokenizer(text, return_tensors="pt"), **limit)[0, -6:].tolist() == ids
        written.append(batch)
    assert written[0] == written[1]
