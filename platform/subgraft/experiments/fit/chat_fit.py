"""A fit of a language model that answers in conversations: it learns the assistant's turns alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar

from subgraft.base.errors import ArgumentError
from subgraft.data.sources.conversations import Turn, cells_of, conversations_in
from subgraft.data.tasks.registry import TaskName
from subgraft.data.text.text_files import TextFiles
from subgraft.experiments.fit.commented_yaml import Section
from subgraft.experiments.fit.split import Documents, Split, split
from subgraft.experiments.fit.text_fit import CLEANING, TextFit
from subgraft.modeling.inference.prompts import ChatTemplate, chat_template

# Why a conversation is left out.
_UNUSABLE = ("no_answer", "empty_turn", "special_tokens")


class ChatFit(TextFit):
    """A fit of a language model with a chat template to conversations; vocabularies are learnt on all turns."""

    outputs = "answers"
    files = "chat"
    corpus: ClassVar[Section] = {"conversations": {"folder": "text/task"}}
    tested = 200, 50  # an answer of a hundred tokens takes seconds
    max_length = 1024  # a conversation is not divided

    @property
    def _task(self) -> TaskName:
        return "chat"

    def _read(self) -> Split:
        decoder = self._request.model.tokenizers["decoder"]
        if chat_template(decoder) is None:
            hint = "Fit an instruct model; `text` fits a model to text without turns."
            raise ArgumentError("this model's tokenizer has no chat template", where="model", hint=hint)
        template, turns, counts = ChatTemplate.of(decoder, "model"), dict[str, list[Turn]](), Counter[str]()
        for path in TextFiles(self._request.files).files:
            for conversation in conversations_in(path, None, counts):
                if template.special_in(conversation) is None:
                    turns.setdefault(cells_of(conversation)[0], conversation)
                else:
                    counts["special_tokens"] += 1
        if unusable := sum(counts[reason] for reason in _UNUSABLE):
            reasons = "without an answer, or with special tokens in their text"
            self._say(f"left out: {unusable:,} conversations {reasons}")
        self._turns: Mapping[str, Sequence[Turn]] = turns
        return split(Documents(tuple(((text, text),) for text in turns)), CLEANING, "conversations")

    def _task_files(self, text: Split) -> Mapping[str, Sequence[str]]:
        def line(conversation: str) -> str:
            return json.dumps({"messages": self._turns[conversation]}, ensure_ascii=False)

        return {f"{name}.jsonl": [line(one) for one, _ in part] for name, part in text.parts.items()}
