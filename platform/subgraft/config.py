"""What an experiment is: every setting, typed and frozen. Reading it from YAML is `configfile`'s part."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Split = Literal["train", "dev", "test"]
SideName = Literal["encoder", "decoder"]
VocabularyKind = Literal["unigram", "bpe", "wordpiece"]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Settings(BaseModel):
    """Base of every group of settings: frozen, and unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Languages(Settings):
    source: str
    target: str


class UrlFile(Settings):
    """A file to download; `sha256` is of the bytes as downloaded."""

    url: str
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class CorpusSource(Settings):
    """Where a corpus comes from: exactly one of the five.

    generated: a domain of the built-in corpus.  folder: {train,dev,test}.{language}[.gz], looked up beside the
    configuration file, then under SUBGRAFT_DATA.  files: paths per split, source then target (or one, monolingual).
    urls: the same as downloads.  mtdata: a dataset id per split.
    """

    generated: Literal["everyday", "law"] | None = None
    folder: str | None = None
    files: dict[Split, tuple[str, ...]] | None = None
    urls: dict[Split, tuple[UrlFile, ...]] | None = None
    mtdata: dict[Split, str] | None = None
    limit: dict[Split, Annotated[int, Field(gt=0)]] = {}

    @model_validator(mode="after")
    def _exactly_one(self) -> CorpusSource:
        given = [name for name in ("generated", "folder", "files", "urls", "mtdata") if getattr(self, name)]
        if len(given) != 1:
            raise ValueError(
                f"give exactly one of generated, folder, files, urls, mtdata (given: {', '.join(given) or 'none'})"
            )
        return self


class Cleaning(Settings):
    """Rules a training pair must pass; dev and test are only stripped, never filtered.

    Lengths are characters of either side; the ratio is the longer side over the shorter.
    """

    min_characters: Annotated[int, Field(ge=1)] = 1
    max_characters: Annotated[int, Field(ge=1)] = 1000
    max_ratio: Annotated[float, Field(ge=1.0)] = 5.0
    drop_identical: bool = False
    deduplicate: bool = True
    drop_held_out: bool = True
