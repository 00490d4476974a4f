"""Files to download, in place of files on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from subgraft.base.progress import DownloadCallback
from subgraft.config.settings_base import Settings, Split
from subgraft.data.sources.files import check_sides
from subgraft.data.sources.kind import Request, SourceKind
from subgraft.data.sources.resolved_corpus import ResolvedSource, SplitFilesSource


class UrlFile(Settings):
    """A file to download.

    url: its address; the file is plain text or gzipped.
    sha256: the digest of the downloaded bytes; any other file is refused.
    """

    url: str
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Urls(Settings):
    """urls: files to download, as in `files`."""

    urls: dict[Split, tuple[UrlFile, ...]] | None = None


@dataclass(frozen=True)
class UrlSource(SplitFilesSource):
    """Files to download, identified by their declared digests, like the same files on disk."""

    files: Mapping[Split, tuple[UrlFile, ...]]
    progress: DownloadCallback | None = None

    on_disk = False

    def _origin(self) -> dict[str, object]:
        return {"files": {split: [file.sha256 for file in self.files[split]] for split in self.splits}}

    def paths(self, split: Split) -> tuple[Path, ...]:
        from subgraft.base.security.downloads import fetch

        return tuple(fetch(file, progress=self.progress) for file in self.files[split])


def _resolve(request: Request) -> ResolvedSource:
    check_sides({split: len(urls) for split, urls in request.settings.items()}, request.pair, "urls")
    return UrlSource(request.fields(request.settings), request.limit, request.settings, request.progress)


URLS = SourceKind(
    name="urls",
    fields=Urls,
    resolve=_resolve,
    one_text=lambda urls: max(map(len, urls.values())) == 1,
)
