"""Added tokens that are not special, such as <tool_call> or a user's words, in every published layout."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import transformers
from tokenizers import AddedToken

from published import CHECKPOINTS, ENGLISH_GERMAN
from subgraft.base.json_io import read_object
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.transformers import write_tokenizers
from subgraft.modeling.tokenizers import load_tokenizers
from subgraft.subwords.vocabulary.entry import Mark
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

ADDED = (
    AddedToken("remdesivir"),
    AddedToken("<tool_call>", normalized=False),
    AddedToken("Covid", single_word=True),
    AddedToken("⟦1⟧", lstrip=True, rstrip=True, normalized=False),
    AddedToken("    ", normalized=False),
    AddedToken("café"),
)
LINES = (
    "The remdesivir works.",
    "unremdesivirx and remdesivir remdesivir",
    "a <tool_call> {}</tool_call><tool_call>b",
    "Covid and Covidien, xCovid",
    "see ⟦1⟧ and⟦1⟧. ",
    "    indented     code  x",
    "Ein café am Tag",
)
# transformers gives what users add to an M2M-100 the ids of its language codes.
LAYOUTS = sorted(CHECKPOINTS.keys() - {"m2m100_418M"})


def _with_added(name: str, folder: Path) -> tuple[Mapping[Any, Tokenizer], Any]:
    """The vocabularies of a published layout with tokens of every sort, and transformers' tokenizer."""
    checkpoint = CHECKPOINTS[name]
    checkpoint.publish(folder / "published")
    auto: Any = transformers.PreTrainedTokenizerFast if checkpoint.as_file else transformers.AutoTokenizer
    theirs = auto.from_pretrained(folder / "published")
    theirs.add_tokens(list(ADDED))
    theirs.add_special_tokens({"additional_special_tokens": ["<ent>"]})
    theirs.save_pretrained(folder / "added")
    config = read_object(folder / "published" / "config.json")
    config |= dict.fromkeys({"vocab_size", "decoder_vocab_size"} & config.keys(), len(theirs))
    (folder / "added" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return load_tokenizers(folder / "added"), theirs


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_text_with_added_tokens_has_the_ids_of_transformers(name: str, tmp_path: Path) -> None:
    sides, theirs = _with_added(name, tmp_path)
    ours, special = sides.get("encoder", sides["decoder"]), theirs.convert_tokens_to_ids("<ent>")
    expected = [theirs(line, add_special_tokens=False)["input_ids"] for line in LINES]
    assert [ours.encode(line) for line in LINES] == expected
    assert ours.encode_batch(LINES) == expected
    assert set(ours.symbols.values()) >= {each.content for each in ADDED}
    assert special in ours.special_ids
    assert special not in ours.encode("an <ent> here")
    written = ours.decode([*ours.encode("a remdesivir<tool_call>café"), special])
    assert "remdesivir" in written
    assert "<tool_call>" in written
    assert "café" in written or ours.mark is Mark.WORDPIECE  # an uncased BERT drops accents
    assert "<ent>" not in written


def test_an_exported_marian_finds_added_tokens(tmp_path: Path) -> None:
    sides, theirs = _with_added("opus-mt-en-de", tmp_path)
    model = transformers.MarianMTModel.from_pretrained(tmp_path / "published")
    model.resize_token_embeddings(len(theirs))
    (tmp_path / "exported").mkdir()
    bundle, _ = write_tokenizers(Bundle.of_sides(model, sides), tmp_path / "exported", ENGLISH_GERMAN)
    exported: Any = transformers.AutoTokenizer.from_pretrained(tmp_path / "exported")
    for line in LINES:
        assert exported(line, add_special_tokens=False)["input_ids"] == bundle.encoder.encode(line)
