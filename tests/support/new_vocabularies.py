"""Small models with a task's text and a new vocabulary for either side, to test reading text twice."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from subgraft.config.corpora import Cleaning, Languages
from subgraft.config.settings_base import SideName
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
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


def stage_inputs(family: str, place: Path) -> dict[str, Path]:
    """A model, a corpus of few pairs and a new vocabulary for each side, as the inputs of a stage."""
    for split, pairs in (("train", TEXTS[:40]), ("dev", TEXTS[40:50])):
        for at, language in enumerate(("en", "de")):
            (place / f"{split}.{language}").write_text("".join(f"{pair[at]}\n" for pair in pairs))
    build(CorpusSource(folder=str(place)), LANGUAGES, Cleaning(), place / "corpus")
    bundle = upstream(family)
    bundle.save(place / "model")
    for side in bundle.tokenizers:
        new_vocabulary(family, side).save(place / side)
    vocabularies = {f"vocabulary/{side}": place / side for side in bundle.tokenizers}
    return {"model": place / "model", "corpus": place / "corpus", **vocabularies}
