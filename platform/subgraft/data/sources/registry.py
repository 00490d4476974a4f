"""The kinds of corpus source: one function per kind that resolves its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.settings_base import Split
from subgraft.config.source_files import PlainTexts
from subgraft.data.corpora import ConversationFiles, CorpusSource, SourceKind
from subgraft.data.sources import download, labelled
from subgraft.data.sources.conversations import ConversationsSource, PairsAsConversations, conversation_fields
from subgraft.data.sources.file_sources import (
    GENERATED_LANGUAGES,
    FeaturesSource,
    FileSource,
    GeneratedSource,
    MtdataSource,
    TogetherSource,
    UrlSource,
)
from subgraft.data.sources.monolingual import PlainSource, TextsSource
from subgraft.data.sources.paths import find, find_file, pair_codes, plain_or_zipped, single_files, split_files
from subgraft.data.sources.plain_documents import BlankLinesSource, PlainDocumentsSource, document_files
from subgraft.data.sources.records import ColumnsSource, RecordsSource
from subgraft.data.sources.resolved_corpus import ResolvedSource
from subgraft.data.sources.squad import Pairing, SquadSource
from subgraft.data.sources.verses import VersesSource
from subgraft.data.text.corpus import RECORD, Corpus
from subgraft.data.text.fields import Field, pair_fields, select_fields, texts


def resolve(
    source: CorpusSource,
    languages: Languages | None,
    base: Path,
    *,
    pairing: Pairing | None = None,
    progress: download.Progress | None = None,
) -> ResolvedSource:
    """Find a corpus, without downloading anything yet.

    Args:
        languages: The task's languages, whose texts become the fields `source` and `target`; equal ones mean one text,
            unless the source has two. None: all fields, with the names of the source.
        base: The folder of relative paths, searched before SUBGRAFT_DATA.
        pairing: How the task turns a question into a pair, for questions.
        progress: Called during later downloads.

    Raises:
        UserError: The corpus was not found; the message has the searched paths.
    """
    return _FINDERS[source.kind](_ResolveRequest(source, languages, base, pairing, progress))


@dataclass(frozen=True)
class _ResolveRequest:
    """The arguments of `resolve`, for the function of each kind."""

    source: CorpusSource
    languages: Languages | None
    base: Path
    pairing: Pairing | None
    progress: download.Progress | None

    @property
    def settings(self) -> Any:
        """The settings of the source's kind."""
        return getattr(self.source, self.source.kind)

    @property
    def limit(self) -> Mapping[Split, int]:
        return self.source.limit

    @property
    def pair(self) -> Languages:
        """The languages of a task, for kinds of source that do not name languages."""
        if self.languages is None:
            hint = "Only folder (with languages), records, verses, plain and texts define their own fields."
            raise UserError(f"{self.source.kind} needs the languages of a task", where="languages", hint=hint)
        return self.languages

    def fields(self, files: Mapping[Split, tuple[Any, ...]]) -> tuple[Field, ...]:
        """The fields of the files of a split: source and target, or source alone."""
        return pair_fields(self.pair, two=any(len(paths) == 2 for paths in files.values()))

    def of_files(self, fields: tuple[Field, ...], files: Mapping[Split, tuple[Path, ...]]) -> FileSource:
        """A source of one file per field, in which blank lines end documents if `documents` is set."""
        kind = FileSource if self.source.documents is None else BlankLinesSource
        return kind(fields, self.limit, files)

    def part(self, source: CorpusSource, languages: Languages | None) -> ResolvedSource:
        return _FINDERS[source.kind](replace(self, source=source, languages=languages))


def _generated(request: _ResolveRequest) -> ResolvedSource:
    languages = request.pair
    if {languages.source, languages.target} != set(GENERATED_LANGUAGES):
        direction = f"{languages.source} to {languages.target}"
        raise UserError(f"the generated corpus is English and German (en, de), not {direction}", where="languages")
    return GeneratedSource(pair_fields(languages, two=True), request.limit, request.settings)


def _folder(request: _ResolveRequest) -> ResolvedSource:
    folder, codes = find(request.settings, request.base), request.source.languages
    if (folder / RECORD).is_file():
        return _built(request, Corpus.open(folder))
    if codes is None:
        files = split_files(folder, pair_codes(folder, request.pair))
        return request.of_files(request.fields(files), files)
    fields = select_fields(request.languages, [Field(code, language=code) for code in codes], str(folder))
    return request.of_files(tuple(fields.values()), split_files(folder, tuple(fields)))


