"""The text of a named field, or a message that says what it holds in place of one."""

from __future__ import annotations

from subgraft.base.errors import UserError


def text_of(value: object, name: int | str, where: str) -> str:
    """Raises UserError where the field holds anything else, and says so of a conversation."""
    if isinstance(value, str):
        return value
    turns = value if isinstance(value, list) else [value]
    if any(isinstance(turn, dict) and "role" in turn for turn in turns):
        what = f"the field '{name}' holds a conversation, and models are not finetuned on conversations"
        hint = "Give texts in fields: for a turn and its answer a source and a target, or one text to continue."
        raise UserError(what, where=where, hint=hint)
    raise UserError(f"the field '{name}' contains no text", where=where)
