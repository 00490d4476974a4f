"""Several corpora that are cleaned as one."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pydantic import model_validator

from subgraft.base.errors import UserError
from subgraft.config.settings_base import Count, Settings, Split
from subgraft.data.sources.kind import Request, SourceKind
from subgraft.data.sources.resolved_corpus import ResolvedSource, SeveralSources
from subgraft.data.sources.texts import TextsSource
from subgraft.data.text.fields import Place, Sides, texts

if TYPE_CHECKING:  # the registry makes it of the settings of all kinds
    from subgraft.data.sources.kind import AnySource as CorpusSource


class Together(Settings):
    """together: several corpora cleaned as one, all with documents or all without; each part has its own limit.
    multipliers: for together: how often each part's training segments are read after cleaning; once by default.
    """

    together: tuple[CorpusSource, ...] | None = None
    multipliers: tuple[Count, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Together:
        parts = self.together or ()
        if excluded := sorted({part.kind.name for part in parts if not part.kind.in_together}):
            raise ValueError(f"together cannot have parts of kind {', '.join(excluded)}")
        if self.multipliers and len(self.multipliers) != len(parts):
            raise ValueError(
                f"multipliers has {len(self.multipliers)} numbers, but together has {len(parts)} parts: "
                "give one number for each"
            )
        return self


@dataclass(frozen=True)
class TogetherSource(SeveralSources):
    """The segments of all parts; a part without a split adds nothing to it. All parts have the same number of sides.

    Training text has one part after the other, so that neighbouring segments stay together. In dev and test the parts
    are interleaved in proportion to their sizes, document by document, because trainings are scored on the first
    sentences of dev.
    """

    parts: tuple[ResolvedSource, ...]
    multipliers: tuple[int, ...] = ()

    @property
    def _sources(self) -> Collection[ResolvedSource]:
        return self.parts

    def identity(self) -> dict[str, object]:
        times = {"multipliers": list(self.multipliers)} if self.multipliers else {}
        return {"together": [part.identity() for part in self.parts], **times}

    def read_numbered(self, split: Split) -> Iterator[Sides]:
        """The segments, part after part, each with the part's number as an extra cell or in its document's name."""
        for number, part in enumerate(self.parts):
            if split in part.splits:
                segments = self._part(number, split)
                yield from segments if self.documented else ((*sides, str(number)) for sides in segments)

    def read(self, split: Split) -> Iterator[Sides]:
        return (sides for _, sides in self.read_parts(split))

    def read_parts(self, split: Split) -> Iterator[tuple[int, Sides]]:
        numbers = [number for number, part in enumerate(self.parts) if split in part.splits]
        if split == "train":
            for number in numbers:
                yield from ((number, sides) for sides in self._part(number, split))
            return
        for _, number, segments in heapq.merge(*(self._turns(number, split) for number in numbers)):
            yield from ((number, sides) for sides in segments)

    @property
    def documented(self) -> bool:  # type: ignore[override]
        return any(part.documented for part in self.parts)

    def _part(self, number: int, split: Split) -> Iterator[Sides]:
        """The segments of a part; the names of its documents are unique among all parts."""
        segments = self.parts[number].read(split)
        if not self.documented:
            return segments
        from subgraft.data.text.document_cleaning import name_in_part

        places = ((cells, Place.parse(cells[-1])) for cells in segments)
        return (
            (*cells[:-1], str(Place(name_in_part(place.document, number), place.position))) for cells, place in places
        )

    def _turns(self, number: int, split: Split) -> Iterator[tuple[float, int, list[Sides]]]:
        """The segments or documents of a part, each with its relative position (0 to 1) and the part's number."""
        size, done = self.parts[number].size(split), 0
        numbered = enumerate(self._part(number, split))
        documented = self.documented
        groups = groupby(numbered, lambda item: Place.parse(item[1][-1]).document if documented else item[0])
        for segments in ([cells for _, cells in group] for _, group in groups):
            yield (done + len(segments) / 2) / size, number, segments
            done += len(segments)


def _resolve(request: Request) -> ResolvedSource:
    parts = tuple(request.part(part, request.languages) for part in request.settings)
    if len({part.monolingual for part in parts}) > 1:
        raise UserError("some parts have one side and some have two: they cannot form one corpus", where="together")
    fields = parts[0].fields
    if any(part.fields != fields or isinstance(part, TextsSource) for part in parts) or len(texts(fields)) < len(
        fields
    ):
        what = "every part must be a parallel text or a text of one language, with the same texts and nothing else"
        raise UserError(what, where="together")
    if len({part.documented for part in parts}) > 1:
        what = "some parts have documents, some have none"
        raise UserError(what, where="together", hint="Set `documents: blank-lines` for those that lack them.")
    source: Any = request.source
    return TogetherSource(fields, {}, parts, source.multipliers)


TOGETHER = SourceKind(
    name="together",
    fields=Together,
    resolve=_resolve,
    takes=(),
    parts=tuple,
    in_together=False,
    one_text=lambda parts: all(part.one_text for part in parts),
)
