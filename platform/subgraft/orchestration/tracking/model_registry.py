"""The model registry: versions of models, each with its files, a model card, the texts of its evaluation, and tags.

A version is a plain directory (safetensors and JSON): nothing in the registry is unpickled or loaded as pyfunc.

    <run's artifacts>/model/          the files of the finetuned model, and README.md, the model card
    <run's artifacts>/evaluation/     sources, references and hypotheses of the test set, and the scores
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from subgraft.base.errors import OperationalError, UserError
from subgraft.base.files import file_digest
from subgraft.orchestration.store.record import FileEntry, content_digest, file_entries
from subgraft.orchestration.tracking.server import Server, pages

CHAMPION, CANDIDATE = "champion", "candidate"
CARD = "README.md"
TEXTS = ("sources.txt", "references.txt", "hypotheses.txt", "evaluation.json")
# Tags of a version: digests of the model's files, of the card, and of the evaluation's texts.
DIGEST, CARD_DIGEST, TEXTS_DIGEST = "subgraft.digest", "subgraft.card", "subgraft.evaluation"
SCHEME = "models:/"
REGISTERED = "mlflow.modelVersions"  # of a trained model, as MLflow's page reads it
# Formats of weights that can contain code.
UNSAFE = frozenset({".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".h5", ".npy", ".joblib"})
# MLflow's error codes for an absent model or version, and for a version that is not a number.
ABSENT = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE", "BAD_REQUEST")


@dataclass(frozen=True, slots=True)
class RegisteredVersion:
    """A registered version; `run_id` is the run that holds its files, `created` the time of its registration."""

    model: str
    number: int
    aliases: tuple[str, ...]
    tags: Mapping[str, str]
    run_id: str
    created: datetime

    @property
    def uri(self) -> str:
        return f"{SCHEME}{self.model}/{self.number}"


@dataclass(frozen=True, slots=True)
class RegisterModel:
    """Register a directory as a version of a model, unless a version with this digest exists.

    `card` is the model card's text; `evaluation` the directory of its evaluation, whose texts are copied.
    """

    run: str
    model: str
    directory: str
    digest: str
    aliases: Sequence[str]
    tags: Mapping[str, str]
    card: str = ""
    evaluation: str = ""


class Registry:
    """The registered models of a server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._client = server.client

    def versions(self) -> list[RegisteredVersion]:
        """Every version of every model, by name, the newest first."""
        versions = []
        for model in pages(self._client.search_registered_models):
            listed = pages(self._client.search_model_versions, f"name='{model.name}'")
            versions += [_version(registered, model.aliases) for registered in listed]
        return sorted(versions, key=lambda version: (version.model, -version.number))

    def version(self, uri: str) -> RegisteredVersion:
        """The version of models:/NAME@ALIAS, models:/NAME/VERSION or, for its champion, models:/NAME.

        `models:/` may be omitted. Raises UserError, with the existing models, if there is no such version.
        """
        name, _, alias = uri.removeprefix(SCHEME).partition("@")
        number = ""
        if not alias:
            name, _, number = name.partition("/")
        try:
            aliases = self._client.get_registered_model(name).aliases
            number = number or str(aliases[alias or CHAMPION])
            return _version(self._client.get_model_version(name, number), aliases)
        except Exception as error:
            if not isinstance(error, KeyError) and getattr(error, "error_code", "") not in ABSENT:
                raise
            existing = [f"{SCHEME}{version.model}@{alias}" for version in self.versions() for alias in version.aliases]
            hint = f"models: {', '.join(existing) or 'none'}"
            raise UserError(f"there is no registered model {uri}", where=self._server.uri, hint=hint) from error

    def with_digest(self, model: str, digest: str) -> RegisteredVersion | None:
        """The version of a model with this digest of its files, or None."""
        listed = pages(self._client.search_model_versions, f"name='{model}'")
        return next((_version(registered, {}) for registered in listed if registered.tags.get(DIGEST) == digest), None)

    def resolve(self, uri: str) -> Path:
        """The local directory of a version, fetched if it is remote, and verified.

        Raises UserError if there is no such model, OperationalError if its files are not those registered.
        """
        version = self.version(uri)
        source = self._client.get_model_version_download_uri(version.model, str(version.number))
        directory = self._server.fetch(source, self._cache(version) / f"model-{version.tags.get(CARD_DIGEST, '')[:12]}")
        verify(directory, version)
        return directory

    def pull(self, uri: str, out: Path) -> RegisteredVersion:
        """Copy a version's files into an empty directory, and verify the copy.

        Raises UserError if it has weights in a format other than safetensors, and as `resolve` does.
        """
        version = self.version(uri)
        directory = self.resolve(version.uri)
        foreign = sorted(path.name for path in directory.rglob("*") if path.suffix in UNSAFE)
        if foreign or not any(directory.glob("*.safetensors")):
            problem = f"{', '.join(foreign)}: not safetensors" if foreign else "no weights in safetensors form"
            raise UserError(problem, where=uri, hint="Other formats may contain code; they are not handed out.")
        shutil.copytree(directory, out, dirs_exist_ok=True)
        verify(out, version)
        return version

    def evaluation(self, version: RegisteredVersion) -> Path | None:
        """The verified texts of a version's evaluation; None if it was registered without."""
        if TEXTS_DIGEST not in version.tags:
            return None
        source = f"{self._client.get_run(version.run_id).info.artifact_uri}/evaluation"
        directory = self._server.fetch(source, self._cache(version) / "evaluation")
        if content_digest(_entries(directory)) != version.tags[TEXTS_DIGEST]:
            raise OperationalError("the texts of its evaluation are not those registered", where=str(directory))
        return directory

    def tag(self, version: RegisteredVersion, tags: Mapping[str, str]) -> None:
        for name, value in tags.items():
            self._client.set_model_version_tag(version.model, str(version.number), name, value)

    def point(self, alias: str, version: RegisteredVersion) -> None:
        """Point an alias to this version."""
        self._client.set_registered_model_alias(version.model, alias, str(version.number))

    def register(self, run_id: str, operation: RegisterModel) -> None:
        """Register a directory as a version, unless one with the same files exists, and set aliases.

        Card and texts are added to a version that was registered without them.
        """
        aliases = self._aliases(operation.model)
        version = self.with_digest(operation.model, operation.digest)
        if version is None:
            self._client.log_artifacts(run_id, operation.directory, "model")
            source = f"{self._client.get_run(run_id).info.artifact_uri}/model"
            tags = {**operation.tags, **self._attach(run_id, operation), DIGEST: operation.digest}
            created = self._client.create_model_version(operation.model, source, run_id, tags)
            version = _version(created, {})
        elif operation.evaluation and TEXTS_DIGEST not in version.tags:
            self.tag(version, {**operation.tags, **self._attach(version.run_id, operation)})
        # A server accepts a model's id with a new version only if the model owns the files. Here the run owns them, so
        # the version is linked by a tag.
        model_id = self._server.model_of(run_id)
        if model_id is not None:
            tag = json.dumps([{"name": version.model, "version": version.number}])
            self._client.set_logged_model_tags(model_id, {REGISTERED: tag})
        for alias in operation.aliases:
            if alias != CHAMPION:
                self.point(alias, version)
            elif alias not in aliases:
                # The first champion is the oldest version, on which concurrent registrations agree; afterwards only a
                # promotion (promotion.py) replaces it.
                listed = pages(self._client.search_model_versions, f"name='{operation.model}'")
                self.point(alias, min((_version(each, {}) for each in listed), key=lambda each: each.number))

    def _aliases(self, model: str) -> Mapping[str, str]:
        """The aliases of a model, which is created if it does not exist."""
        try:
            self._client.create_registered_model(model)
        except Exception as error:
            if getattr(error, "error_code", "") != "RESOURCE_ALREADY_EXISTS":
                raise
        aliases: Mapping[str, str] = self._client.get_registered_model(model).aliases
        return aliases

    def _attach(self, run_id: str, operation: RegisterModel) -> dict[str, str]:
        """Add card and texts to the run's artifacts; returns the tags with their digests."""
        tags = {}
        with tempfile.TemporaryDirectory() as folder:
            if operation.card:
                card = Path(folder) / CARD
                card.write_text(operation.card, encoding="utf-8")
                self._client.log_artifact(run_id, str(card), "model")
                tags[CARD_DIGEST] = file_digest(card)
        texts = [Path(operation.evaluation) / name for name in TEXTS] if operation.evaluation else []
        if texts and all(path.is_file() for path in texts):
            for path in texts:
                self._client.log_artifact(run_id, str(path), "evaluation")
            entries = (FileEntry(path.name, path.stat().st_size, file_digest(path)) for path in sorted(texts))
            tags[TEXTS_DIGEST] = content_digest(entries)
        return tags

    def _cache(self, version: RegisteredVersion) -> Path:
        """The folder for copies of a remote version; the run id distinguishes equal names of different servers."""
        return self._server.home / "registry" / version.model / f"{version.number}-{version.run_id[:12]}"


