# mypy: allow-untyped-calls
"""The vocabulary of an M2M-100 as it is published: sentencepiece.bpe.model, vocab.json, and a class that adds codes."""

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
    """Whether the directory has the published layout; one with a tokenizer.json, as NLLB's, is read like any other."""
    present = all((directory / name).is_file() for name in (MODEL, NUMBERING))
    return present and not (directory / "tokenizer.json").is_file()


def load(directory: Path) -> Tokenizer:
    """The tokenizer, its language codes behind the numbered pieces. Raises UserError where a file is broken."""
    from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES

    ids = read_numbering(directory / NUMBERING, _ROLES.values())
    named = object_in(directory / "tokenizer_config.json").get("language_codes", "m2m100")
    known = FAIRSEQ_LANGUAGE_CODES.get(named) if isinstance(named, str) else None
    if known is None:
        raise UserError(f"its language codes ({named}) are not known", where=str(directory))
    codes = {f"__{code}__": len(ids) + place for place, code in enumerate(known)}
    return numbered(directory / MODEL, {**ids, **codes}, [*dict.fromkeys(_ROLES.values()), *codes], _ROLES)
