"""Prompts of decoder-only models, plain or as a user's turn of a chat, and the text of their continuations."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import tokenizers

from subgraft.base.errors import ArgumentError, UserError
from subgraft.base.security.chat_process import Part, Rendered, process_of
from subgraft.subwords.vocabulary.directory import CHAT_TEMPLATE
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.tokenizer_description import ROLES

# A user's turn, or a conversation whose next turn is the assistant's: of each turn `role` and `content`.
Turn: TypeAlias = "str | Sequence[Mapping[str, str]]"

# The default limit of an answer to a turn in tokens: the length of a question does not limit it.
ANSWER_TOKENS = 512
_UNLIMITED = 1e9


def chat_template(tokenizer: Tokenizer) -> str | None:
    """The tokenizer's template of conversations, of several with names the default one; None if it has none."""
    template = tokenizer.config.get(CHAT_TEMPLATE)
    if isinstance(template, list):
        named = {one.get("name"): one.get("template") for one in template if isinstance(one, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else None


@dataclass(frozen=True)
class ChatTemplate:
    """A tokenizer's chat template, which adds role marks around turns; it runs in a process of its own."""

    tokenizer: Tokenizer
    template: str

    @classmethod
    def of(cls, tokenizer: Tokenizer, where: str) -> ChatTemplate:
        """The tokenizer's template. Raises UserError if it has none. where: the model's name in messages."""
        template = chat_template(tokenizer)
        if template is None:
            hint = "Leave `chat` out: each line is then continued as it stands."
            raise ArgumentError("this model's tokenizer has no chat template", where=where, hint=hint)
        return cls(tokenizer, template)

    def ids(self, turns: Sequence[Turn], room: int) -> list[list[int]]:
        """The ids of each conversation, up to the start of the answer.

        Raises UserError for a turn that contains a special token, which would end the turn; for one with more than
        `room` tokens; and for an invalid template.
        """
        conversations = []
        for number, turn in enumerate(turns, 1):
            special = self.special_in(turn)
            if special is not None:
                what = f"the text has {special} in it, which the chat template would take for a special token"
                raise UserError(what, where=f"line {number}", hint="Leave it out of the text.")
            ids = self.prompt_ids(turn)
            if len(ids) > room:
                what = f"{len(ids):,} tokens with the chat template, and the model takes {room:,}"
                raise UserError(what, where=f"line {number}", hint="Make the text shorter.")
            conversations.append(ids)
        return conversations

    def special_in(self, turn: Turn) -> str | None:
        """A special token that occurs in the text of a turn, if any: it could end the turn, or start another one."""
        contents = [message["content"] for message in _messages(turn)]
        return next((piece for piece in self._special if any(piece in content for content in contents)), None)

    def prompt_ids(self, turn: Turn) -> list[int]:
        """The ids of a conversation up to the start of the answer. Raises UserError for an invalid template."""
        ids: list[int] = self.encode([self.render(turn, prompt=True)])[0].ids
        return ids

    @property
    def marks_answers(self) -> bool:
        """Whether the template has {% generation %} around answers."""
        return re.search(r"\{%-?\s*generation\s*-?%\}", self.template) is not None

    def encode(self, rendered: Sequence[str]) -> list[tokenizers.Encoding]:
        """The tokens of rendered conversations, with their offsets in characters."""
        encodings: list[tokenizers.Encoding] = self._backend.encode_batch(list(rendered), add_special_tokens=False)
        return encodings

    @cached_property
    def _backend(self) -> tokenizers.Tokenizer:
        """The tokenizer as transformers uses it, which recognises special tokens in text."""
        backend: tokenizers.Tokenizer = tokenizers.Tokenizer.from_str(self.tokenizer.backend.to_str())
        backend.encode_special_tokens = False
        return backend

    @cached_property
    def _special(self) -> tuple[str, ...]:
        added = self._backend.get_added_tokens_decoder().values()
        return tuple(token.content for token in added if token.special)

    def render(self, turn: Turn, *, prompt: bool = False) -> str:
        """A conversation as text. prompt: whether to append the beginning of an answer. Raises as `render_all` does."""
        return self.render_all([Part(_messages(turn), prompt)])[0].text

    def render_all(self, parts: Sequence[Part], *, mark_answers: bool = False) -> list[Rendered]:
        """Parts of a conversation as text. mark_answers: whether to return the bounds of marked answers too.

        Raises UserError for an invalid template, and if the template refuses the conversation or exceeds a limit.
        """
        pieces, special = self.tokenizer.pieces, self.tokenizer.special
        named = {f"{role}_token": pieces[special[role]] for role in ROLES if role in special}
        return process_of(self.template).render(parts, named, mark_answers=mark_answers)


def _messages(turn: Turn) -> list[dict[str, str]]:
    return [{"role": "user", "content": turn}] if isinstance(turn, str) else [dict(message) for message in turn]


@dataclass(frozen=True)
class Prompts:
    """Encodes prompts and decodes their continuations.

    Attributes:
        tokenizer: The model's tokenizer.
        start: The token before each plain prompt; a chat template adds its own.
        max_positions: The maximum length of prompt and output in tokens.
        max_length_ratio: The limit of an output in bytes, per byte of its prompt.
        max_tokens: The limit of an output in tokens; None for no limit.
        chat: The chat template, if prompts are turns of a chat.
    """

    tokenizer: Tokenizer
    start: int
    max_positions: int
    max_length_ratio: float
    max_tokens: int | None
    chat: ChatTemplate | None = None

    @property
    def max_output_tokens(self) -> int | None:
        """The limit of an output in tokens."""
        return self.max_tokens or (None if self.chat is None else ANSWER_TOKENS)

    @property
    def ratio(self) -> float:
        """The limit of an output in bytes, per byte of its prompt."""
        return self.max_length_ratio if self.chat is None else _UNLIMITED

    def ids(self, texts: Sequence[Turn]) -> list[list[int]]:
        """The ids of each prompt, at least one. A plain prompt that is too long is truncated at its beginning."""
        if self.chat is not None:
            return [ids or [self.start] for ids in self.chat.ids(texts, self.max_positions - 1)]
        half = self.max_positions // 2
        room = self.max_positions - 1 - min(self.max_tokens or half, half)
        bodies = self.tokenizer.encode_batch([text for text in texts if isinstance(text, str)])
        return [[self.start, *tokens[max(0, len(tokens) - room) :]] for tokens in bodies]

    def output(self, prompt: Sequence[int], written: Sequence[int], ends: Sequence[int]) -> str:
        """The generated text: the continuation of a plain prompt, or the answer in a chat."""
        return added_text(self.tokenizer, prompt if self.chat is None else [], written, ends)


def added_text(tokenizer: Tokenizer, prompt_ids: Sequence[int], written: Sequence[int], ends: Sequence[int]) -> str:
    """The text, in one line, that the `written` tokens add to the prompt, including the space before a word."""
    ending = (*ends, tokenizer.special.get("pad"))
    stops = (place for place, token in enumerate(written) if token in ending)
    body = written[: next(stops, len(written))]
    prompt, whole = tokenizer.decode(prompt_ids), tokenizer.decode([*prompt_ids, *body])
    added = whole[len(prompt) :] if whole.startswith(prompt) else tokenizer.decode(body)
    return one_line(added)


def one_line(text: str) -> str:
    """The text with a space in place of each character that ends a line."""
    return "".join(" " if character in "\n\r\v\f\x85\u2028\u2029" else character for character in text)