def verify(directory: Path, version: RegisteredVersion) -> None:
    """Raises OperationalError unless a directory holds exactly the registered files and card."""
    entries = _entries(directory)
    card = next((entry.sha256 for entry in entries if entry.path == CARD), None)
    declared = version.tags.get(DIGEST)
    if declared is not None and content_digest(entry for entry in entries if entry.path != CARD) != declared:
        raise OperationalError("the model's files are not the ones that were registered", where=str(directory))
    if card != version.tags.get(CARD_DIGEST):
        raise OperationalError("the model's card is not the one that was registered", where=str(directory))


def _entries(directory: Path) -> tuple[FileEntry, ...]:
    """The files of a directory of artifacts; none if it is absent or contains a link."""
    try:
        return file_entries(directory)
    except (FileNotFoundError, ValueError):
        return ()


def _version(registered: Any, aliases: Mapping[str, str]) -> RegisteredVersion:
    """A registered version. aliases: the version number of each of the model's aliases."""
    return RegisteredVersion(
        registered.name,
        int(registered.version),
        tuple(sorted(alias for alias, number in aliases.items() if int(number) == int(registered.version))),
        dict(registered.tags),
        registered.run_id or "",
        datetime.fromtimestamp(registered.creation_timestamp / 1000, UTC),
    )