def _built(request: _ResolveRequest, corpus: Corpus) -> ResolvedSource:
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
    return _texts_of(parts)


def _built_text(request: _ResolveRequest, corpus: Corpus, fields: Mapping[str, Field]) -> FileSource:
    names = list(fields)
    documented = corpus.has_documents(names[0])
    files: dict[Split, tuple[Path, ...]] = {}
    for split in corpus.splits:
        if corpus.size(split, names[0]):
            paths = [corpus.file(split, name) for name in names]
            places = [corpus.documents_file(split, names[0])] if documented else []
            files[split] = (*paths, *places)  # type: ignore[index]
    return FileSource(tuple(fields.values()), request.limit, files, documented, corpus.labelled)


def _files(request: _ResolveRequest) -> ResolvedSource:
    _check_sides({split: len(files) for split, files in request.settings.items()}, request.pair, "files")
    files = {split: tuple(find_file(name, request.base) for name in names) for split, names in request.settings.items()}
    return request.of_files(request.fields(files), files)


def _urls(request: _ResolveRequest) -> ResolvedSource:
    _check_sides({split: len(urls) for split, urls in request.settings.items()}, request.pair, "urls")
    return UrlSource(request.fields(request.settings), request.limit, request.settings, request.progress)


def _mtdata(request: _ResolveRequest) -> ResolvedSource:
    fields = pair_fields(request.pair, two=request.pair.source != request.pair.target)
    return MtdataSource(fields, request.limit, request.settings, request.pair)


def _squad(request: _ResolveRequest) -> ResolvedSource:
    if request.pairing is None:
        raise UserError("squad contains questions, which only `task: question-generation` reads", where="corpora")
    files = _one_file_per_split(request.settings, "json", request.base)
    return SquadSource(pair_fields(request.pair, two=True), request.limit, files, request.pairing)


def _columns(request: _ResolveRequest) -> ResolvedSource:
    files = _one_file_per_split(
        request.settings.folder or request.settings.files, _ending(request.settings.named), request.base
    )
    return ColumnsSource(pair_fields(request.pair, two=True), request.limit, files, request.settings)


def _together(request: _ResolveRequest) -> ResolvedSource:
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
    return TogetherSource(parts[0].fields, {}, parts, request.source.multipliers)


def _records(request: _ResolveRequest) -> ResolvedSource:
    settings = request.settings
    declared = [
        Field(name, field.kind, (field.language or name) if field.kind == "text" else None, field.of)
        for name, field in settings.fields.items()
    ]
    fields = select_fields(request.languages, declared, "records.fields")
    files = _one_file_per_split(settings.folder or settings.files, _ending(not settings.numbered), request.base)
    return RecordsSource(tuple(fields.values()), request.limit, files, settings, tuple(fields))


def _conversations(request: _ResolveRequest) -> ResolvedSource:
    """The text of all turns, in the target language of the task, and the turns."""
    settings: ConversationFiles = request.settings
    fields = conversation_fields(request.pair.target)
    if (paths := settings.folder or settings.files) is not None:
        files = _one_file_per_split(paths, "jsonl", request.base)
        return ConversationsSource(fields, request.limit, files, settings)
    assert settings.pairs is not None  # one of the three is set
    pairs = request.part(settings.pairs, settings.languages or request.languages)
    if [field.name for field in pairs.fields] != ["source", "target"] or pairs.documented:
        hint = "Name the languages of its two texts: conversations: {pairs: …, languages: {source: en, target: fr}}."
        raise UserError("pairs of texts are expected", where="conversations.pairs", hint=hint)
    return PairsAsConversations(fields, request.limit, pairs, settings)


def _labelled(request: _ResolveRequest) -> ResolvedSource:
    return labelled.resolve(request.settings, request.pair, request.base, request.limit)


def _features(request: _ResolveRequest) -> ResolvedSource:
    settings, folder = request.settings, find(request.settings.folder, request.base)
    texts = {split: paths[0] for split, paths in split_files(folder, (request.pair.target,)).items()}
    fields = (Field("source", language=request.pair.target), Field(settings.tensor, kind="tensor"))
    return FeaturesSource(fields, request.limit, texts)


