"""The tag before sources that a machine wrote, so that a model can tell them from a person's (Caswell et al. 2019).

It is text that each vocabulary cuts as it does any other: no vocabulary gets an entry, and no model a row.
"""

from __future__ import annotations

from collections.abc import Mapping

from subgraft.config.synthetic import TAG
from subgraft.base.errors import UserError
from subgraft.subwords.vocabulary.tokenizer import Tokenizer


def tagged(source: str) -> str:
    """The source as a model reads it."""
    return f"{TAG} {source}"


def require_tag(tokenizer: Tokenizer, where: str) -> None:
    """Raises UserError where the vocabulary that reads sources cannot spell the tag.

    It would stand there as an unknown token, as characters do that the task's own sources have.
    """
    if tokenizer.special.get("unk", -1) in tokenizer.encode(TAG):
        hint = "Write back_translation.tag: false, or give the vocabulary byte_fallback."
        raise UserError(f"the encoder's vocabulary cannot spell the tag {TAG}", where=where, hint=hint)


def is_tagged(identity: Mapping[str, object]) -> bool:
    """Whether a corpus of this identity has the tag before its sources."""
    return bool(identity.get("tag"))
