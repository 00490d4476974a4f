"""A fit of a language model that answers in conversations: it learns the assistant's turns alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from subgraft.base import json_io
from subgraft.base.errors import ArgumentError
from subgraft.data.sources.conversations import Turn, cells_of, turns_of, usable_turns
from subgraft.data.tasks.registry import TaskName
from subgraft.data.text import reading
from subgraft.data.text.text_files import TextFiles
from subgraft.experiments.fit.split import Documents, Split, split
from subgraft.experiments.fit.text_fit import CLEANING, TextFit
from subgraft.modeling.inference.prompts import ChatTemplate


def _conversations(path: Path) -> Iterator[list[Turn] | None]:
    """The turns of each line up to the last answer; None if there is no answer."""
    counts = Counter[str]()
    for number, record in enumerate(json_io.objects(reading.lines(path), path), 1):
        yield usable_turns(turns_of(record, f"{path}:{number}"), None, counts)


class ChatFit(TextFit):
    """A fit of a language model with a chat template to conversations; vocabularies are learnt on all turns."""

    outputs = "answers"
    files = "chat"
    corpus = "{conversations: {folder: text/task}}"
    tested = 200, 50  # an answer of a hundred tokens takes seconds
    max_length = 1024  # a conversation is not divided

    @property
    def _task(self) -> TaskName:
        return "chat"

    def _read(self) -> Split:
        decoder = self._request.model.tokenizers["decoder"]
        if not decoder.config.get("chat_template"):
            hint = "Fit an instruct model; `text` fits a model to text without turns."
            raise ArgumentError("this model's tokenizer has no chat template", where="model", hint=hint)
        template, turns, unusable = ChatTemplate.of(decoder, "model"), dict[str, list[Turn]](), 0
        for path in TextFiles(self._request.files).files:
            for conversation in _conversations(path):
                if conversation is None or template.special_in(conversation) is not None:
                    unusable += 1
                else:
                    turns.setdefault(cells_of(conversation)[0], conversation)
        if unusable:
            reasons = "without an answer, or with special tokens in their text"
            self._say(f"left out: {unusable:,} conversations {reasons}")
        self._turns: Mapping[str, Sequence[Turn]] = turns
        return split(Documents(tuple(((text, text),) for text in turns)), CLEANING, "conversations")

    def _task_files(self, text: Split) -> Mapping[str, Sequence[str]]:
        def line(conversation: str) -> str:
            return json.dumps({"messages": self._turns[conversation]}, ensure_ascii=False)

        parts = {"train": text.train, "dev": text.dev, "test": text.test}
        return {f"{name}.jsonl": [line(one) for one, _ in part] for name, part in parts.items()}
