"""Denoising: restore a block of sentences from noise (BART; Lewis et al., ACL 2020, sections 2.1 and 2.2).

An mBART's sides are X </s> <language>, with </s> between the sentences of a block, and its decoder starts with the
language id (Liu et al., TACL 2020, section 2.2). A BART's are <s> X </s>, with nothing between sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from subgraft.config.corpora import Languages
from subgraft.config.settings_base import SideName
from subgraft.config.training import FinetuneSettings
from subgraft.data.text.encoded import encode
from subgraft.data.text.noise import Noise, joined
from subgraft.training.objectives.compute.blocks import Blocks, blocks_of, concatenate_blocks
from subgraft.training.objectives.compute.interface import ObjectiveInputs
from subgraft.training.objectives.compute.seq2seq import Example, Seq2SeqData, Seq2SeqObjective
from subgraft.training.objectives.denoising import DenoisingSettings


class Denoising:
    """Examples of the blocks of one language; noise is a function of (seed, epoch, index).

    A separator counts as a word, so masked spans may cross sentences.
    """

    def __init__(self, blocks: Blocks, settings: DenoisingSettings, seed: int) -> None:
        self._blocks, self._seed = blocks, seed
        self._noise = Noise(settings.noises, settings.poisson_lambda, blocks.tokenizer)

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def lengths(self) -> np.ndarray:
        return self._blocks.lengths

    def example(self, index: int, epoch: int) -> Example:
        sentences, separator = self._blocks.sentences(index, epoch), self._blocks.separator
        source = self._noise(sentences, separator, np.random.default_rng([self._seed, epoch, index]))
        return Example.of(source, joined(sentences, separator), self._blocks.form)


class _NoisedLines:
    """Examples that restore a line, in the decoder's vocabulary, from the noised line in the encoder's vocabulary.

    Pretraining joins lines into blocks. Here each line is an example, so that all vocabularies have the same examples.
    Noise is a function of (seed, epoch, index).
    """

    def __init__(self, settings: DenoisingSettings, request: ObjectiveInputs, training: FinetuneSettings) -> None:
        bundle, language = request.bundle, request.languages.target
        self.lines = request.corpus.text("train", "target")
        self._form = bundle.sequence_format(Languages(source=language, target=language))
        room = training.max_length - self._form.around
        read, written = encode(self.lines, bundle.encoder), encode(self.lines, bundle.decoder)
        self.truncated = int((read.sequences.longer(written.sequences) > room).sum())
        self._read, self._written = read.sequences.truncate(room), written.sequences.truncate(room)
        self._noise, self._seed = Noise(settings.noises, settings.poisson_lambda, bundle.encoder), request.seed
        in_tokens = self._read.longer(self._written) + 1
        in_characters: np.ndarray = written.characters.astype(np.int64) + 1
        self.lengths: np.ndarray = in_characters if training.batch_unit == "characters" else in_tokens

    def __len__(self) -> int:
        return len(self.lengths)

    def example(self, index: int, epoch: int) -> Example:
        noised = self._noise([self._read[index]], (), np.random.default_rng([self._seed, epoch, index]))
        return Example.of(noised, self._written[index], self._form)


class DenoisedLines(Seq2SeqData):
    """Target text without sources, on which a finetuning on pairs also trains denoising."""

    def __init__(self, settings: DenoisingSettings, request: ObjectiveInputs, training: FinetuneSettings) -> None:
        examples = _NoisedLines(settings, request, training)
        super().__init__(examples, *request.bundle.padding)
        self.truncated = examples.truncated
        self.texts: Mapping[SideName, Iterable[str]] = {"encoder": examples.lines, "decoder": examples.lines}


def denoise(settings: DenoisingSettings, request: ObjectiveInputs) -> Seq2SeqObjective:
    """Denoising of the text of each language."""
    blocks_by_language = blocks_of(request, settings.block_tokens)
    examples = concatenate_blocks(
        request, [(blocks, Denoising(blocks, settings, request.seed)) for blocks in blocks_by_language]
    )
    return Seq2SeqObjective(request.bundle, examples, sum(blocks.truncated for blocks in blocks_by_language))
