"""Settings of corpora: where text comes from."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import Field, model_validator

from subgraft.config.corpora import Languages
from subgraft.config.settings_base import Count, Settings, Split
from subgraft.config.source_files import ColumnFiles, FeatureFiles, PlainTexts, RecordFiles, UrlFile, VerseFiles
from subgraft.data.sources.labelled_files import LabelledFiles

SourceKind = Literal[
    "generated",
    "folder",
    "files",
    "urls",
    "mtdata",
    "squad",
    "columns",
    "together",
    "records",
    "conversations",
    "labelled",
    "features",
    "verses",
    "plain",
    "texts",
]


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


SOURCE_KINDS: tuple[SourceKind, ...] = get_args(SourceKind)


class CorpusSource(Settings):
    """The source of a corpus: exactly one of these kinds.

    generated: a domain of the built-in corpus.
    folder: a folder with {train,dev,test}.{language}[.gz], next to the configuration or under SUBGRAFT_DATA; for pairs
    in one language, {train,dev,test}.{source,target}[.gz].
    files: paths per split, source then target (or one, monolingual).
    urls: files to download, as in `files`.
    mtdata: a dataset id per split.
    squad: questions in SQuAD's JSON format: a folder with {train,dev,test}.json[.gz], or a path per split.
    columns: pairs in columns of a file.
    together: several corpora cleaned as one, all with documents or all without; each part has its own limit.
    multipliers: for together: how often each part's training segments are read after cleaning; once by default.
    records: named fields (texts, labels, spans, tensors) in files, which may form documents.
    conversations: turns of users and assistants, for `task: chat`.
    labelled: labelled examples: classes, numbers, choices, answers, tags, ranked candidates, relations, types.
    features: precomputed features, and a text for each.
    verses: translations of one book.
    plain: text by language, split here.
    texts: a corpus for each language, not parallel.
    languages: the languages of a folder with more than two, whose files are aligned line by line.
    limit: the maximum number of segments of a split, evenly spaced; documents stay complete.
    documents: for a folder or files: blank lines end documents.
    """

    generated: Literal["everyday", "law"] | None = None
    folder: str | None = None
    files: dict[Split, tuple[str, ...]] | None = None
    urls: dict[Split, tuple[UrlFile, ...]] | None = None
    mtdata: dict[Split, str] | None = None
    squad: str | dict[Split, str] | None = None
    columns: ColumnFiles | None = None
    together: tuple[CorpusSource, ...] | None = None
    multipliers: tuple[Count, ...] = ()
    records: RecordFiles | None = None
    conversations: ConversationFiles | None = None
    labelled: LabelledFiles | None = None
    features: FeatureFiles | None = None
    verses: VerseFiles | None = None
    plain: PlainTexts | None = None
    texts: dict[str, CorpusSource] | None = None
    languages: tuple[str, ...] | None = None
    limit: dict[Split, Count] = Field(default_factory=dict)
    documents: Literal["blank-lines"] | None = None

    @property
    def parts(self) -> tuple[CorpusSource, ...]:
        """The corpora that it combines; only itself unless its kind is `together`."""
        return self.together or (self,)

    @property
    def has_questions(self) -> bool:
        """Whether it contains questions on passages, or conversations that are built from them."""
        conversations = self.conversations
        return bool(self.squad or (conversations and conversations.pairs and conversations.pairs.squad))

    @property
    def kind(self) -> SourceKind:
        """The kind that is set."""
        return next(kind for kind in SOURCE_KINDS if getattr(self, kind))

    @model_validator(mode="after")
    def _one_kind(self) -> CorpusSource:
        kinds = [kind for kind in SOURCE_KINDS if getattr(self, kind)]
        if len(kinds) != 1:
            raise ValueError(f"give exactly one of {', '.join(SOURCE_KINDS)} (given: {', '.join(kinds) or 'none'})")
        if self.languages and kinds != ["folder"]:
            raise ValueError("languages applies to a folder only: other kinds name their own")
        if self.documents and kinds[0] not in ("folder", "files"):
            raise ValueError("documents: blank-lines applies to a folder or files only; `plain` has its own setting")
        if self.together and self.limit:
            raise ValueError("limit applies to one corpus: give it in the parts of together")
        excluded = ("together", "squad", "conversations", "labelled", "features", "texts")
        if self.together and any(part.kind in excluded for part in self.together):
            raise ValueError(f"together cannot have parts of kind {', '.join(excluded)}")
        if self.multipliers and len(self.multipliers) != len(self.together or ()):
            raise ValueError(
                f"multipliers has {len(self.multipliers)} numbers, but together has {len(self.together or ())} parts: "
                "give one number for each"
            )
        if self.texts and self.limit:
            raise ValueError("limit applies to one text: give it in each of texts")
        return self


ConversationFiles.model_rebuild()
