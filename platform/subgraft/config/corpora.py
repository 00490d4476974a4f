"""Settings of corpora: where text comes from, and what of it is kept."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from subgraft.config.base import Settings, Split


class Languages(Settings):
    source: str
    target: str


class UrlFile(Settings):
    """A file to download; `sha256` is of the bytes as downloaded."""

    url: str
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class ColumnFiles(Settings):
    """Pairs in columns of a file: tab-separated ones by number, from 1, or fields of JSON lines by name.

    folder: {train,dev,test}.tsv[.gz], or .jsonl[.gz] where columns are named.  files: a path per split.
    source, target: a column, or several, joined by `separator`; of a field that is a list, its first item.
    """

    folder: str | None = None
    files: dict[Split, str] | None = None
    source: int | str | tuple[int | str, ...] = 1
    target: int | str | tuple[int | str, ...] = 2
    separator: str = " "

    @property
    def sides(self) -> tuple[tuple[int | str, ...], tuple[int | str, ...]]:
        """The columns of the source and of the target."""
        source, target = (side if isinstance(side, tuple) else (side,) for side in (self.source, self.target))
        return source, target

    @property
    def named(self) -> bool:
        """Whether columns are fields of JSON lines."""
        return isinstance(self.sides[0][0], str)

    @model_validator(mode="after")
    def _consistent(self) -> ColumnFiles:
        if (self.folder is None) == (self.files is None):
            raise ValueError("give exactly one of folder, files")
        if not all(self.sides):
            raise ValueError("source and target need a column each")
        columns = [column for side in self.sides for column in side]
        if len({isinstance(column, str) for column in columns}) > 1:
            raise ValueError("columns are numbers (tab-separated) or names (JSON lines), not both")
        if any(isinstance(column, int) and column < 1 for column in columns):
            raise ValueError("columns are counted from 1")
        return self


class CorpusSource(Settings):
    """Where a corpus comes from: exactly one of the eight.

    generated: a domain of the built-in corpus.  folder: {train,dev,test}.{language}[.gz], looked up beside the
    configuration file, then under SUBGRAFT_DATA; of a pair in one language, {train,dev,test}.{source,target}[.gz].
    files: paths per split, source then target (or one, monolingual).  urls: the same as downloads.  mtdata: a dataset
    id per split.  squad: questions in SQuAD's JSON, as {train,dev,test}.json[.gz] in a folder or a path per split.
    columns: pairs in columns of a file.  together: several corpora as one, cleaned as one; limits are the parts' own.
    """

    generated: Literal["everyday", "law"] | None = None
    folder: str | None = None
    files: dict[Split, tuple[str, ...]] | None = None
    urls: dict[Split, tuple[UrlFile, ...]] | None = None
    mtdata: dict[Split, str] | None = None
    squad: str | dict[Split, str] | None = None
    columns: ColumnFiles | None = None
    together: tuple[CorpusSource, ...] | None = Field(default=None, exclude_if=lambda given: given is None)
    limit: dict[Split, Annotated[int, Field(gt=0)]] = Field(default_factory=dict)

    @property
    def parts(self) -> tuple[CorpusSource, ...]:
        """The corpora that it is made of, which is itself unless it is several together."""
        return self.together or (self,)

    @model_validator(mode="after")
    def _exactly_one(self) -> CorpusSource:
        kinds = ("generated", "folder", "files", "urls", "mtdata", "squad", "columns", "together")
        given = [name for name in kinds if getattr(self, name)]
        if len(given) != 1:
            raise ValueError(f"give exactly one of {', '.join(kinds)} (given: {', '.join(given) or 'none'})")
        return self

    @model_validator(mode="after")
    def _parts(self) -> CorpusSource:
        if self.together and self.limit:
            raise ValueError("limit is of one corpus: give it to the parts of together")
        if self.together and any(part.together or part.squad for part in self.together):
            raise ValueError("together is of text that lies in one place each, and of no squad")
        return self


class Cleaning(Settings):
    """Rules a training pair must pass; dev and test are only stripped, never filtered.

    Lengths are characters of either side; the ratio is the longer side over the shorter. null: no such rule.
    """

    min_characters: Annotated[int, Field(ge=1)] = 1
    max_characters: Annotated[int, Field(ge=1)] | None = 1000
    max_ratio: Annotated[float, Field(ge=1.0)] | None = 5.0
    drop_identical: bool = False
    deduplicate: bool = True
    drop_held_out: bool = True


class QuestionGenerationSettings(Settings):
    """What a model reads to ask a question: a passage with the answer marked.

    window: characters of the passage that are kept around the answer, marks not counted.  marks: what is written
    before and after the answer; text, which the encoder's vocabulary must be able to spell.
    """

    window: Annotated[int, Field(ge=1)] = 600
    marks: tuple[Annotated[str, Field(pattern=r"^\S+$")], Annotated[str, Field(pattern=r"^\S+$")]] = ('"-', '-"')
