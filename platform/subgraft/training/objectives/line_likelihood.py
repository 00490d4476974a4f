"""What a decoder alone makes of lines that it is shown: the negative log-likelihood of each of their tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from subgraft.config.objectives import CausalSettings
from subgraft.modeling.bundle import Bundle
from subgraft.training.objectives.causal import Lines, separator_of
from subgraft.training.objectives.embedding_view import OwnTables
from subgraft.training.objectives.single_stack import StackBatch, StackStates
from subgraft.training.objectives.whole_examples import BATCH_TOKENS, WholeExamples, label_nats


def line_nats(
    bundle: Bundle,
    lines: Sequence[str],
    settings: CausalSettings,
    progress: Callable[[int, int, str], None] | None = None,
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """For each line that the model takes whole: its place, and the nats of its tokens and what ends them.

    By length, not in order.
    """
    model, limit = bundle.model, bundle.max_positions
    examples = Lines(lines, bundle.decoder, separator_of(bundle.decoder, settings), limit)

    def token_nats(batch: StackBatch) -> Tensor:
        return label_nats(model, StackStates(model, batch, OwnTables(model)).top, batch.labels)

    return WholeExamples(examples, examples.whole, max(BATCH_TOKENS, limit)).nats(model, token_nats, progress)
