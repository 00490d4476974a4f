"""Small models with a task's text and a new vocabulary for either side, to test reading text twice."""

from __future__ import annotations

from functools import cache

from subgraft.config.corpora import Languages
from subgraft.config.settings_base import SideName
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families.encoder_only import BERT2BERT
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from toys import (
    bert2bert,
    cased_tokenizer,
    english,
    english_tokenizer,
    german,
    german_tokenizer,
    marian,
    mbart,
    multilingual_tokenizer,
)

LANGUAGES = Languages(source="en", target="de")
# Sentence by sentence the same stems and endings in the same order: a translation that can be learnt.
TEXTS = list(zip(english(300, 5), german(300, 5), strict=True))


def upstream(family: str) -> Bundle:
    """A model of the family with random weights."""
    if family == "mbart":
        return Bundle(mbart(), multilingual_tokenizer(), multilingual_tokenizer())
    if family == BERT2BERT:
        return Bundle(bert2bert(), cased_tokenizer(), cased_tokenizer())
    return Bundle(marian(), english_tokenizer(), german_tokenizer())


@cache
def new_vocabulary(family: str, side: SideName) -> Tokenizer:
    """Of the side's language, with many whole words that the model's own vocabulary lacks."""
    lines = (german if side == "decoder" else english)(400, 7)
    if family == BERT2BERT:
        return learn(lines, kind="wordpiece", size=150, like=cased_tokenizer())
    return learn(lines, kind="unigram", size=150, like=multilingual_tokenizer() if family == "mbart" else None)
