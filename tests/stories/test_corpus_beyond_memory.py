"""Two workers on two nodes train on a corpus that is several times as large as the memory that each takes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest

from ray_heads import free_ports
from subgraft.config.corpora import Languages
from subgraft.config.models import MarianSettings
from subgraft.config.runtime import Runtime
from subgraft.config.training import PretrainSettings
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.fields import pair_fields
from subgraft.orchestration.execution.runner import run
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.stages.training import PretrainStage
from subgraft.training.context import Context, Json
from subgraft.training.objectives.translation import TranslationSettings
from subgraft.training.stage import Stage
from toy_steps import ToyKind
from toys import SHAPE, english, english_tokenizer, german, german_tokenizer

pytestmark = pytest.mark.ray

LANGUAGES = Languages(source="en", target="de")
AGENT_PORTS = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port", "runtime_env_agent_port")
MIB = 1 << 20
# Of each worker, beyond what Python and Ray have taken before the training begins. Most of it is taken by encoding,
# whatever the corpus' size.
ROOM = 144 * MIB


class Written(Stage):
    """pairs: how many.  sentences: of each line."""

    pairs: int
    sentences: int


class Side(Stage):
    """side: of the model."""

    side: str


class Watched(PretrainStage):
    """reports: a folder for the memory use of each worker."""

    reports: str


def write_corpus(recipe: Written, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    """Both sides of every split, and nothing that grows with them in memory."""
    sizes = {"train": recipe.pairs, "dev": 8}
    for side, made in (("source", english(2000)), ("target", german(2000))):
        for split, size in sizes.items():
            count = recipe.sentences if split == "train" else 1
            with (out / f"{split}.{side}").open("w") as file:
                for line in range(size):
                    first = 7919 * line % (len(made) - count)
                    file.write(" ".join(made[first : first + count]) + "\n")
    Corpus(out, pair_fields(LANGUAGES, two=True), generated=True, sizes=sizes, counts={}, identity={}).save()
    return {}


def write_vocabulary(recipe: Side, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    (english_tokenizer() if recipe.side == "encoder" else german_tokenizer()).save(out)
    return {}


def train_watched(recipe: Watched, inputs: Mapping[str, Path], out: Path, context: Context) -> Mapping[str, Json]:
    """The stage itself, by a worker that reports its memory use."""
    import ray
    import torch.distributed as dist

    from subgraft.pipeline.compute import pretrain

    with peak_memory() as taken:
        summary = pretrain.run(recipe, inputs, out, context)
    files = sorted((context.cache or out).rglob("ids.bin"))
    with peak_memory() as taken_whole:
        whole = [np.fromfile(path, dtype=np.int32) for path in files]
    settings = {
        "node": ray.get_runtime_context().get_node_id(),
        "corpus": sum(tokens.nbytes for tokens in whole),
        "taken": taken(),
        "taken_whole": taken_whole(),
    }
    (Path(recipe.reports) / f"{dist.get_rank()}.json").write_text(json.dumps(settings))
    return summary


@contextmanager
def peak_memory() -> Iterator[Callable[[], int]]:
    """The most bytes that this process has had of its own beyond those it began with; mapped files do not count."""
    before, ended, most = own_memory(), Event(), [0]

    def look() -> None:
        while not ended.wait(0.02):
            most[0] = max(most[0], own_memory() - before)

    watcher = Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield lambda: most[0]
    finally:
        most[0] = max(most[0], own_memory() - before)
        ended.set()
        watcher.join()


def own_memory() -> int:
    """Anonymous bytes of this process that are in memory or swapped out."""
    status = Path("/proc/self/status").read_text()
    return sum(int(status.split(f"{name}:")[1].split()[0]) * 1024 for name in ("RssAnon", "VmSwap"))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Two nodes of one core, and a head that does no work."""
    from ray.cluster_utils import Cluster

    for name in ("MLFLOW_TRACKING_URI", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    here = Path(__file__).parent
    # Ray's processes import this module's stages; pytest's own path does not reach them.
    monkeypatch.setenv("PYTHONPATH", f"{here}{os.pathsep}{here.parent / 'support'}", prepend=os.pathsep)
    monkeypatch.setenv("RAY_agent_register_timeout_ms", "300000")
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **ports()})
    for _ in range(2):
        nodes.add_node(num_cpus=1, **ports())
    yield nodes
    nodes.shutdown()


def ports() -> dict[str, Any]:
    """Free ports for a node: on a busy machine, Ray gives up before its agent reports those that it chose."""
    return dict(zip(AGENT_PORTS, free_ports(len(AGENT_PORTS)), strict=True))


@pytest.mark.slow
def test_a_corpus_larger_than_a_workers_memory_trains(cluster: Any, tmp_path: Path) -> None:
    """An epoch of it, encoded by these workers, in a third of the memory that its tokens would take, or less."""
    (tmp_path / "reports").mkdir()
    recipe = Watched(
        objectives=(TranslationSettings(),),
        languages=LANGUAGES,
        model=MarianSettings(**SHAPE),
        training=PretrainSettings(
            epochs=1,
            batch_size=6000,
            max_length=16,
            learning_rate=0.01,
            warmup_steps=10,
            precision="fp32",
            dev_sentences=8,
        ),
        seed=1,
        reports=str(tmp_path / "reports"),
    )
    inputs = {
        "corpus": Step(ToyKind("corpus", 1, write_corpus).of(Written(pairs=68_000, sentences=36)), "corpus"),
        **{
            side: Step(ToyKind("vocabulary", 1, write_vocabulary).of(Side(side=side)), f"vocabulary/{side}")
            for side in ("encoder", "decoder")
        },
    }
    step = Step(ToyKind("pretrain", 1, train_watched, distributed=True).of(recipe), "pretrain", inputs)
    store = Store(tmp_path / "home")
    records = run(store, [step], Runtime(workers=2, max_failures=0), address=cluster.address)
    workers = [json.loads((tmp_path / "reports" / f"{rank}.json").read_text()) for rank in range(2)]
    assert len({worker["node"] for worker in workers}) == 2
    for worker in workers:
        assert worker["corpus"] > 3 * ROOM and worker["taken_whole"] > 3 * ROOM
        assert worker["taken"] < ROOM
    assert records[step.fingerprint].summary["steps"] > 80
    events = (store.work(step) / "events.jsonl").read_text().splitlines()
    losses = [json.loads(line)["values"]["train_loss"] for line in events if '"train_loss"' in line]
    assert losses[-1] < 0.9 * losses[0]
