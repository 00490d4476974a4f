"""mBART's denoising: restore a block of sentences from noise (Liu et al., TACL 2020, section 2.2).

Both sides are X </s> <language>, with </s> between the sentences of a block. The decoder starts with the language id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from subgraft.config.corpora import Languages
from subgraft.config.objectives import DenoisingSettings
from subgraft.config.settings_base import SideName
from subgraft.config.training import FinetuneSettings
from subgraft.data.text.encoded import blocks, encode
from subgraft.data.text.noise import infill, permute
from subgraft.modeling.families import language_code
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.words import WordBoundaries
from subgraft.training.objectives.objective import Concatenation, Request
from subgraft.training.objectives.seq2seq import Example, Seq2SeqData, Seq2SeqObjective
from subgraft.training.objectives.subword_regularization import Sampling, Subwords


class Denoising:
    """Examples of monolingual text in one language; noise is a function of (seed, epoch, index).

    An example is a block of as many consecutive sentences as fit into `block_tokens` and max_length, special tokens
    included. A separator counts as a word, so masked spans may cross sentences.

    With `sampling`, text is segmented again in every epoch, with the decoder's settings. Blocks leave room for the
    average growth, and a sentence whose sample does not fit keeps its plain segmentation. Lengths are those of the
    plain segmentation.
    """

    def __init__(
        self,
        lines: Sequence[str],
        tokenizer: Tokenizer,
        language: int,
        settings: DenoisingSettings,
        max_length: int,
        seed: int,
        sampling: Sampling | None = None,
    ) -> None:
        self._settings = settings
        self._seed = seed
        self._language = language
        self._end = tokenizer.special["eos"]
        self._mask = tokenizer.special["mask"]
        self._boundaries = WordBoundaries.of(tokenizer)
        self._limit = min(settings.block_tokens or max_length, max_length)
        # A block's last sentence is followed by </s> and the language, every other one by </s>.
        longest = self._limit - 2
        self._sentences = encode(lines, tokenizer).sequences.cut(longest)
        self._subwords = Subwords(self._sentences)
        if sampling is not None:
            self._subwords = sampling.of("decoder", lines, tokenizer, self._sentences, longest)
        plain = self._sentences.lengths
        self._bounds = blocks(np.minimum(np.ceil(plain * self._subwords.growth), longest) + 1, self._limit - 1)
        self._lengths = np.add.reduceat(plain + 1, self._bounds[:-1]) + 1

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def lengths(self) -> np.ndarray:
        return self._lengths

    def example(self, index: int, epoch: int) -> Example:
        sentences = self._block(index, epoch)
        target = self._joined(sentences)
        source = self._noised(sentences, np.random.default_rng([self._seed, epoch, index]))
        ending = [self._end, self._language]
        return Example(source + ending, target + ending, self._language, len(source), len(target))

    def _block(self, index: int, epoch: int) -> list[list[int]]:
        """The sentences of a block, each in the epoch's sampled segmentation if it fits, else in the plain one."""
        spare = self._limit - int(self._lengths[index])
        sentences: list[list[int]] = []
        for i in range(*self._bounds[index : index + 2].tolist()):
            plain, tokens = self._sentences[i], self._subwords.at(i, epoch)
            if len(tokens) - len(plain) > spare:
                tokens = plain
            spare -= len(tokens) - len(plain)
            sentences.append(tokens)
        return sentences

    def _noised(self, sentences: list[list[int]], generator: np.random.Generator) -> list[int]:
        shuffled = permute(sentences, generator) if self._settings.permute_sentences else sentences
        words = self._boundaries.words(self._joined(shuffled))
        return infill(words, self._mask, self._settings, generator)

    def _joined(self, sentences: list[list[int]]) -> list[int]:
        """Sentences with the separator between them."""
        joined: list[int] = []
        for position, sentence in enumerate(sentences):
            joined.extend([self._end, *sentence] if position else sentence)
        return joined


class _Noised:
    """Examples: a line as the decoder's vocabulary cuts it, from the same line as the encoder's does, infilled.

    Pretraining joins lines into blocks. Here each line is an example of its own, so that examples are the same for
    every vocabulary; noise is a function of (seed, epoch, index).
    """

    def __init__(self, settings: DenoisingSettings, request: Request, training: FinetuneSettings) -> None:
        bundle, language = request.bundle, request.languages.target
        self.lines = request.corpus.text("train", "target")
        self._form = bundle.sequence_format(Languages(source=language, target=language))
        room = training.max_length - self._form.around
        read, written = encode(self.lines, bundle.encoder), encode(self.lines, bundle.decoder)
        self.cut = int((read.sequences.longer(written.sequences) > room).sum())
        self._read, self._written = read.sequences.cut(room), written.sequences.cut(room)
        self._boundaries, self._mask = WordBoundaries.of(bundle.encoder), bundle.encoder.special["mask"]
        self._settings, self._seed = settings, request.seed
        in_tokens = self._read.longer(self._written) + 1
        in_characters: np.ndarray = written.characters.astype(np.int64) + 1
        self._lengths: np.ndarray = in_characters if training.batch_unit == "characters" else in_tokens

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def lengths(self) -> np.ndarray:
        return self._lengths

    def example(self, index: int, epoch: int) -> Example:
        words = self._boundaries.words(self._read[index])
        noised = infill(words, self._mask, self._settings, np.random.default_rng([self._seed, epoch, index]))
        return Example.of(noised, self._written[index], self._form)


class DenoisedLines(Seq2SeqData):
    """Target text without sources, which a finetuning on pairs also learns to denoise."""

    def __init__(self, settings: DenoisingSettings, request: Request, training: FinetuneSettings) -> None:
        examples = _Noised(settings, request, training)
        super().__init__(examples, *request.bundle.padding)
        self.cut = examples.cut
        self.texts: Mapping[SideName, Iterable[str]] = {"encoder": examples.lines, "decoder": examples.lines}


def denoise(settings: DenoisingSettings, request: Request) -> Seq2SeqObjective:
    """Denoising of the text of each language, in the decoder's vocabulary."""
    tokenizer, limit, seed = request.bundle.decoder, request.training.max_length, request.seed
    sampling = None if request.sampling is None else Sampling(request.sampling, seed)
    parts = [
        Denoising(lines, tokenizer, language_code(tokenizer, language), settings, limit, seed, sampling)
        for language, lines in request.texts()
    ]
    return Seq2SeqObjective(request.bundle, Concatenation(parts))
