"""The tokenizers of a model directory, one per side.

One tokenizer lies at the root where the sides share it; else each has a folder, `encoder/` and `decoder/`. So it is too
where a language model reads a text as its source, which is then the encoder's. Directories
as published are read too: a Marian's two SentencePiece models, an mBART's or a GPT-2's one vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from subgraft.config.settings_base import SideName
from subgraft.modeling.families import Family
from subgraft.modeling.hub import SMALL_FILES, family_at, resolve_model
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

SIDES: tuple[SideName, ...] = ("encoder", "decoder")


def load_tokenizers(model: Path | str) -> dict[SideName, Tokenizer]:
    """The tokenizer of each side of a model directory or hub id; one object where they share one.

    Raises UserError where a vocabulary is missing or the model's family is not known.
    """
    directory = resolve_model(model, SMALL_FILES)
    return tokenizers_at(directory, family_at(directory, str(model)))


def tokenizers_at(directory: Path, family: Family) -> dict[SideName, Tokenizer]:
    """The same for a model of a known family, whose config.json may lie elsewhere."""
    apart = SIDES if family.has_source else family.sides
    if all((directory / side).is_dir() for side in apart):
        return {side: Tokenizer.load(directory / side) for side in apart}
    published = family.published_tokenizers(directory)
    return published or dict.fromkeys(family.sides, Tokenizer.load(directory))


def save_tokenizers(tokenizers: Mapping[SideName, Tokenizer], directory: Path) -> None:
    """Write the tokenizers of all sides in the layout that `load_tokenizers` reads."""
    if len({tokenizer.fingerprint for tokenizer in tokenizers.values()}) == 1:
        next(iter(tokenizers.values())).save(directory)
        return
    for side, tokenizer in tokenizers.items():
        tokenizer.save(directory / side)
