"""Resolves the name of a model: a directory, or a hub id, which is downloaded.

An id may end with `@` and a commit, branch or tag: `Helsinki-NLP/opus-mt-en-fr@main`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from subgraft.base.errors import OperationalError, SubgraftError, UserError
from subgraft.base.json_io import read_object
from subgraft.base.security.terminal_escaping import say
from subgraft.modeling.config_file import read_validated_config
from subgraft.modeling.families import Family, family_of
from subgraft.modeling.weights import (
    ADAPTER,
    ADAPTER_WEIGHTS,
    INDEX,
    TORCH_INDEX,
    other_form,
    require_adapter_weights,
    require_complete,
    weight_files,
)
from subgraft.subwords.vocabulary.directory import CHAT_TEMPLATE_FILE, MODEL_NAMES

_HUB_ID = re.compile(r"(?P<id>\w[\w.-]*(/[\w.-]+)?)(@(?P<revision>\w[\w./-]*))?")
# No *.pt or *.py files, and *.bin only for a conversion, because code from a repository is never run. Files are listed
# by name, because a pattern would also match files that an index or a configuration refers to.
CONFIGURATION = ("config.json", "generation_config.json")
_VOCABULARY = (
    "tokenizer.json",
    "tokenizer_config.json",
    CHAT_TEMPLATE_FILE,
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "target_vocab.json",
    "vocab.txt",
    "merges.txt",
    *MODEL_NAMES,
    "source.spm",
    "target.spm",
)
_FOLDERS = ("", "encoder/", "decoder/")
VOCABULARY_FILES = tuple(f"{folder}{name}" for folder in _FOLDERS for name in _VOCABULARY)
# All but weights.
SMALL_FILES = (*CONFIGURATION, *VOCABULARY_FILES)
HUB_FILES = [*SMALL_FILES, INDEX, "*.safetensors"]
TORCH_FILES = [*SMALL_FILES, TORCH_INDEX, "*.bin"]
# The star also matches folders.
IGNORED_ON_HUB = ["*/*.safetensors", "*/*.bin"]


def resolve_model(model: Path | str, files: Sequence[str] = HUB_FILES, *, body: bool = False) -> Path:
    """The directory of a model: the argument itself, or the local copy of a hub id.

    Args:
        model: A directory or a hub id.
        files: Files to download. If they include safetensors and the repository has none, the weights of the hub's own
            conversion are used and reported.
        body: Whether a model without a head that predicts tokens is accepted.

    Raises:
        UserError: There is no such model, or its family is not supported (checked before weights are downloaded).
        OperationalError: The hub cannot be reached.
    """
    directory = Path(model)
    if directory.is_dir():
        return directory
    match = None if isinstance(model, Path) or directory.exists() else _HUB_ID.fullmatch(model)
    if match is None:
        if error := other_form(directory) if directory.is_file() else None:
            raise error
        raise UserError("no such model directory", where=str(model), hint="Give a directory or a hub id.")
    hub_id, revision = match["id"], match["revision"]
    if set(files) > set(SMALL_FILES):
        config_directory = _download(hub_id, ["config.json", ADAPTER], revision)
        family_at(config_directory, str(model), body=body)
        if is_adapter(config_directory):
            return _download(hub_id, [ADAPTER, ADAPTER_WEIGHTS], revision)
    local_copy = _download(hub_id, files, revision)
    if revision is not None or files is not HUB_FILES or any(local_copy.glob("*.safetensors")):
        return local_copy
    converted = converted_weights(hub_id, local_copy.name)
    return local_copy if converted is None else _download(hub_id, files, converted)


def require_on_hub(model: str) -> None:
    """Raise UserError or OperationalError for an id that the hub does not have; not of a registered model."""
    if not model.startswith("models:/"):
        resolve_model(model, ["config.json"])


def with_revision(model: str, revision: str | None) -> str:
    """A hub id with a commit, branch or tag. Raises UserError for a directory, and for an id that has one already."""
    if revision is None:
        return model
    if Path(model).is_dir():
        raise UserError("a directory has no revisions", where=model, hint="Leave the revision out.")
    if "@" in model:
        raise UserError(f"the id names a revision already, and {revision} is another", where=model)
    return f"{model}@{revision}"


def pinned(model: str, directory: Path) -> str:
    """The permanent name of a model that was resolved to `directory`: a hub id with its commit, or the directory."""
    if Path(model).is_dir():
        return model
    return f"{model.partition('@')[0]}@{directory.name}"  # the client names snapshots by their commits


def _download(hub_id: str, files: Sequence[str], revision: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    try:
        local_copy = snapshot_download(
            hub_id, revision=revision, allow_patterns=list(files), ignore_patterns=IGNORED_ON_HUB
        )
        return Path(local_copy)
    except RevisionNotFoundError as error:
        raise UserError(f"the hub has no revision {revision} of this model", where=hub_id) from error
    except (RepositoryNotFoundError, ValueError) as error:
        raise UserError(
            "neither a directory nor a model on the hub", where=hub_id, hint="Check the spelling."
        ) from error
    except OSError as error:
        raise OperationalError(
            f"no such directory, and the hub could not be asked ({type(error).__name__})",
            where=hub_id,
            hint="Check the spelling of the directory, or the connection to the hub.",
        ) from error


def family_at(directory: Path, called: str = "", *, body: bool = False) -> Family:
    """The family of a model directory.

    called: the user's name for it; by default its path.  body: whether a model without a head that predicts tokens is
    accepted. Raises UserError for a family that is not supported.
    """
    config = read_config(directory, called)
    try:
        family = family_of(config)
        if not body:
            family.check_token_head(config)
        return family
    except UserError as error:
        raise UserError(error.what, where=error.where or called or str(directory), hint=error.hint) from error


def is_adapter(directory: Path) -> bool:
    """Whether a directory has an adapter and no model: an adapter next to a complete model is ignored."""
    return (directory / ADAPTER).is_file() and not (directory / "config.json").is_file()


def adapter_base(directory: Path, called: str = "", files: Sequence[str] = SMALL_FILES) -> Path | None:
    """The directory of the model that a LoRA adapter was trained on; None if `directory` is not that of an adapter.

    Args:
        directory: The directory of an adapter or a model.
        called: The user's name for it; by default its path.
        files: The files to download if the base is on the hub.

    Raises:
        UserError: The adapter is another kind, names no base, or names another adapter; or there is no such base.
        OperationalError: The hub cannot be reached.
    """
    if not is_adapter(directory):
        return None
    where, config = called or str(directory), read_object(directory / ADAPTER)
    base, revision = config.get("base_model_name_or_path"), config.get("revision")
    if str(config.get("peft_type")).upper() != "LORA" or not isinstance(base, str) or not base:
        raise other_form(directory, called) or UserError("not an adapter of a model", where=where)
    hint = f"`subgraft convert {where} --base MODEL --out DIR` merges it into a model that lies elsewhere."
    try:
        base_directory = resolve_model(base if Path(base).is_dir() else with_revision(base, revision or None), files)
    except SubgraftError as error:
        what = f"this is a LoRA adapter of {base:.100}, which cannot be read: {error.what}"
        raise type(error)(what, where=where, hint=hint) from error
    if is_adapter(base_directory):
        raise UserError(f"an adapter of {base:.100}, which is an adapter itself", where=where, hint=hint)
    return base_directory


def read_config(directory: Path, called: str = "") -> dict[str, Any]:
    """The validated config.json of a model directory; for a LoRA adapter, that of its base.

    Raises UserError if it is missing, invalid or not a model's.
    """
    if (base := adapter_base(directory, called)) is not None:
        return read_config(base)
    if not (directory / "config.json").is_file() or "model_type" not in (config := read_validated_config(directory)):
        raise other_form(directory, called) or UserError(
            "not a model directory: it has no config.json with a model_type",
            where=called or str(directory),
            hint="Give a directory that transformers' save_pretrained wrote, or a hub id.",
        )
    return config


def require_model(model: Path | str, *, body: bool = False) -> Path:
    """The directory of a model or of a LoRA adapter, checked without loading it.

    body: whether a model without a head that predicts tokens is accepted. Raises UserError if there is no model, its
    family is not supported, or its weights are not safetensors or truncated.
    """
    directory = resolve_model(model, body=body)
    family_at(directory, str(model), body=body)
    base = adapter_base(directory, str(model), HUB_FILES)
    if base is not None:
        require_adapter_weights(directory)
    require_complete(weight_files(directory, str(model)) if base is None else weight_files(base))
    return directory


# The author of pull requests with the hub's own conversion of a repository's weights to safetensors.
CONVERSION_BOT = "SFconvertbot"


def converted_weights(hub_id: str, head: str) -> str | None:
    """The commit with the hub's conversion of `head`, the newest commit of a repository; None if there is none.

    Anyone may open a pull request: it is used only if its author is the hub's bot and it consists of one commit by the
    bot on top of `head`. The use is reported on standard error.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    api = HfApi()
    try:
        for discussion in api.get_repo_discussions(hub_id, author=CONVERSION_BOT, discussion_type="pull_request"):
            if discussion.author != CONVERSION_BOT:
                continue
            commits = api.list_repo_commits(hub_id, revision=discussion.git_reference)
            if len(commits) > 1 and commits[0].authors == [CONVERSION_BOT] and commits[1].commit_id == head:
                commit = commits[0].commit_id
                say(
                    f"{hub_id}: weights of {CONVERSION_BOT}'s pull request {discussion.num}, commit {commit}",
                    to=sys.stderr,
                )
                return commit
    except (HfHubHTTPError, OSError):  # without an answer, the repository is used as it is
        return None
    return None