def _verses(request: _ResolveRequest) -> ResolvedSource:
    settings, folder = request.settings, find(request.settings.folder, request.base)
    fields = select_fields(request.languages, _texts_in(settings.translations), "verses.translations")
    paths = {code: _existing(folder / f"{settings.translations[code]}.tsv") for code in fields}
    if settings.aligned:
        return VersesSource(tuple(fields.values()), request.limit, tuple(paths.values()), settings)
    return _texts_of(
        {field.name: VersesSource((field,), request.limit, (paths[code],), settings) for code, field in fields.items()}
    )


def _plain(request: _ResolveRequest) -> ResolvedSource:
    settings = request.settings
    fields = select_fields(request.languages, _texts_in(settings.names), "plain.languages")
    if settings.documents is not None:
        files_of = {code: _files_of(settings, settings.names[code], request.base) for code in fields}
        documents = partial(PlainDocumentsSource, limit=request.limit, settings=settings)
        return _texts_of(
            {field.name: documents(fields=(field,), files=files_of[code]) for code, field in fields.items()}
        )
    if settings.tagged is not None:
        file_of = dict.fromkeys(fields, find_file(settings.tagged, request.base))
    else:
        folder = find(settings.folder, request.base)
        file_of = {code: _existing(folder / f"{settings.names[code]}.txt") for code in fields}
    make = partial(PlainSource, limit=request.limit, settings=settings)
    return _texts_of(
        {
            field.name: make(fields=(field,), files=(file_of[code],), name=settings.names[code])
            for code, field in fields.items()
        }
    )


def _files_of(settings: PlainTexts, name: str, base: Path) -> tuple[Path, ...]:
    """The file with a language's documents, or the file of each."""
    assert settings.folder is not None  # documents are not in tagged lines
    folder = find(settings.folder, base)
    return document_files(folder, name) if settings.documents == "files" else (_existing(folder / f"{name}.txt"),)


def _texts(request: _ResolveRequest) -> ResolvedSource:
    fields = select_fields(request.languages, _texts_in(request.settings), "texts")
    parts: dict[str, ResolvedSource] = {}
    for code, field in fields.items():
        part = request.part(request.settings[code], Languages(source=code, target=code))
        if len(part.fields) > 1:
            raise UserError("one text is expected for each language", where=f"texts.{code}")
        parts[field.name] = replace(part, fields=(field,))
    return _texts_of(parts)


def _texts_of(parts: Mapping[str, ResolvedSource]) -> ResolvedSource:
    """One text, or several that are not parallel."""
    if len(parts) == 1:
        return next(iter(parts.values()))
    return TextsSource(tuple(field for part in parts.values() for field in part.fields), {}, parts)


_FINDERS: Mapping[SourceKind, Callable[[_ResolveRequest], ResolvedSource]] = {
    "generated": _generated,
    "folder": _folder,
    "files": _files,
    "urls": _urls,
    "mtdata": _mtdata,
    "squad": _squad,
    "columns": _columns,
    "together": _together,
    "records": _records,
    "conversations": _conversations,
    "labelled": _labelled,
    "features": _features,
    "verses": _verses,
    "plain": _plain,
    "texts": _texts,
}


def _texts_in(codes: Mapping[str, Any]) -> list[Field]:
    """A text field for each language, named by its code, in the order of codes."""
    return [Field(code, language=code) for code in sorted(codes)]


def _existing(path: Path) -> Path:
    existing = plain_or_zipped(path)
    if existing is None:
        available = sorted(each.name for each in path.parent.glob(f"*{path.suffix}*"))
        hint = f"The folder has: {', '.join(available[:8])}{', …' if len(available) > 8 else ''}." if available else ""
        raise UserError(f"no such file: {path.name}[.gz]", where=str(path.parent), hint=hint)
    return existing


def _ending(named: bool) -> str:
    return "jsonl" if named else "tsv"


def _one_file_per_split(paths: str | Mapping[Split, str], ending: str, base: Path) -> Mapping[Split, Path]:
    if isinstance(paths, str):
        return single_files(find(paths, base), ending)
    return {split: find_file(name, base) for split, name in paths.items()}


def _check_sides(counts: Mapping[Split, int], languages: Languages, kind: str) -> None:
    """Two languages need two files per split; one language needs one or two, the same number in every split."""
    two = languages.source != languages.target or max(counts.values()) == 2
    for split, count in counts.items():
        if count != 1 + two:
            what = "two files, source then target" if two else "one file, as both languages are the same, or a pair"
            raise UserError(f"{count} given; expected {what}", where=f"{kind}.{split}")
