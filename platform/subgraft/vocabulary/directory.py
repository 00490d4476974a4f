"""Where a tokenizer comes from and goes to: the files of a Hugging Face directory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from subgraft.errors import UserError
from subgraft.vocabulary.description import ROLES
from subgraft.vocabulary.sentencepiece_model import convert

MODEL_NAMES = ("sentencepiece.model", "sentencepiece.bpe.model", "spiece.model", "tokenizer.model")


@dataclass(frozen=True)
class Source:
    """What a tokenizer is read from: tokenizer.json, tokenizer_config.json, and the SentencePiece model, if any."""

    tokenizer_json: str
    config: Mapping[str, Any]
    sentencepiece_model: bytes | None = None

    def write(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "tokenizer.json").write_text(self.tokenizer_json, encoding="utf-8")
        config = json.dumps(self.config, indent=2, ensure_ascii=False, sort_keys=True)
        (directory / "tokenizer_config.json").write_text(config + "\n", encoding="utf-8")
        if self.sentencepiece_model is not None:
            (directory / "sentencepiece.model").write_bytes(self.sentencepiece_model)


def read_directory(directory: Path) -> Source:
    """Read what is there, in this order: tokenizer.json, what transformers converts, a bare SentencePiece model."""
    if not directory.is_dir():
        raise UserError("no such directory", where=str(directory), hint="Give the directory of a vocabulary.")
    config = _read_json(directory / "special_tokens_map.json") | _read_json(directory / "tokenizer_config.json")
    model = next((directory / name for name in MODEL_NAMES if (directory / name).is_file()), None)
    ours = directory / "sentencepiece.model"
    try:
        if (directory / "tokenizer.json").is_file():
            text = (directory / "tokenizer.json").read_text(encoding="utf-8")
            return Source(text, config, ours.read_bytes() if ours.is_file() else None)
        if (directory / "config.json").is_file() or (directory / "tokenizer_config.json").is_file():
            return _converted(directory, config)
        if model is not None:
            return Source(convert(model.read_bytes()).to_str(), config, model.read_bytes())
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"this vocabulary cannot be read: {error}", where=str(directory)) from error
    raise UserError(
        "no vocabulary here: neither tokenizer.json nor a SentencePiece model",
        where=str(directory),
        hint="Give a Hugging Face model directory, or one that `subgraft vocab learn` wrote.",
    )


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"not JSON: {error}", where=str(path)) from error
    return found


def _converted(directory: Path, config: Mapping[str, Any]) -> Source:
    """Let transformers build the tokenizer that this directory's class stands for. Remote code stays off."""
    from transformers import AutoTokenizer

    built = AutoTokenizer.from_pretrained(str(directory), local_files_only=True, trust_remote_code=False)
    backend = getattr(built, "backend_tokenizer", None)
    if backend is None:
        raise UserError(
            f"{type(built).__name__} keeps its vocabulary in a form of its own",
            where=str(directory),
            hint="Save it once as a fast tokenizer, with a tokenizer.json.",
        )
    roles = {f"{role}_token": getattr(built, f"{role}_token", None) for role in ROLES}
    named = {key: str(value) for key, value in roles.items() if value is not None}
    return Source(backend.to_str(), {**config, **named})
