"""A folder of parallel files, or of a corpus that `corpora get` wrote."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from subgraft.base.errors import UserError
from subgraft.config.settings_base import Settings, Split
from subgraft.data.sources.files import FileSource, source_of
from subgraft.data.sources.kind import AnySource, Request, SourceKind
from subgraft.data.sources.paths import find, pair_codes, split_files
from subgraft.data.sources.resolved_corpus import ResolvedSource
from subgraft.data.sources.texts import not_parallel
from subgraft.data.text.fields import Field, pair_fields, select_fields

if TYPE_CHECKING:
    from subgraft.data.text.corpus import Corpus


class Folder(Settings):
    """folder: a folder with {train,dev,test}.{language}[.gz], next to the configuration or under SUBGRAFT_DATA; for
    pairs in one language, {train,dev,test}.{source,target}[.gz].
    """

    folder: str | None = None


def _resolve(request: Request) -> ResolvedSource:
    from subgraft.data.text.corpus import RECORD, Corpus

    folder, codes = find(request.settings, request.base), request.source.languages
    if (folder / RECORD).is_file():
        return _built(request, Corpus.open(folder))
    if codes is None:
        files = split_files(folder, pair_codes(folder, request.pair))
        return source_of(request, request.fields(files), files)
    fields = select_fields(request.languages, [Field(code, language=code) for code in codes], str(folder))
    return source_of(request, tuple(fields.values()), split_files(folder, tuple(fields)))


def _built(request: Request, corpus: Corpus) -> ResolvedSource:
    """A folder that `corpora get` wrote."""
    folder = corpus.directory
    if corpus.is_pair and request.languages is not None:
        # The task decides the languages of the sides.
        languages = request.languages
        same_language = not corpus.monolingual and len(set(corpus.languages)) == 1
        two = same_language or languages.source != languages.target
        names = ("source", "target")[: 1 + two]
        if not two and corpus.languages[0] != languages.source == corpus.languages[-1]:
            names = ("target",)
        files = split_files(folder, names)
        return FileSource(pair_fields(languages, two=two), request.limit, files)
    if any(field.kind == "tensor" for field in corpus.fields):
        raise UserError(
            "tensor fields are read from records, not from a corpus that was built from them", where=str(folder)
        )
    # The fields of labelled examples have their roles already, and there may be more than two texts.
    fields = select_fields(None if corpus.labelled else request.languages, corpus.fields, str(folder))
    if corpus.aligned:
        return _built_text(request, corpus, fields)
    parts = {field.name: _built_text(request, corpus, {name: field}) for name, field in fields.items()}
    return not_parallel(parts)


def _built_text(request: Request, corpus: Corpus, fields: Mapping[str, Field]) -> FileSource:
    names = list(fields)
    documented = corpus.has_documents(names[0])
    files: dict[Split, tuple[Path, ...]] = {}
    for split in corpus.splits:
        if corpus.size(split, names[0]):
            paths = [corpus.file(split, name) for name in names]
            places = [corpus.documents_file(split, names[0])] if documented else []
            files[split] = (*paths, *places)  # type: ignore[index]
    return FileSource(tuple(fields.values()), request.limit, files, documented, corpus.labelled)


def _by_language(source: AnySource) -> dict[str, AnySource]:
    return {code: source.model_copy(update={"languages": (code,)}) for code in source.languages or ()}


FOLDER = SourceKind(
    name="folder",
    fields=Folder,
    resolve=_resolve,
    takes=("languages", "limit", "documents"),
    names_languages=True,
    by_language=_by_language,
)
