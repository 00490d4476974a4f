"""The negative log-likelihood of each token of references under a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from subgraft.config.corpora import Languages
from subgraft.config.objectives import CausalSettings
from subgraft.modeling.bundle import Bundle
from subgraft.training.objectives.causal import Lines, separator_of
from subgraft.training.objectives.embedding_view import ModelEmbeddings
from subgraft.training.objectives.parallel_text import Translation
from subgraft.training.objectives.seq2seq import Seq2SeqBatch, Seq2SeqData, top_states
from subgraft.training.objectives.single_stack import StackBatch, StackStates
from subgraft.training.objectives.whole_examples import BATCH_TOKENS, WholeExamples, label_nats


def token_nats(model: PreTrainedModel, batch: Seq2SeqBatch) -> Tensor:
    """The negative log-likelihood of each label that is not IGNORED, in nats and in fp32 [N]."""
    return label_nats(model, top_states(model, batch), batch.labels)


def reference_nats(
    bundle: Bundle,
    pairs: Sequence[tuple[str, str]],
    languages: Languages,
    progress: Callable[[int, int, str], None] | None = None,
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """The index of each pair whose reference is not truncated, and the nats of its tokens and its end; by length.

    Long sources are truncated, as in generation.
    """
    limit = bundle.max_positions
    examples = Translation(pairs, bundle.encoder, bundle.decoder, bundle.sequence_format(languages), limit)
    data = Seq2SeqData(examples, *bundle.padding)
    whole = WholeExamples(data, examples.whole_targets, max(BATCH_TOKENS, limit))
    return whole.nats(bundle.model, partial(token_nats, bundle.model), progress)


# What a decoder alone makes of lines that it is shown: the negative log-likelihood of each of their tokens.


def line_nats(
    bundle: Bundle,
    lines: Sequence[str],
    settings: CausalSettings,
    progress: Callable[[int, int, str], None] | None = None,
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """The same for lines under a decoder-only model."""
    model, limit = bundle.model, bundle.max_positions
    examples = Lines(lines, bundle.decoder, separator_of(bundle.decoder, settings), limit)

    def token_nats(batch: StackBatch) -> Tensor:
        return label_nats(model, StackStates(model, batch, ModelEmbeddings(model)).top, batch.labels)

    return WholeExamples(examples, examples.whole, max(BATCH_TOKENS, limit)).nats(model, token_nats, progress)
