# mypy: allow-untyped-calls
"""A tokenizer whose sources are segmented by one vocabulary and whose targets are segmented and read by another.

transformers has such a tokenizer for Marian alone. This file is copied into every directory that is saved with it, so
that AutoTokenizer can load it where remote code is allowed: it imports nothing but transformers and tokenizers.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

TARGET_FILE = "target_tokenizer.json"


class TwoVocabularyTokenizer(PreTrainedTokenizerFast):
    """Texts become ids of the source's vocabulary, `text_target` and `decode` are of the target's.

    Names of special tokens are the same on both sides; their ids need not be.
    """

    vocab_files_names = {  # noqa: RUF012
        "tokenizer_file": "tokenizer.json",
        "target_tokenizer_file": TARGET_FILE,
    }

    # No constructor: transformers reads tokenizer.json as it is for classes without one alone.

    def _switch_to_target_mode(self) -> None:
        self._source_backend = self._tokenizer
        if not hasattr(self, "_target_backend"):
            self._target_backend = Tokenizer.from_file(self.init_kwargs["target_tokenizer_file"])
        self._tokenizer = self._target_backend

    def _switch_to_input_mode(self) -> None:
        self._tokenizer = getattr(self, "_source_backend", self._tokenizer)

    def _decode(self, *args: Any, **kwargs: Any) -> str:
        self._switch_to_target_mode()
        try:
            text: str = super()._decode(*args, **kwargs)
            return text
        finally:
            self._switch_to_input_mode()

    def save_pretrained(self, save_directory: Any, *args: Any, **kwargs: Any) -> tuple[str, ...]:
        saved = super().save_pretrained(save_directory, *args, **kwargs)
        loaded, target = Path(self.init_kwargs["target_tokenizer_file"]), Path(save_directory) / TARGET_FILE
        if target.resolve() != loaded.resolve():
            shutil.copyfile(loaded, target)
        return (*saved, str(target))


TwoVocabularyTokenizer.register_for_auto_class("AutoTokenizer")
