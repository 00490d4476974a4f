"""All kinds of corpus source, and the settings of a source of any of them.

To add one: a module like `columns.py` and, here, its entry.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import create_model

from subgraft.base.progress import DownloadCallback
from subgraft.config.corpora import Languages
from subgraft.config.settings_base import groups_in
from subgraft.data.sources.bilingual import BILINGUAL
from subgraft.data.sources.columns import COLUMNS
from subgraft.data.sources.conversations import CONVERSATIONS
from subgraft.data.sources.features import FEATURES
from subgraft.data.sources.files import FILES
from subgraft.data.sources.folder import FOLDER
from subgraft.data.sources.generated.corpus import GENERATED
from subgraft.data.sources.kind import AnySource, Pairing, Request, SourceKind
from subgraft.data.sources.labelled import LABELLED
from subgraft.data.sources.mtdata import MTDATA
from subgraft.data.sources.plain import PLAIN
from subgraft.data.sources.records import RECORDS
from subgraft.data.sources.resolved_corpus import ResolvedSource
from subgraft.data.sources.squad import SQUAD
from subgraft.data.sources.texts import TEXTS
from subgraft.data.sources.together import TOGETHER
from subgraft.data.sources.urls import URLS
from subgraft.data.sources.verses import VERSES

# In the order of documents and messages.
ENTRIES: tuple[SourceKind, ...] = (
    GENERATED,
    FOLDER,
    FILES,
    URLS,
    MTDATA,
    SQUAD,
    COLUMNS,
    BILINGUAL,
    TOGETHER,
    RECORDS,
    CONVERSATIONS,
    LABELLED,
    FEATURES,
    VERSES,
    PLAIN,
    TEXTS,
)
# The settings of all kinds; fields are in the reverse order of these classes.
_OfKinds: Any = create_model("OfKinds", __base__=tuple(kind.fields for kind in reversed(ENTRIES)))


class CorpusSource(AnySource, _OfKinds):  # type: ignore[misc]  # of groups that the table names
    """The source of a corpus: exactly one of these kinds."""

    kinds = {kind.name: kind for kind in ENTRIES}  # noqa: RUF012


CorpusSource.model_rebuild()
for _field in CorpusSource.model_fields.values():
    for _group in groups_in(_field.annotation):
        _group.model_rebuild()  # settings of a kind that is made of other sources name this class


def resolve(
    source: AnySource,
    languages: Languages | None,
    base: Path,
    *,
    pairing: Pairing | None = None,
    progress: DownloadCallback | None = None,
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
    return source.kind.resolve(Request(source, languages, base, pairing, progress))
