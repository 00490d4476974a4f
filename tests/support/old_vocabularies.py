"""Vocabularies of every kind, learnt on invented German, and the text of a task that they know little of."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tokenizers import decoders, normalizers

from subgraft.subwords.vocabulary.directory import Source
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from toys import german
from vocabularies import byte_level, invented

GERMAN, TASK = german(300), invented(300)


def as_llama_publishes_it() -> Tokenizer:
    """A BPE of SentencePiece as Llama 2's tokenizer.json has it: a whole line is cut at once, with marks for spaces."""
    learnt = learn(GERMAN + TASK[:20], kind="bpe", size=420, byte_fallback=True)
    backend = learnt.backend
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    backend.pre_tokenizer = None
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return Tokenizer(Source(backend.to_str(), learnt.config))


def without_bytes() -> Tokenizer:
    """As mBART, XLM-R, T5 and Marian publish theirs: text that has no piece is unknown."""
    return learn(GERMAN, kind="unigram", size=330, mask=True, languages=["de_DE"])


KINDS: Mapping[str, Callable[[], Tokenizer]] = {
    "unigram": lambda: learn(GERMAN, kind="unigram", size=420, byte_fallback=True, mask=True, languages=["de_DE"]),
    "unigram-without-bytes": without_bytes,
    "bpe": lambda: learn(GERMAN, kind="bpe", size=120, mask=True, languages=["de_DE"]),
    "wordpiece": lambda: learn(GERMAN, kind="wordpiece", size=160),
    "byte-level": lambda: byte_level(GERMAN + TASK[:20], 420),
    "llama": as_llama_publishes_it,
}
