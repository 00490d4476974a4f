"""Dev scores of several workers are those of one, to the bit, and each computes its share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn

from subgraft.config.corpora import Languages
from subgraft.config.training import FinetuneSettings
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.inference.translate import Translator
from subgraft.training.objectives.compute.distributed import sums_over_batches, texts_by_worker
from subgraft.training.objectives.compute.translation import DevScores
from toys import english, english_tokenizer, german, german_tokenizer, marian

SENTENCES = 130


class Counted(DevScores):
    """Dev scores that know how many sentences this worker computed the likelihood of, and how many it translated."""

    def __init__(self) -> None:
        bundle = Bundle(marian(), english_tokenizer(), german_tokenizer())
        pairs = list(zip(english(SENTENCES), german(SENTENCES), strict=True))
        settings = FinetuneSettings(
            max_steps=1,
            learning_rate=0.01,
            warmup_steps=1,
            batch_size=200,
            precision="fp32",
            dev_sentences=SENTENCES,
        )
        super().__init__(bundle, pairs, Languages(source="en", target="de"), settings)
        self.judged = self.translated = 0
        data = self._scores._whole._examples
        batch = data.batch

        def counted(indices: np.ndarray, epoch: int) -> object:
            self.judged += len(indices)
            return batch(indices, epoch)

        data.batch = counted  # type: ignore[method-assign]

    def _translator(self) -> Translator:
        translate = super()._translator()

        class Counting:
            def __call__(_, texts: Sequence[str]) -> list[str]:  # noqa: N805
                self.translated += len(texts)
                return translate(texts)

        return Counting()  # type: ignore[return-value]


def _louder(texts: Sequence[str]) -> list[str]:
    return [text.upper() for text in texts]


def worker(rank: int, world: int, place: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{place}/meeting-{world}", rank=rank, world_size=world)
    scores = Counted()
    figures = scores()
    (Path(place) / f"{rank}.json").write_text(json.dumps([figures, scores.judged, scores.translated]))
    batches = [np.arange(size) for size in (3, 4, 5, 6, 7)]
    summed = sums_over_batches(batches, lambda some: (len(some) / 3, 1.0), torch.device("cpu"), count=2)
    assert summed == [3 / 3 + 4 / 3 + 5 / 3 + 6 / 3 + 7 / 3, 5.0]
    assert sums_over_batches(batches[:1], lambda some: (0.1,), torch.device("cpu")) == [0.1]
    assert sums_over_batches([], lambda some: (0.1,), torch.device("cpu")) == [0.0]
    one = texts_by_worker(
        ["a ü", "b"], lambda: [1, 2], 32, lambda texts: [text.upper() for text in texts], torch.nn.Linear(1, 1)
    )
    assert one == ["A Ü", "B"]
    dist.destroy_process_group()


@pytest.mark.parametrize("world", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_several_workers_give_the_scores_of_one(world: int, tmp_path: Path) -> None:
    scores = Counted()
    expected = scores()
    whole = scores.judged  # some are longer than the model takes
    assert whole > 0.9 * SENTENCES and scores.translated == SENTENCES
    spawn(worker, (world, str(tmp_path)), nprocs=world)
    outcomes = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(world)]
    assert [each[0] for each in outcomes] == [expected] * world
    assert sum(each[2] for each in outcomes) == SENTENCES
    for _, judged, translated in outcomes:
        assert judged == pytest.approx(whole / world, rel=0.25)
        assert translated <= SENTENCES / world + 32
