"""Read and write the tokenizer files of a Hugging Face directory."""

from __future__ import annotations

import inspect
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from subgraft.base.errors import UserError
from subgraft.base.files import folder_of, require_path
from subgraft.base.json_io import object_in, read_bytes, read_object, read_text
from subgraft.base.security.tokenizer_checks import as_user_error, require_few_pieces
from subgraft.subwords.vocabulary.sentencepiece_model import convert
from subgraft.subwords.vocabulary.tokenizer_description import ROLES

MODEL_NAMES = ("sentencepiece.model", "sentencepiece.bpe.model", "spiece.model", "tokenizer.model")
# The files from which transformers builds a tokenizer: mappings of pieces to ids, JSON objects, and lists of lines.
_ID_FILES = ("vocab.json", "added_tokens.json", "target_vocab.json")
_JSON_FILES = (*_ID_FILES, "config.json", "tokenizer_config.json", "special_tokens_map.json")
_LINE_FILES = ("vocab.txt", "merges.txt")
# The template of conversations, in tokenizer_config.json or in a file of its own, which takes precedence.
CHAT_TEMPLATE = "chat_template"
CHAT_TEMPLATE_FILE = f"{CHAT_TEMPLATE}.jinja"
# Entries of a configuration that refer to other files or to code.
_EXTERNAL_REFERENCES = frozenset(
    {"auto_map", "fast_tokenizer_files", "tokenizer_file", "vocab_file", "merges_file", "added_tokens_file"}
)

# Entries that describe the files or the class of a tokenizer, not how it reads text.
_OF_CLASS = frozenset({"tokenizer_class", "added_tokens_decoder", "name_or_path", "special_tokens_map_file", "backend"})
_ROLE_ENTRIES = frozenset(f"{role}_token" for role in ROLES)
# Entries that list special tokens, which another vocabulary need not have.
EXTRA_TOKENS = frozenset({"additional_special_tokens", "extra_special_tokens"})
# Parameters of classes that list further special tokens in code.
_LISTS_TOKENS = EXTRA_TOKENS | {"src_lang"}
# What a class of transformers may set where the configuration does not.
_CLASS_ATTRIBUTES = ("padding_side", "truncation_side", "model_input_names")
# Settings that a model has with every vocabulary.
SETTINGS_OF_MODELS = frozenset(
    {*_CLASS_ATTRIBUTES, "model_max_length", "clean_up_tokenization_spaces", "split_special_tokens"}
)
# A class of transformers that uses tokenizer.json unchanged.
GENERIC_CLASS = "PreTrainedTokenizerFast"

_GENERIC_CLASSES = (GENERIC_CLASS, "TokenizersBackend", "PythonBackend", "MistralCommonBackend")

_SUPPORTED = "Supported are tokenizer.json, SentencePiece models, vocab.txt, and vocab.json with merges.txt."


@dataclass(frozen=True)
class Source:
    """The files of a tokenizer: tokenizer.json, tokenizer_config.json, and the SentencePiece model, if any.

    model_type: Of the model in the same directory; transformers derives the tokenizer's class from it.
    """

    tokenizer_json: str
    config: Mapping[str, Any]
    sentencepiece_model: bytes | None = None
    model_type: str = ""

    def write(self, directory: Path) -> None:
        require_path(directory).mkdir(parents=True, exist_ok=True)
        (directory / "tokenizer.json").write_text(self.tokenizer_json, encoding="utf-8")
        config = json.dumps(self.config, indent=2, ensure_ascii=False, sort_keys=True)
        (directory / "tokenizer_config.json").write_text(config + "\n", encoding="utf-8")
        if self.sentencepiece_model is not None:
            (directory / "sentencepiece.model").write_bytes(self.sentencepiece_model)


def read_directory(directory: Path) -> Source:
    """Read the first available of: tokenizer.json, files that transformers can convert, a SentencePiece model."""
    if not directory.is_dir():
        raise UserError("no such directory", where=str(directory), hint="Give the directory of a vocabulary.")
    config = _read_json(directory / "special_tokens_map.json") | _read_json(directory / "tokenizer_config.json")
    if (directory / CHAT_TEMPLATE_FILE).is_file():
        config[CHAT_TEMPLATE] = read_text(directory / CHAT_TEMPLATE_FILE)
    model_config = object_in(directory / "config.json")
    model_type = str(model_config.get("model_type", ""))
    if isinstance(model_config.get("tokenizer_class"), str):
        config.setdefault("tokenizer_class", model_config["tokenizer_class"])
    model = next((directory / name for name in MODEL_NAMES if (directory / name).is_file()), None)
    saved_model = directory / "sentencepiece.model"
    if (directory / "tokenizer.json").is_file():
        text = read_text(directory / "tokenizer.json")
        return Source(text, config, read_bytes(saved_model) if saved_model.is_file() else None, model_type)
    try:
        with as_user_error("in an unknown format"):
            if (directory / "config.json").is_file() or (directory / "tokenizer_config.json").is_file():
                return _convert_by_transformers(directory, config)
            if model is not None:
                content = read_bytes(model)
                return Source(convert(content).to_str(), config, content, model_type)
    except UserError as error:
        where = error.where or str(directory)
        raise UserError(f"this vocabulary cannot be read: {error.what}", where=where, hint=error.hint) from error
    raise UserError(
        "no vocabulary here: neither tokenizer.json nor a SentencePiece model",
        where=str(directory),
        hint="Give a Hugging Face model directory, or one that `subgraft vocab learn` wrote.",
    )


