"""The vocabulary that a model had before its transfer, and how its new embeddings were initialised, by its files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from subgraft.base.errors import SubgraftError
from subgraft.base.json_io import object_in
from subgraft.config.settings_base import SideName
from subgraft.modeling.tokenizers import load_tokenizers
from subgraft.orchestration.store.home import default_home
from subgraft.orchestration.store.record import RECORD, Record
from subgraft.pipeline.compute.transfer import ORIGINAL, REPORT
from subgraft.pipeline.stages.models import CheckpointStage, TransferStage
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

SHARED = "copy_shared_tokens"
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Origin:
    """The model before its transfer; a model that was never transferred has its own vocabulary there.

    Attributes:
        model: Its name, if it has one.
        tokenizers: Of each side; empty if they are unknown.
        missing: The reason, in a sentence, if they are unknown.
        methods: The initialiser of each side's new tokens.
        copies_shared: Whether tokens of both vocabularies copied their embeddings.
        trained: Whether the model was trained after the transfer.
    """

    model: str = ""
    tokenizers: Mapping[SideName, Tokenizer] = field(default_factory=dict)
    missing: str = ""
    methods: Mapping[SideName, str] = field(default_factory=dict)
    copies_shared: bool = True
    trained: bool = False


def origin_of(model: Path | str) -> Origin:
    """The origin of a model's directory or hub id."""
    directory = Path(model)
    if (record := _record(directory)) is not None:
        return _by_record(directory, record)
    report = object_in(directory / REPORT)
    methods: dict[SideName, str] = {
        side: each["method"]
        for side in ("encoder", "decoder")
        if isinstance(each := report.get(side), dict) and isinstance(each.get("method"), str)
    }
    if not methods:
        return Origin(missing="The model's files do not say which vocabulary it had before.")
    return _by_report(report.get(ORIGINAL), methods)


def _by_report(original: Any, methods: Mapping[SideName, str]) -> Origin:
    """The origin of a transfer outside of a store, which names the original and the digests of its vocabularies."""
    name = original.get("model") if isinstance(original, dict) else None
    if not isinstance(name, str) or not name:
        missing = f"The model's {REPORT} does not name the model that was transferred."
        return Origin(missing=missing, methods=methods)
    try:
        tokenizers = load_tokenizers(name)
    except SubgraftError as error:
        return Origin(name, missing=f"The original, {name}, cannot be read: {error.what}.", methods=methods)
    if {side: each.fingerprint for side, each in tokenizers.items()} != original.get("vocabularies"):
        return Origin(name, missing=f"The original, {name}, has another vocabulary now.", methods=methods)
    return Origin(name, tokenizers, methods=methods)


def _by_record(directory: Path, record: Record) -> Origin:
    """The origin of an artifact of a store: the input of the last transfer among the steps before it."""
    current, methods, copies, trained = directory, dict[SideName, str](), True, False
    while not methods and "model" in record.inputs:
        if record.stage == TransferStage.stage_name:
            methods, copies = dict.fromkeys(record.recipe["sides"], record.recipe["method"]), record.recipe[SHARED]
        before = _artifact(directory, record.inputs["model"]["fingerprint"])
        earlier = None if before is None else _record(before)
        if before is None or earlier is None:
            missing = "The steps that made the model are no longer in the store, so its original is not known."
            return Origin(missing=missing, methods=methods, copies_shared=copies)
        trained = trained or not methods
        current, record = before, earlier
    digest = str(record.recipe["digest"]) if record.stage == CheckpointStage.stage_name else ""
    name = digest.partition("@")[0] if "@" in digest else ""
    try:
        tokenizers = load_tokenizers(current)
    except SubgraftError as error:
        return Origin(name, missing=f"The original, {current}, cannot be read: {error.what}.", methods=methods)
    return Origin(name, tokenizers, methods=methods, copies_shared=copies, trained=trained)


def _record(directory: Path) -> Record | None:
    try:
        return Record.from_json((directory / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _artifact(directory: Path, fingerprint: str) -> Path | None:
    """The artifact in the store that the directory is in or near, or in the present one."""
    if not _FINGERPRINT.fullmatch(fingerprint):
        return None
    near = (home for folder in directory.absolute().parents for home in (folder, folder / ".subgraft"))
    for home in (default_home(), *near):
        if artifact := next((home / "store").glob(f"*/{fingerprint}"), None):
            return artifact
    return None
