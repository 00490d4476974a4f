# mypy: allow-untyped-calls
"""The published layout of M2M-100 vocabularies: sentencepiece.bpe.model, vocab.json, and codes added by a class."""

from __future__ import annotations

from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.base.json_io import object_in
from subgraft.modeling.families.piece_numbering import numbered, read_numbering
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

MODEL, NUMBERING = "sentencepiece.bpe.model", "vocab.json"
_ROLES = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "sep_token": "</s>",
    "pad_token": "<pad>",
    "unk_token": "<unk>",
}


def is_published(directory: Path) -> bool:
    """Whether the directory has this layout; one with a tokenizer.json, such as NLLB's, is read like any other."""
    present = all((directory / name).is_file() for name in (MODEL, NUMBERING))
    return present and not (directory / "tokenizer.json").is_file()


def load(directory: Path) -> Tokenizer:
    """The tokenizer, with language codes after the numbered pieces. Raises UserError for an invalid file."""
    from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES

    ids = read_numbering(directory / NUMBERING, _ROLES.values())
    named = object_in(directory / "tokenizer_config.json").get("language_codes", "m2m100")
    known = FAIRSEQ_LANGUAGE_CODES.get(named) if isinstance(named, str) else None
    if known is None:
        raise UserError(f"its language codes ({named}) are not known", where=str(directory))
    codes = {f"__{code}__": len(ids) + place for place, code in enumerate(known)}
    return numbered(directory / MODEL, {**ids, **codes}, [*dict.fromkeys(_ROLES.values()), *codes], _ROLES)
