"""Corpora of documents, built from records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from subgraft.config.corpora import Cleaning
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.text.corpus import Corpus


def documents_of(folder: Path, *documents: Sequence[str]) -> Corpus:
    """A corpus in English with these sentences, document by document."""
    (folder / "in").mkdir(parents=True)
    rows = [{"doc": f"d{number}", "text": list(lines)} for number, lines in enumerate(documents)]
    (folder / "in" / "train.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    fields = {"text": {"language": "en"}}
    source = CorpusSource.model_validate(
        {"records": {"folder": str(folder / "in"), "fields": fields, "document": "doc"}}
    )
    return build(source, None, Cleaning(deduplicate=False), folder / "out")
