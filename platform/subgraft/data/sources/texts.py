"""Texts in several languages that are not parallel: each is read, cleaned and counted for itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.settings_base import Settings
from subgraft.data.sources.kind import Request, SourceKind
from subgraft.data.sources.resolved_corpus import ResolvedSource, SeveralSources
from subgraft.data.text.fields import select_fields, text_fields

if TYPE_CHECKING:  # the registry makes it of the settings of all kinds
    from subgraft.data.sources.kind import AnySource as CorpusSource


class Texts(Settings):
    """texts: a corpus for each language, not parallel."""

    texts: dict[str, CorpusSource] | None = None


@dataclass(frozen=True)
class TextsSource(SeveralSources):
    """Texts in several languages that are not parallel: read, cleaned and counted separately.

    `parts` has the source of each field; `read` concatenates them.
    """

    parts: Mapping[str, ResolvedSource]

    @property
    def parallel(self) -> bool:
        return False

    def identity(self) -> dict[str, object]:
        return {"texts": {name: part.identity() for name, part in self.parts.items()}}

    @property
    def _sources(self) -> Collection[ResolvedSource]:
        return self.parts.values()


def not_parallel(parts: Mapping[str, ResolvedSource]) -> ResolvedSource:
    """One text, or several that are not parallel."""
    if len(parts) == 1:
        return next(iter(parts.values()))
    return TextsSource(tuple(field for part in parts.values() for field in part.fields), {}, parts)


def _resolve(request: Request) -> ResolvedSource:
    fields = select_fields(request.languages, text_fields(request.settings), "texts")
    parts: dict[str, ResolvedSource] = {}
    for code, field in fields.items():
        part = request.part(request.settings[code], Languages(source=code, target=code))
        if len(part.fields) > 1:
            raise UserError("one text is expected for each language", where=f"texts.{code}")
        parts[field.name] = replace(part, fields=(field,))
    return not_parallel(parts)


TEXTS = SourceKind(
    name="texts",
    fields=Texts,
    resolve=_resolve,
    takes=(),
    names_languages=True,
    by_language=lambda source: source.texts,
    parts=lambda texts: texts.values(),
    in_together=False,
)
