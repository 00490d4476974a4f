"""The negative log-likelihood of each token of references, under a model that reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from subgraft.config.corpora import Languages
from subgraft.models.bundle import Bundle
from subgraft.models.sides import side
from subgraft.objectives.lexicon import IGNORED
from subgraft.objectives.log_likelihood import linear_log_likelihood
from subgraft.objectives.parallel_text import Translation
from subgraft.objectives.seq2seq import Seq2SeqBatch, Seq2SeqData, top_states
from subgraft.text.batches import BatchPlan

# The tokens of a batch, padding included: what a GPU of a few gigabytes bears.
BATCH_TOKENS = 4000


def token_nats(model: PreTrainedModel, batch: Seq2SeqBatch) -> Tensor:
    """The negative log-likelihood of each label that counts, in nats and in fp32 [N], sentence after sentence."""
    return label_nats(model, top_states(model, batch), batch.labels)


def label_nats(model: PreTrainedModel, top: Tensor, labels: Tensor) -> Tensor:
    """The same of labels [B, T] that are predicted from top states [B, T, d]."""
    decoder = side(model, "decoder")
    assert decoder.output is not None
    counted = labels != IGNORED
    states, labels = top[counted], labels[counted]
    if decoder.transform is not None:
        states = decoder.transform(states)
    weight, bias = decoder.output.weight, None if decoder.bias is None else decoder.bias.reshape(-1)
    likelihood, _ = linear_log_likelihood(states, weight, bias, labels)
    return -likelihood


def reference_nats(
    bundle: Bundle,
    pairs: Sequence[tuple[str, str]],
    languages: Languages,
    progress: Callable[[int, int, str], None] | None = None,
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """For each pair whose reference the model takes whole: its place, and the nats of its tokens and what ends them.

    By length, not in order. A source that is too long is cut, as it is where text is generated.
    """
    bundle.model.eval()  # type: ignore[no-untyped-call]
    where = next(bundle.model.parameters()).device
    limit = bundle.max_positions
    examples = Translation(pairs, bundle.encoder, bundle.decoder, bundle.sequence_format(languages), limit)
    data, whole = Seq2SeqData(examples, *bundle.padding), np.flatnonzero(examples.whole_targets)
    plan = BatchPlan(examples.lengths[whole], max(BATCH_TOKENS, limit), seed=0)
    done = 0
    for chosen in plan.epoch(0):
        batch = data.batch(whole[chosen], 0).to(where)
        with torch.inference_mode():
            nats = token_nats(bundle.model, batch).double().cpu().numpy()
        lengths = (batch.labels != IGNORED).sum(dim=1).tolist()
        yield from zip(whole[chosen].tolist(), np.split(nats, np.cumsum(lengths)[:-1]), strict=True)
        done += len(chosen)
        if progress is not None:
            progress(done, len(whole), "sentences")
