"""A kind of corpus source: what it declares for settings and plans, and how its text is found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field as SettingsField
from pydantic import model_validator

from subgraft.base.errors import UserError
from subgraft.base.progress import DownloadCallback
from subgraft.config.corpora import Languages
from subgraft.config.settings_base import Count, Settings, Split
from subgraft.data.sources.resolved_corpus import ResolvedSource
from subgraft.data.text.fields import Field, pair_fields


@dataclass(frozen=True)
class Question:
    """A question about a passage: its answer is `passage[start:end]`."""

    passage: str
    start: int
    end: int
    text: str


# Maps a question to the text that the model reads and the text that it writes.
Pairing = Callable[[Question], tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class SourceKind:
    """An entry of `registry.ENTRIES`.

    Attributes:
        name: The setting that selects it.
        fields: A group with this setting, described in its docstring, and with others of this kind alone.
        resolve: Finds the text, without downloading anything yet.
        takes: The settings of all kinds (`AnySource`) that apply to it.
        names_languages: Whether its settings name the languages of its texts, so that it is read without a task's.
        by_language: A source for each language that it names; none if it cannot be divided.
        parts: The sources that its setting combines.
        in_together: Whether it may be combined with others into one corpus.
        of_questions: Whether it contains questions, which a task turns into pairs.
        one_text: Whether the text of one language can be requested; otherwise it is a pair in the task's languages.
    """

    name: str
    fields: type[Settings]
    resolve: Callable[[Request], ResolvedSource]
    takes: tuple[str, ...] = ("limit",)
    names_languages: bool = False
    by_language: Callable[[Any], Mapping[str, Any]] = lambda source: {}
    parts: Callable[[Any], Iterable[AnySource]] = lambda settings: ()
    in_together: bool = True
    of_questions: bool = False
    one_text: Callable[[Any], bool] = lambda settings: True


class AnySource(Settings):
    """Settings of a source of any kind.

    languages: the languages of a folder with more than two, whose files are aligned line by line.
    limit: the maximum number of segments of a split, evenly spaced; documents stay complete.
    documents: for a folder or files: blank lines end documents.
    """

    languages: tuple[str, ...] | None = None
    limit: dict[Split, Count] = SettingsField(default_factory=dict)
    documents: Literal["blank-lines"] | None = None

    kinds: ClassVar[Mapping[str, SourceKind]] = {}

    @property
    def kind(self) -> SourceKind:
        """The kind that is set."""
        return next(kind for name, kind in self.kinds.items() if getattr(self, name))

    @property
    def settings(self) -> Any:
        """The settings of its kind."""
        return getattr(self, self.kind.name)

    @property
    def parts(self) -> tuple[AnySource, ...]:
        """The sources that it combines; only itself if there are none."""
        return tuple(self.kind.parts(self.settings)) or (self,)

    @property
    def has_questions(self) -> bool:
        """Whether it contains questions on passages, or is built from them."""
        return self.kind.of_questions or any(part.has_questions for part in self.kind.parts(self.settings))

    @property
    def one_text(self) -> bool:
        """Whether the text of one language can be requested; otherwise it is a pair in the task's languages."""
        return self.kind.one_text(self.settings)

    @model_validator(mode="after")
    def _one_kind(self) -> AnySource:
        kinds = [name for name in self.kinds if getattr(self, name)]
        if len(kinds) != 1:
            raise ValueError(f"give exactly one of {', '.join(self.kinds)} (given: {', '.join(kinds) or 'none'})")
        (name,) = kinds
        takes = self.kinds[name].takes
        if self.languages and "languages" not in takes:
            raise ValueError("languages applies to a folder only: other kinds name their own")
        if self.documents and "documents" not in takes:
            raise ValueError("documents: blank-lines applies to a folder or files only; `plain` has its own setting")
        if self.limit and "limit" not in takes:
            raise ValueError(f"limit applies to one corpus: give it in each part of {name}")
        return self


def by_language(source: AnySource, kind: str, setting: str, names: Mapping[str, str]) -> dict[str, AnySource]:
    """The source with one language alone, for each. names: those that `setting` of its kind gives to the languages."""
    settings: Settings = getattr(source, kind)
    return {
        code: source.model_copy(update={kind: settings.model_copy(update={setting: {code: name}})})
        for code, name in names.items()
    }


@dataclass(frozen=True)
class Request:
    """What a kind of source is resolved for; `registry.resolve` describes the attributes."""

    source: AnySource
    languages: Languages | None
    base: Path
    pairing: Pairing | None
    progress: DownloadCallback | None

    @property
    def settings(self) -> Any:
        return self.source.settings

    @property
    def limit(self) -> Mapping[Split, int]:
        return self.source.limit

    @property
    def pair(self) -> Languages:
        """The languages of a task, for kinds of source that do not name languages."""
        if self.languages is None:
            kinds = self.source.kinds.values()
            *first, last = (
                f"{kind.name} (with languages)" if "languages" in kind.takes else kind.name
                for kind in kinds
                if kind.names_languages
            )
            hint = f"Only {', '.join(first)} and {last} define their own fields."
            raise UserError(f"{self.source.kind.name} needs the languages of a task", where="languages", hint=hint)
        return self.languages

    def fields(self, files: Mapping[Split, tuple[Any, ...]]) -> tuple[Field, ...]:
        """The fields of the files of a split: source and target, or source alone."""
        return pair_fields(self.pair, two=any(len(paths) == 2 for paths in files.values()))

    def part(self, source: AnySource, languages: Languages | None) -> ResolvedSource:
        """A source that this one is made of."""
        return source.kind.resolve(replace(self, source=source, languages=languages))
