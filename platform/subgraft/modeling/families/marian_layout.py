"""The published layout of Marian vocabularies: source.spm, target.spm and vocab.json [, target_vocab.json].

Two SentencePiece models segment the text of the two sides; vocab.json numbers the pieces of both. If encoder and
decoder do not share their embeddings, target_vocab.json numbers the target's pieces.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from subgraft.base.errors import UserError
from subgraft.config.settings_base import SideName
from subgraft.modeling.families.piece_numbering import read_numbering, tokenizer_with_ids
from subgraft.subwords.vocabulary.as_sentencepiece import as_sentencepiece, normalised_symbols
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

_ROLES = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
_NEEDED = ("eos", "unk", "pad")
# The roles that tokenizer_config.json names if both sides have them.
_WRITTEN = (*_NEEDED, "bos", "mask")


def is_published(directory: Path) -> bool:
    """Whether the directory has this layout."""
    return all((directory / name).is_file() for name in ("source.spm", "target.spm", "vocab.json"))


def load(directory: Path) -> dict[SideName, Tokenizer]:
    """One tokenizer per side, with the published ids. Raises UserError for an invalid file."""
    separate = directory / "target_vocab.json"
    encoder_ids = directory / "vocab.json"
    decoder_ids = separate if separate.is_file() else encoder_ids
    return {
        "encoder": _load_side(directory / "source.spm", encoder_ids),
        "decoder": _load_side(directory / "target.spm", decoder_ids),
    }


def _load_side(model: Path, numbering: Path) -> Tokenizer:
    """Special tokens are the three roles, and the codes of target languages such as >>fra<<."""
    ids = read_numbering(numbering, _ROLES.values())
    special = [piece for piece in ids if piece in _ROLES.values() or (piece.startswith(">>") and piece.endswith("<<"))]
    return tokenizer_with_ids(model, ids, special, _ROLES)


def orders(encoder: Tokenizer, decoder: Tokenizer) -> dict[SideName, list[int]]:
    """A token order, as current ids, in which transformers and CTranslate2 can read both sides.

    MarianTokenizer looks special tokens up in the source's vocabulary only, so they need the same ids on both sides.
    CTranslate2's converter assumes that the last row is padding, and supports one vocabulary only: with two, padding is
    not last, so that the converter refuses them.
    """
    if encoder.pieces == decoder.pieces:
        padding = decoder.special.get("pad")
        others = [token for token in range(len(decoder)) if token != padding]
        order = others if padding is None else [*others, padding]
        return {"encoder": order, "decoder": order}
    common = _common_roles(encoder, decoder)
    same = all(encoder.special[role] == decoder.special[role] for role in common)
    last = encoder.special.get("pad") == len(encoder) - 1
    both: dict[SideName, Tokenizer] = {"encoder": encoder, "decoder": decoder}
    if same and not last:
        return {side: list(range(len(tokenizer))) for side, tokenizer in both.items()}
    orders: dict[SideName, list[int]] = {}
    for side, tokenizer in both.items():
        first = dict.fromkeys(tokenizer.special[role] for role in common)
        orders[side] = [*first, *(token for token in range(len(tokenizer)) if token not in first)]
    return orders


def save(encoder: Tokenizer, decoder: Tokenizer, directory: Path, settings: Mapping[str, Any]) -> bool:
    """Write the published layout. Writes nothing and returns False for a single vocabulary that is not SentencePiece's.

    settings: additional entries of tokenizer_config.json. Raises UserError for two vocabularies of which one is not
    SentencePiece's, because transformers has no other layout for two vocabularies.
    """
    sides = {"source": encoder, "target": decoder}
    models = {side: _sentencepiece_model(tokenizer) for side, tokenizer in sides.items()}
    if None in models.values():
        if encoder.fingerprint == decoder.fingerprint:
            return False
        others = " and ".join(side for side, model in models.items() if model is None)
        raise UserError(
            f"transformers reads the two vocabularies of a Marian from SentencePiece models alone, and the {others} "
            "vocabulary cannot be written as one",
            hint="Learn it of kind unigram or bpe, like this model. `subgraft generate` and `export --to ctranslate2` "
            "take this model as it is.",
        )
    for side, model in models.items():
        (directory / f"{side}.spm").write_bytes(model or b"")
    separate = encoder.pieces != decoder.pieces
    _write_json(directory / "vocab.json", _numbering(encoder))
    if separate:
        _write_json(directory / "target_vocab.json", _numbering(decoder))
    roles = {f"{role}_token": encoder.pieces[encoder.special[role]] for role in _common_roles(encoder, decoder)}
    plain = {"clean_up_tokenization_spaces": False, **settings}
    own: dict[str, Any] = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": separate}
    # The user-defined symbols that no SentencePiece model has, by id, with their flags.
    native = normalised_symbols(encoder)
    for token in encoder.specification["added_tokens"]:
        if token["id"] in encoder.symbols and token["id"] not in native:
            own.setdefault("added_tokens_decoder", {})[str(token.pop("id"))] = token
    _write_json(directory / "tokenizer_config.json", {**plain, **own, **roles})
    return True


def _common_roles(encoder: Tokenizer, decoder: Tokenizer) -> list[str]:
    """The roles whose token exists on both sides with the same spelling."""
    spellings = {role: (_spelling(encoder, role), _spelling(decoder, role)) for role in _WRITTEN}
    return [role for role, (source, target) in spellings.items() if source is not None and source == target]


def _spelling(tokenizer: Tokenizer, role: str) -> str | None:
    return tokenizer.pieces[tokenizer.special[role]] if role in tokenizer.special else None


def _sentencepiece_model(tokenizer: Tokenizer) -> bytes | None:
    """The SentencePiece model of a side; None if it has none, or if its special tokens are not Marian's."""
    if any(_spelling(tokenizer, role) != _ROLES[f"{role}_token"] for role in _NEEDED):
        return None
    own = None if tokenizer.symbols else tokenizer.sentencepiece_model
    return own or as_sentencepiece(tokenizer)


def _numbering(tokenizer: Tokenizer) -> dict[str, int]:
    """Ids by piece; ids without a piece get a placeholder name, since transformers would otherwise confuse them."""
    return {piece or f"<spare {token}>": token for token, piece in enumerate(tokenizer.pieces)}


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
