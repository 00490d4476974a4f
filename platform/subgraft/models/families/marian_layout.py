"""The vocabularies of a Marian model as it is published: source.spm, target.spm and vocab.json [, target_vocab.json].

Two SentencePiece models cut the text of either side; vocab.json gives the pieces of both their ids, in one numbering.
Where encoder and decoder do not share their table, target_vocab.json numbers the target side on its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from subgraft.config.base import SideName
from subgraft.models.families.numbered_pieces import numbered, read_numbering
from subgraft.vocabulary.tokenizer import Tokenizer

_ROLES = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
_NEEDED = ("eos", "unk", "pad")


def is_published(directory: Path) -> bool:
    """Whether the directory has the published layout."""
    return all((directory / name).is_file() for name in ("source.spm", "target.spm", "vocab.json"))


def load(directory: Path) -> dict[SideName, Tokenizer]:
    """One tokenizer per side, with the ids of the published numbering. Raises UserError where a file is broken."""
    separate = directory / "target_vocab.json"
    encoder_ids = directory / "vocab.json"
    decoder_ids = separate if separate.is_file() else encoder_ids
    return {
        "encoder": _load_side(directory / "source.spm", encoder_ids),
        "decoder": _load_side(directory / "target.spm", decoder_ids),
    }


def save(encoder: Tokenizer, decoder: Tokenizer, directory: Path, settings: Mapping[str, Any]) -> bool:
    """Write the published layout; False, and nothing, for vocabularies that are not SentencePiece's own.

    settings: more of tokenizer_config.json.
    """
    models = {"source.spm": encoder.sentencepiece_model, "target.spm": decoder.sentencepiece_model}
    for tokenizer in (encoder, decoder):
        if not all(_ROLES[f"{role}_token"] == tokenizer.pieces[tokenizer.special[role]] for role in _NEEDED):
            return False
    if None in models.values():
        return False
    for name, model in models.items():
        (directory / name).write_bytes(model or b"")
    separate = encoder.fingerprint != decoder.fingerprint
    _write_json(directory / "vocab.json", {piece: token for token, piece in enumerate(encoder.pieces)})
    if separate:
        _write_json(directory / "target_vocab.json", {piece: token for token, piece in enumerate(decoder.pieces)})
    config = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": separate, **_ROLES, **settings}
    _write_json(directory / "tokenizer_config.json", config)
    return True


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _load_side(model: Path, numbering: Path) -> Tokenizer:
    ids = read_numbering(numbering, _ROLES.values())
    return numbered(model, ids, filter(_is_special, ids), _ROLES)


def _is_special(piece: str) -> bool:
    """The three roles, and target languages as multilingual models expect them: >>fra<<."""
    return piece in _ROLES.values() or (piece.startswith(">>") and piece.endswith("<<"))
