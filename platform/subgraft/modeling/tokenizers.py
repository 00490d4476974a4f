"""The tokenizers of a model directory, one per side.

A tokenizer that both sides share is at the root; otherwise each side has a folder, `encoder/` and `decoder/`. (For a
language model with a text source, the source's tokenizer is in `encoder/`.) Published layouts are supported as well: a
Marian's two SentencePiece models, an mBART's or a GPT-2's single vocabulary.
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
    """The tokenizer of each side of a model directory or hub id; the same object if they share it.

    Raises UserError if a vocabulary is missing or the model's family is not supported.
    """
    directory = resolve_model(model, SMALL_FILES)
    return tokenizers_at(directory, family_at(directory, str(model)))


def tokenizers_at(directory: Path, family: Family) -> dict[SideName, Tokenizer]:
    """The same for a model of this family, whose config.json may be elsewhere."""
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
