"""How a model family is told what to do: the special tokens around source and target, and how the decoder starts."""

from __future__ import annotations

from dataclasses import dataclass

from subgraft.config.corpora import Languages
from subgraft.errors import UserError
from subgraft.models.sides import BERT2BERT
from subgraft.vocabulary.tokenizer import Tokenizer

# Families whose sequences end in a language code, with which the decoder also starts.
LANGUAGE_CODED = frozenset({"mbart", "split_mbart"})


@dataclass(frozen=True)
class SequenceFormat:
    """Token ids: what follows every source and every target sentence, what the decoder and what a source begin with."""

    source_ending: tuple[int, ...]
    target_ending: tuple[int, ...]
    start: int
    source_beginning: tuple[int, ...] = ()

    @property
    def around(self) -> int:
        """How many special tokens stand around a sentence, on the side that has more of them."""
        return max(len(self.source_beginning) + len(self.source_ending), len(self.target_ending))


def sequence_format(model_type: str, source: Tokenizer, target: Tokenizer, languages: Languages) -> SequenceFormat:
    """The form of a family's sequences: Marian starts with padding, mBART ends with and starts from language codes.

    A BERT reads [CLS] … [SEP], as it was pretrained, and so do both sides of what is made from it.
    """
    source_end, target_end = source.special["eos"], target.special["eos"]
    if model_type in ("bert", BERT2BERT):
        if "bos" not in source.special or "bos" not in target.special:
            raise UserError("the vocabulary has no token for the beginning of a sentence, which a BERT needs")
        return SequenceFormat((source_end,), (target_end,), target.special["bos"], (source.special["bos"],))
    if model_type not in LANGUAGE_CODED:
        return SequenceFormat((source_end,), (target_end,), target.special["pad"])
    source_code = language_code(source, languages.source)
    target_code = language_code(target, languages.target)
    return SequenceFormat((source_end, source_code), (target_end, target_code), target_code)


def language_code(tokenizer: Tokenizer, language: str) -> int:
    """The id of a language's code: `en`, `en_XX` and `en-XX` all find en_XX. Raises UserError where there is none."""
    wanted = language.replace("-", "_")
    for code, token in sorted(tokenizer.languages.items()):
        if code == wanted or code.split("_")[0] == wanted:
            return token
    raise UserError(
        f"the vocabulary has no language code for '{language}'",
        hint=f"It has: {', '.join(sorted(tokenizer.languages)) or 'none'}.",
    )
