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
from subgraft.errors import UserError
from subgraft.jsonfiles import read_bytes, read_object
from subgraft.vocabulary.directory import Source
from subgraft.vocabulary.sentencepiece_model import convert
from subgraft.vocabulary.soundness import refusing
from subgraft.vocabulary.tokenizer import Tokenizer

_ROLES = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
_NEEDED = ("eos", "unk", "pad")
# Below the score of any segmentation by pieces of its own, per character: so that a piece of the other language is
# chosen only for a character that the side itself does not know, as a Marian tokenizer does.
_FOREIGN_SCORE = -1e6


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
    ids = _read_numbering(numbering)
    try:
        with refusing("not in a form that is known"):
            specification = json.loads(convert(read_bytes(model)).to_str())
            specification["model"] = _renumbered(specification["model"], ids)
            specification["added_tokens"] = [
                _added(piece, i) for piece, i in sorted(ids.items(), key=lambda item: item[1]) if _is_special(piece)
            ]
            return Tokenizer(Source(json.dumps(specification, ensure_ascii=False), _ROLES))
    except UserError as error:
        what = f"this vocabulary cannot be read: {error.what}"
        raise UserError(what, where=str(model), hint=error.hint) from error


def _read_numbering(path: Path) -> dict[str, int]:
    ids = read_object(path)
    if not all(type(i) is int for i in ids.values()) or sorted(ids.values()) != list(range(len(ids))):
        raise UserError("no numbering of pieces: its ids are not 0, 1, …", where=str(path))
    if not set(_ROLES.values()) <= set(ids):
        raise UserError("no numbering of pieces: </s>, <unk> or <pad> is missing", where=str(path))
    return ids


def _is_special(piece: str) -> bool:
    """The three roles, and target languages as multilingual models expect them: >>fra<<."""
    return piece in _ROLES.values() or (piece.startswith(">>") and piece.endswith("<<"))


def _added(piece: str, token_id: int) -> dict[str, Any]:
    return {
        "id": token_id,
        "content": piece,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }


def _renumbered(model: dict[str, Any], ids: dict[str, int]) -> dict[str, Any]:
    """The segmentation model over the published ids. Pieces that it knows but the numbering lacks are left out."""
    if model["type"] == "Unigram":
        scores = dict(model["vocab"])
        ordered = sorted(ids, key=lambda piece: ids[piece])
        vocabulary = [(piece, scores.get(piece, _FOREIGN_SCORE * len(piece))) for piece in ordered]
        return {**model, "vocab": vocabulary, "unk_id": ids["<unk>"]}
    merges = [(left, right) for left, right in model["merges"] if {left, right, left + right} <= ids.keys()]
    return {**model, "vocab": ids, "merges": merges, "unk_token": "<unk>"}
