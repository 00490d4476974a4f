"""Features computed by an external encoder, and a text for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from subgraft.config.settings_base import Settings, Split
from subgraft.data.sources.kind import Request, SourceKind
from subgraft.data.sources.paths import find, split_files
from subgraft.data.sources.resolved_corpus import ResolvedSource, SplitFilesSource
from subgraft.data.text import reading
from subgraft.data.text.fields import Field, FieldName, Sides


class FeatureFiles(Settings):
    """Features computed by an external encoder, and a text for each example.

    folder: a folder with {train,dev,test}.safetensors and, for each, the texts {train,dev,test}.{language}[.gz], a line
    for each example.
    tensor: the name of the features in a file: [N, n, k] or [N, k] of N examples, or [m, k] with a tensor `rows` [N] of
    the number of rows of each. Without it, each example has its own tensor, named 0, 1, …
    """

    folder: str
    tensor: FieldName = "features"


class FeaturesOfText(Settings):
    """features: precomputed features, and a text for each."""

    features: FeatureFiles | None = None


@dataclass(frozen=True)
class FeaturesSource(SplitFilesSource):
    """A file of texts for each split, and a safetensors file next to it; the fields are the text and the features."""

    files: Mapping[Split, Path]

    def paths(self, split: Split) -> tuple[Path, ...]:
        return self.files[split], self.tensor(split, self._name)

    def tensor(self, split: Split, name: str) -> Path:
        return self.files[split].parent / f"{split}.safetensors"

    @property
    def _name(self) -> str:
        return self.fields[1].name

    def _origin(self) -> dict[str, object]:
        return {"features": self._name, "files": self._digests}

    def _segments(self, split: Split) -> Iterator[Sides]:
        return ((line, str(row)) for row, line in enumerate(reading.lines(self.files[split])))

    def _count_split(self, split: Split) -> int:
        """Count the examples and validate all features, so that no training fails later."""
        from subgraft.data.text.features import validate_features

        count, name = self._count_segments(split), self._name
        validate_features({each: self.tensor(each, name) for each in self.splits}, split, name, count)
        return count


def _resolve(request: Request) -> ResolvedSource:
    settings, folder = request.settings, find(request.settings.folder, request.base)
    texts = {split: paths[0] for split, paths in split_files(folder, (request.pair.target,)).items()}
    fields = (Field("source", language=request.pair.target), Field(settings.tensor, kind="tensor"))
    return FeaturesSource(fields, request.limit, texts)


FEATURES = SourceKind(name="features", fields=FeaturesOfText, resolve=_resolve, in_together=False)
