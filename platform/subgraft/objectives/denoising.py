"""mBART's denoising: a document from its noised self (Liu et al., TACL 2020, section 2.2).

Instances are X </s> <language> on both sides, sentences inside a document separated by </s>; the decoder starts with
the language id.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from subgraft.objectives.sampled import Sampling, Subwords
from subgraft.objectives.seq2seq import Example
from subgraft.settings.domains import NoiseSettings
from subgraft.text.noise import infill, permute
from subgraft.text.sequences import Sequences
from subgraft.vocabulary.tokenizer import Tokenizer


class Denoising:
    """Examples of monolingual text in one language; noise is a function of (seed, epoch, index).

    sampling: for text that is cut anew in every epoch, the noised document as its original, as of the decoder's side.
    """

    def __init__(
        self,
        lines: Sequence[str],
        tokenizer: Tokenizer,
        language: int,
        settings: NoiseSettings,
        max_length: int,
        seed: int,
        sampling: Sampling | None = None,
    ) -> None:
        self._settings = settings
        self._seed = seed
        self._language = language
        self._end = tokenizer.special["eos"]
        self._mask = tokenizer.special["mask"]
        self._word_initial = word_initial_table(tokenizer)
        per_sentence = max(2, (max_length - 1) // settings.sentences_per_document - 1)
        self._sentences = Sequences.of(tokenizer.encode_batch(lines), per_sentence)
        self._subwords = Subwords(self._sentences)
        if sampling is not None:
            self._subwords = sampling.of("decoder", lines, tokenizer, self._sentences, per_sentence)
        self._count = -(-len(self._sentences) // settings.sentences_per_document)

    def __len__(self) -> int:
        return self._count

    @property
    def lengths(self) -> np.ndarray:
        step = self._settings.sentences_per_document
        with_separators = self._sentences.lengths + 1
        return np.add.reduceat(with_separators, np.arange(0, len(with_separators), step)) + 1

    def example(self, index: int, epoch: int) -> Example:
        step = self._settings.sentences_per_document
        last = min((index + 1) * step, len(self._sentences))
        document = [self._subwords.at(i, epoch) for i in range(index * step, last)]
        target = self._joined(document)
        source = self._joined(self._noised(document, np.random.default_rng([self._seed, epoch, index])))
        ending = [self._end, self._language]
        return Example(source + ending, target + ending, self._language, len(source), len(target))

    def _noised(self, document: list[list[int]], generator: np.random.Generator) -> list[list[int]]:
        shuffled = permute(document, generator) if self._settings.permute_sentences else document
        return [infill(s, self._word_initial, self._mask, self._settings, generator) for s in shuffled]

    def _joined(self, sentences: list[list[int]]) -> list[int]:
        """Sentences with the separator between them."""
        joined: list[int] = []
        for position, sentence in enumerate(sentences):
            joined.extend([self._end, *sentence] if position else sentence)
        return joined


def word_initial_table(tokenizer: Tokenizer) -> np.ndarray:
    """[V]: whether a token begins a word. A piece that is not text (a bare mark, a special token) begins one."""
    return np.array([entry is None or entry.word_initial for entry in tokenizer.entries], dtype=bool)
