"""Words for ROUGE, METEOR and CIDEr. BLEU and TER have tokenizers of their own."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

_ALPHANUMERIC = re.compile(r"[^\W_]+")


def primary(language: str) -> str:
    """The language of a code without region and script: zh of "zh_CN" and "zh-Hans"."""
    return language.replace("_", "-").split("-")[0].lower()


def is_chinese(language: str) -> bool:
    """Whether the language is written without spaces between words, so that characters count as words."""
    return primary(language) == "zh"


def tokens(text: str, language: str) -> list[str]:
    """Lowercased words and punctuation, by sacrebleu's tokenizer 13a, or `zh` for Chinese."""
    return _tokenizer(is_chinese(language))(text.lower()).split()


@cache
def _tokenizer(chinese: bool) -> Callable[[str], str]:
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
    from sacrebleu.tokenizers.tokenizer_zh import TokenizerZh

    split: Callable[[str], str] = TokenizerZh() if chinese else Tokenizer13a()
    return split


def alphanumeric(text: str, language: str) -> list[str]:
    """Lowercased runs of letters and digits of any script, punctuation dropped; Chinese by characters."""
    if is_chinese(language):
        return [token for token in tokens(text, language) if _ALPHANUMERIC.search(token)]
    return _ALPHANUMERIC.findall(text.lower())