def _read_json(path: Path) -> dict[str, Any]:
    return read_object(path) if path.is_file() else {}


def _convert_by_transformers(directory: Path, config: Mapping[str, Any]) -> Source:
    """Let transformers build the tokenizer of this directory's class, without remote code.

    It only sees the validated files of the vocabulary, and a configuration without references to other files.
    """
    from transformers import AutoTokenizer

    with folder_of(_checked_files(directory)) as folder:
        try:
            built = AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
        except ValueError as error:
            what = f"transformers cannot make a tokenizer of these files ({str(error).splitlines()[0].rstrip(': ')})"
            raise UserError(what, where=str(directory), hint=_SUPPORTED) from error
    backend = getattr(built, "backend_tokenizer", None)
    if backend is None:
        raise _no_subwords_error(built, directory)
    roles = {f"{role}_token": getattr(built, f"{role}_token", None) for role in ROLES}
    role_tokens = {key: str(value) for key, value in roles.items() if value is not None}
    of_class = {name: getattr(built, name) for name in _CLASS_ATTRIBUTES}
    return Source(backend.to_str(), {**config, **of_class, **role_tokens})


def _no_subwords_error(built: Any, directory: Path) -> UserError:
    """The error for a tokenizer that exists in transformers only as Python code."""
    kind = type(built).__name__
    if not built.vocab_files_names:
        what = f"{kind} reads bytes or characters: this model has no subwords that could be replaced or extended"
        hint = "Use a model with a subword vocabulary, such as t5-small or mt5-small."
        return UserError(what, where=str(directory), hint=hint)
    return UserError(
        f"{kind} is a tokenizer without a tokenizer.json, and transformers cannot make one of it",
        where=str(directory),
        hint=_SUPPORTED,
    )


def _checked_files(directory: Path) -> dict[str, Path | str]:
    """The files of a directory that transformers may read, within the limits on pieces and bytes."""
    files: dict[str, Path | str] = {}
    for path in sorted(directory.iterdir()):
        if path.name in _JSON_FILES and path.is_file():
            parsed = read_object(path)
            if path.name in _ID_FILES:
                require_few_pieces(max([len(parsed), *(1 + i for i in parsed.values() if isinstance(i, int))]))
            added = parsed.get("added_tokens_decoder") or {}
            require_few_pieces(max([len(added), *(1 + int(i) for i in added if i.isdecimal())]))
            files[path.name] = json.dumps({key: parsed[key] for key in parsed.keys() - _EXTERNAL_REFERENCES})
        elif (path.name in _LINE_FILES or path.suffix in (".model", ".spm")) and path.is_file():
            content = read_bytes(path)
            if path.name == "vocab.txt":
                require_few_pieces(content.count(b"\n"))
            files[path.name] = path
    return files


def reading_settings(config: Mapping[str, Any], pieces: Collection[str]) -> dict[str, Any]:
    """All that a configuration says but roles, class, files and code, for a vocabulary with these special tokens."""
    settings: dict[str, Any] = {}
    for name, value in config.items():
        if name in EXTRA_TOKENS and isinstance(value, list | dict):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            known = {key: token for key, token in items if _content(token) in pieces}
            settings[name] = known if isinstance(value, dict) else list(known.values())
        elif name not in _OF_CLASS | _EXTERNAL_REFERENCES | _ROLE_ENTRIES and not _is_missing(name, value, pieces):
            settings[name] = value
    return settings


def _is_missing(name: str, value: Any, pieces: Collection[str]) -> bool:
    """Whether an entry names a token, as image_token does and add_bos_token does not, that the vocabulary lacks."""
    return name.endswith("_token") and isinstance(value, str | dict) and _content(value) not in pieces


def _content(token: Any) -> Any:
    return token.get("content") if isinstance(token, dict) else token


def class_settings(
    config: Mapping[str, Any], model_type: str, pieces: Collection[str], extra: Sequence[str]
) -> dict[str, Any]:
    """What the class that AutoTokenizer would load sets where the configuration does not.

    Args:
        config: The configuration.
        model_type: That of the model.
        pieces: The special tokens of the vocabulary; roles of others are left out.
        extra: Those without a role, which classes such as NLLB's list in code.
    """
    named = config.get("tokenizer_class")
    if named == GENERIC_CLASS or not (named or model_type):
        return {}
    from transformers import PreTrainedTokenizerBase
    from transformers.models.auto import tokenization_auto as auto

    registered = auto.TOKENIZER_MAPPING_NAMES.get(model_type)
    # transformers ignores the named class of some models, whose published configurations are wrong.
    ignored = registered in _GENERIC_CLASSES or not auto.MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS.isdisjoint(
        [model_type]
    )
    try:
        kind: Any = auto.tokenizer_class_from_name(str(registered if registered and ignored else named or registered))
        values = {name: getattr(kind, name) for name in _CLASS_ATTRIBUTES}
        parameters = inspect.signature(kind.__init__).parameters
    except Exception:  # of any type, for a class whose library is not installed
        return {}
    settings = {name: value for name, value in values.items() if value != getattr(PreTrainedTokenizerBase, name)}
    named_by_class = _ROLE_ENTRIES & parameters.keys() - config.keys()
    defaults = {name: str(parameters[name].default) for name in sorted(named_by_class)}
    settings |= {name: piece for name, piece in defaults.items() if piece in pieces}
    return settings | ({"extra_special_tokens": [*extra]} if extra and not _LISTS_TOKENS.isdisjoint(parameters) else {})
