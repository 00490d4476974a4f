"""User-defined symbols, such as placeholders, tags and product names: single tokens in every kind of vocabulary.

They are added tokens that are not special: found in a text before it is split into words, and part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import tokenizers
from tokenizers import AddedToken, normalizers, pre_tokenizers

from subgraft.base.errors import UserError
from subgraft.base.security.tokenizer_checks import require_few_pieces
from subgraft.subwords.vocabulary.entry import SPACE_MARK
from subgraft.subwords.vocabulary.tokenizer_description import LANGUAGE_CODE

if TYPE_CHECKING:
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer

# Added tokens that a model was never trained on: Llama 3 has 250 of them, Gemma 99, PEGASUS 101.
PLACEHOLDER = re.compile(r"reserved|unused|placeholder|extra_id|<unk_\d+>", re.IGNORECASE)


class SymbolError(UserError):
    """A word cannot be a user-defined symbol.

    word: the word.
    """

    word: str

    @classmethod
    def of(cls, word: str, what: str, hint: str) -> SymbolError:
        error = cls(what, where=f"user-defined symbol {word!r:.60}", hint=hint)
        error.word = word
        return error


def adopted_symbols(like: Tokenizer) -> list[AddedToken]:
    """The symbols of a vocabulary, without placeholders; they are found in a text as there."""
    added = like.backend.get_added_tokens_decoder()
    return [added[i] for i, symbol in like.symbols.items() if not PLACEHOLDER.search(symbol)]


def require_symbols(words: Sequence[str], special: Iterable[str] = ()) -> tuple[str, ...]:
    """The words, each once. Raises SymbolError for those that no vocabulary could have as user-defined symbols."""
    taken = frozenset(special)
    for word in words:
        if not word.strip() or word != word.strip() or len(word.splitlines()) > 1:
            raise SymbolError.of(word, "it is empty, has white space around it or several lines", "Leave it out.")
        if word in taken or LANGUAGE_CODE.fullmatch(word):
            what = "it is a special token or has the form of a language code, which texts never contain"
            raise SymbolError.of(word, what, "Write the symbol in another way.")
    require_few_pieces(len(words))
    return tuple(dict.fromkeys(words))


def add_words(backend: tokenizers.Tokenizer, words: Sequence[str]) -> None:
    """Add a user's words as symbols. They are found in the normalised text, where the spaces around them remain.

    Raises SymbolError for a word that the normalizer changes into another one.
    """
    if words:
        _begin_words_after_spaces(backend)
    normalise = backend.normalizer.normalize_str if backend.normalizer is not None else str
    for word in words:
        if len(word) == 1 and not word.isascii() and backend.decode([backend.token_to_id(word) or 0]) != word:
            hint = "A single character needs no symbol in a vocabulary of bytes."
            raise SymbolError.of(word, "the vocabulary has it as the name of a byte", hint)
        normal = normalise(word).replace(SPACE_MARK, " ").strip()
        if "".join(normal.split()).lower() != "".join(word.split()).lower():
            hint = f"Write {normal!r:.60}, which is how this vocabulary reads it." if normal else "Leave it out."
            raise SymbolError.of(word, "the vocabulary's normalizer changes it", hint)
    backend.add_tokens([AddedToken(word, special=False, normalized=True) for word in words])


def _begin_words_after_spaces(backend: tokenizers.Tokenizer) -> None:
    """Mark the beginning of the text after a symbol as that of a word only if there is a space between them."""
    normalizer: Any = backend.normalizer
    splitting = backend.pre_tokenizer
    if isinstance(splitting, pre_tokenizers.Metaspace) and splitting.prepend_scheme == "always":
        backend.pre_tokenizer = pre_tokenizers.Metaspace(splitting.replacement, "first", splitting.split)
    elif isinstance(splitting, pre_tokenizers.Metaspace | None) and type(normalizer).__name__ == "Sequence":
        steps = [step for step in normalizer if not isinstance(step, normalizers.Prepend)]
        if len(steps) < len(normalizer):
            backend.normalizer = normalizers.Sequence(steps)
            split = splitting is not None and splitting.split
            backend.pre_tokenizer = pre_tokenizers.Metaspace(SPACE_MARK, "first", split)


def text_between(lines: Iterable[str], symbols: Sequence[str]) -> Iterator[str]:
    """The lines without the symbols, in the parts between them."""
    if not symbols:
        yield from lines
        return
    longest_first = sorted(symbols, key=len, reverse=True)
    separator = re.compile("|".join(map(re.escape, longest_first)))
    for line in lines:
        yield from filter(None, separator.split(line))
