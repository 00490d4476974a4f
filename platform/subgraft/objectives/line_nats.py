"""What a decoder alone makes of lines that it is shown: the negative log-likelihood of each of their tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from subgraft.config.objectives import CausalSettings
from subgraft.models.bundle import Bundle
from subgraft.objectives.causal import Lines, padding_of, separator_of
from subgraft.objectives.lexicon import IGNORED, OwnTables
from subgraft.objectives.reference_nats import BATCH_TOKENS, label_nats
from subgraft.objectives.stack import StackStates, collate
from subgraft.text.batches import BatchPlan


def line_nats(
    bundle: Bundle,
    lines: Sequence[str],
    settings: CausalSettings,
    progress: Callable[[int, int, str], None] | None = None,
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """For each line that the model takes whole: its place, and the nats of its tokens and what ends them.

    By length, not in order.
    """
    bundle.model.eval()  # type: ignore[no-untyped-call]
    model, where, padding = bundle.model, next(bundle.model.parameters()).device, padding_of(bundle.decoder)
    limit = bundle.max_positions
    examples = Lines(lines, bundle.decoder, separator_of(bundle.decoder, settings), limit)
    whole = np.flatnonzero(examples.whole)
    plan = BatchPlan(examples.lengths[whole], max(BATCH_TOKENS, limit), seed=0)
    done = 0
    for chosen in plan.epoch(0):
        batch = collate([examples.example(int(place), 0) for place in whole[chosen]], padding).to(where)
        with torch.inference_mode():
            states = StackStates(model, batch, OwnTables(model)).top
            nats = label_nats(model, states, batch.labels).double().cpu().numpy()
        lengths = (batch.labels != IGNORED).sum(dim=1).tolist()
        yield from zip(whole[chosen].tolist(), np.split(nats, np.cumsum(lengths)[:-1]), strict=True)
        done += len(chosen)
        if progress is not None:
            progress(done, len(whole), "sentences")
