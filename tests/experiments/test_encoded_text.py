"""Trainings share their encoded text, and what no artifact that stays was made from is removed with the others."""

from __future__ import annotations

import pytest

from small_experiments import TINY, finish, written
from subgraft.base.files import file_digest
from subgraft.data.text.encoded import entries
from subgraft.experiments.garbage_collection import needed_by, remove, surplus
from subgraft.experiments.pipeline import Pipeline
from subgraft.orchestration.store.store import Store


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pipeline, Store]:
    return finish(written(tmp_path_factory.mktemp("encoded"), TINY), "pretrain.epochs=1")


def test_each_text_is_encoded_once_for_each_vocabulary(finished: tuple[Pipeline, Store]) -> None:
    pipeline, store = finished
    upstream, downstream = (
        [file_digest(store.path(corpus) / f"train.{side}") for side in ("source", "target")]
        for corpus in (pipeline.inputs.upstream_corpus, pipeline.inputs.downstream_corpus)
    )
    texts = sorted(entry.text for entry in entries(store.encoded))
    # The task's target text is read with the upstream vocabulary by one system and with its own by another.
    assert texts == sorted([*upstream, *downstream, downstream[1]])


def test_it_goes_with_the_last_artifact_that_it_was_made_from(finished: tuple[Pipeline, Store]) -> None:
    pipeline, store = finished
    assert surplus(store.home, needed_by(pipeline.report)).encoded == ()
    result = surplus(store.home, needed_by(pipeline.models.pretrained))
    upstream = {
        file_digest(store.path(pipeline.inputs.upstream_corpus) / f"train.{side}") for side in ("source", "target")
    }
    assert len(result.encoded) == 3
    assert upstream.isdisjoint(entry.text for entry in result.encoded)
    freed = remove(store.home, result)
    assert freed == result.size
    assert {entry.text for entry in entries(store.encoded)} == upstream
    assert list((store.home / "store" / ".partial").glob("*")) == []
