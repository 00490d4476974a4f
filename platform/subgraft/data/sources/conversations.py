"""Conversations: JSON lines of turns with roles, and pairs of a user's turn and its answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import model_validator

from subgraft.base import json_io
from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.settings_base import Settings, Split
from subgraft.data.sources.kind import Request, SourceKind
from subgraft.data.sources.paths import one_file_per_split
from subgraft.data.sources.resolved_corpus import FilesSource, PairFilesSource, ResolvedSource
from subgraft.data.text import reading
from subgraft.data.text.dataset_files import table_rows
from subgraft.data.text.fields import CONVERSATION, Field, Sides, json_cell

if TYPE_CHECKING:  # the registry makes it of the settings of all kinds
    from subgraft.data.sources.kind import AnySource as CorpusSource

Turn = dict[str, str]
ROLES = ("system", "user", "assistant")
_SHAREGPT = {"human": "user", "gpt": "assistant", "system": "system"} | {role: role for role in ROLES}
_EXAMPLE = '{"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]}'


class ConversationFiles(Settings):
    """Conversations in JSON lines, `{"messages": [{"role": "user", "content": "…"}, …]}`, or ShareGPT's
    `{"conversations": [{"from": "human", "value": "…"}, …]}`; or made of pairs.

    folder: a folder with {train,dev,test}.jsonl[.gz].
    files: a path per split, in place of folder.
    pairs: a corpus of pairs or questions, in place of files: each source becomes a user's turn, its target the answer.
    languages: the languages of the pairs; the task's by default.
    prompt: the user's turn, with {source} in the place of the source.
    system: the text of a system's turn at the beginning, for conversations without one.
    """

    folder: str | None = None
    files: dict[Split, str] | None = None
    pairs: CorpusSource | None = None
    languages: Languages | None = None
    prompt: str = "{source}"
    system: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> ConversationFiles:
        if sum(setting is not None for setting in (self.folder, self.files, self.pairs)) != 1:
            raise ValueError("give exactly one of folder, files, pairs")
        if "{source}" not in self.prompt:
            raise ValueError("prompt needs {source}, the place of the pair's source")
        if self.pairs is None and not self.model_fields_set.isdisjoint({"languages", "prompt"}):
            raise ValueError("languages and prompt apply to pairs only: conversations have their own prompts")
        if self.system is not None and not self.system.strip():
            raise ValueError("system is empty: leave it out")
        return self


class Conversations(Settings):
    """conversations: turns of users and assistants, for `task: chat`."""

    conversations: ConversationFiles | None = None


def turns_of(record: Mapping[str, Any], where: str) -> list[Turn]:
    """The turns of a JSON line in OpenAI's form or in ShareGPT's.

    Raises UserError with `where` for another form, an unknown role, and a content that is not text.
    """
    name = next((name for name in ("messages", "conversations") if name in record), None)
    turns = record.get(name) if name else None
    if isinstance(turns, dict) and all(isinstance(values, list) for values in turns.values()):
        # A list by name, as earlier releases of `datasets` write a list of records.
        turns = [dict(zip(turns, values, strict=False)) for values in zip_longest(*turns.values())]
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        raise UserError("no conversation: a list `messages` is missing", where=where, hint=f"Write {_EXAMPLE}.")
    return [_turn(turn, number, where) for number, turn in enumerate(turns, 1)]


def _turn(turn: Mapping[str, Any], number: int, where: str) -> Turn:
    role, content = (turn.get(ours, turn.get(theirs)) for ours, theirs in (("role", "from"), ("content", "value")))
    if not isinstance(role, str) or role not in _SHAREGPT:
        what = f"turn {number} has the role {role!r:.40}" if role is not None else f"turn {number} has no role"
        hint = f"Write {', '.join(ROLES)}; ShareGPT's human and gpt are read as user and assistant."
        raise UserError(what, where=where, hint=hint)
    if not isinstance(content, str):
        what = f"the content of turn {number} is not text"
        raise UserError(what, where=where, hint=f"Models are finetuned on text alone; write {_EXAMPLE}.")
    return {"role": _SHAREGPT[role], "content": content}


def usable_turns(turns: Sequence[Turn], system: str | None, counts: Counter[str]) -> list[Turn] | None:
    """The turns up to the last answer, after a system turn if `system` is set; None if there is no answer to learn.

    Empty system turns are left out. `counts` receives the numbers of omitted turns and conversations, by reason.
    """
    retained = [turn for turn in turns if turn["role"] != "system" or turn["content"].strip()]
    counts["empty_system_turns"] += len(turns) - len(retained)
    roles = [turn["role"] for turn in retained]
    first_user = roles.index("user") if "user" in roles else len(roles)
    if "assistant" not in roles[first_user:] or "assistant" in roles[:first_user]:
        counts["no_answer"] += 1
        return None
    end = len(roles) - roles[::-1].index("assistant")
    counts["unanswered_turns"] += len(retained) - end
    if not all(turn["content"].strip() for turn in retained[:end]):
        counts["empty_turn"] += 1
        return None
    first = [{"role": "system", "content": system}] if system and "system" not in roles[:end] else []
    return [*first, *retained[:end]]


def conversations_in(path: Path, system: str | None, counts: Counter[str]) -> Iterator[list[Turn]]:
    """The usable turns of each line or row of a file (JSON lines, Parquet, Arrow); see `usable_turns`."""
    of_table = path.suffix.lower() in (".parquet", ".arrow")
    records = table_rows(path) if of_table else json_io.objects(reading.json_lines(path), path)
    for number, record in enumerate(records, 1):
        where = f"{path}: row {number}" if of_table else f"{path}:{number}"
        turns = usable_turns(turns_of(record, where), system, counts)
        if turns is not None:
            yield turns


def cells_of(turns: Sequence[Turn]) -> Sides:
    """The text of all turns, in one line, and the turns as JSON."""
    text = " ".join(" ".join(turn["content"].splitlines()) for turn in turns)
    return text, json_cell([[turn["role"], turn["content"]] for turn in turns])


@dataclass(frozen=True)
class ConversationsSource(PairFilesSource):
    """A conversation in each line of one file per split."""

    settings: ConversationFiles
    _dropped: dict[Split, Counter[str]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def _origin(self) -> dict[str, object]:
        form = {"system": self.settings.system} if self.settings.system else {}
        return {"conversations": form, "files": self._digests}

    def remarks(self, split: Split) -> Mapping[str, int]:
        return {reason: count for reason, count in self._dropped.get(split, {}).items() if count}

    def _segments(self, split: Split) -> Iterator[Sides]:
        counts = self._dropped[split] = Counter[str]()
        yield from map(cells_of, conversations_in(self.files[split], self.settings.system, counts))

    def _count_split(self, split: Split) -> int:
        count = sum(1 for _ in self._segments(split))
        if not count:
            reasons = ", ".join(f"{reason} {dropped}" for reason, dropped in self.remarks(split).items()) or "no line"
            what = f"no conversation with an answer ({reasons})"
            raise UserError(what, where=str(self.files[split]), hint=f"Write lines such as {_EXAMPLE}.")
        return count


@dataclass(frozen=True)
class PairsAsConversations(FilesSource):
    """Each pair of a corpus as a question and its answer; pairs with an empty side are left out."""

    pairs: ResolvedSource
    settings: ConversationFiles
    _dropped: dict[Split, Counter[str]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def on_disk(self) -> bool:  # type: ignore[override]
        return self.pairs.on_disk

    @property
    def generated(self) -> bool:  # type: ignore[override]
        return self.pairs.generated

    @property
    def splits(self) -> tuple[Split, ...]:
        return self.pairs.splits

    def paths(self, split: Split) -> tuple[Path, ...]:
        return self.pairs.paths(split) if isinstance(self.pairs, FilesSource) else ()

    def remarks(self, split: Split) -> Mapping[str, int]:
        own = {reason: count for reason, count in self._dropped.get(split, {}).items() if count}
        return {**self.pairs.remarks(split), **own}

    def _origin(self) -> dict[str, object]:
        form = self.settings.model_dump(mode="json", include={"prompt", "system"})
        return {"conversations": form, "pairs": self.pairs.identity()}

    def _segments(self, split: Split) -> Iterator[Sides]:
        counts = self._dropped[split] = Counter[str]()
        for source, target in self.pairs.read(split):
            prompt = self.settings.prompt.replace("{source}", source)
            answer = target if source.strip() else ""
            turns = [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]
            if (usable := usable_turns(turns, self.settings.system, counts)) is not None:
                yield cells_of(usable)

    def _count_split(self, split: Split) -> int:
        return self._count_segments(split)


def _resolve(request: Request) -> ResolvedSource:
    """The text of all turns, in the target language of the task, and the turns."""
    settings: ConversationFiles = request.settings
    fields = Field("source", language=request.pair.target), Field(CONVERSATION, kind=CONVERSATION)
    if (paths := settings.folder or settings.files) is not None:
        files = one_file_per_split(paths, "jsonl", request.base)
        return ConversationsSource(fields, request.limit, files, settings)
    assert settings.pairs is not None  # one of the three is set
    pairs = request.part(settings.pairs, settings.languages or request.languages)
    if [field.name for field in pairs.fields] != ["source", "target"] or pairs.documented:
        hint = "Name the languages of its two texts: conversations: {pairs: …, languages: {source: en, target: fr}}."
        raise UserError("pairs of texts are expected", where="conversations.pairs", hint=hint)
    return PairsAsConversations(fields, request.limit, pairs, settings)


CONVERSATIONS = SourceKind(
    name="conversations",
    fields=Conversations,
    resolve=_resolve,
    parts=lambda settings: () if settings.pairs is None else (settings.pairs,),
    in_together=False,
)
