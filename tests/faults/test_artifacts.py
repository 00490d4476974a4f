"""One byte flipped in every kind of artifact: it is named, put aside, and made again as it was."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from small_experiments import finish, tiny, written
from subgraft.interfaces.cli import main
from subgraft.orchestration.store.record import RECORD
from subgraft.orchestration.store.step import Step, in_order
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.stages.registry import STAGES
from toys import german, publish_bert

CONFIG = tiny(
    pretrain="{max_steps: 3, batch_size: 500, precision: fp32, dev_sentences: 2}",
    generator_training="{max_steps: 2, batch_size: 300, max_length: 30, precision: fp32}",
    likelihood_matching_training="{max_steps: 2, max_length: 40, precision: fp32, dev_sentences: 2}",
    token_distillation_training="{max_steps: 2, max_length: 40, precision: fp32, dev_sentences: 2}",
    attention_influence_training="{max_steps: 2, max_length: 40, precision: fp32, dev_sentences: 2}",
    finetune="{max_steps: 2, batch_size: 500, precision: fp32, dev_sentences: 2}",
    systems="""
      - {name: single, pretraining: none}
      - {name: patt, initialiser: patt}
      - {name: word2vec, initialiser: word2vec}
      - {name: distilled, initialiser: token-distillation}
      - {name: influence, initialiser: attention-influence}
      - {name: matched, initialiser: likelihood-matching}
    """,
    intrinsic="{tokens: 3}",
)
# What the experiment above does not need: a checkpoint, and a BERT that is made into an encoder-decoder.
BERT = (
    "upstream={corpus: upstream, objectives: [{kind: masked}], checkpoint: published}",
    "downstream.vocabulary={kind: wordpiece, size: 200}",
    "model={family: bert, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16}",
    "systems=[{name: mean, initialiser: mean}]",
    "intrinsic=null",
    "finetune.max_length=40",
)
# And text of the domain, generators that make rows of their own, and an imported vocabulary.
TEXT = (
    "downstream.text={target: [more.txt]}",
    "embedding_warmup_training={max_steps: 2, batch_size: 500, precision: fp32, dev_sentences: 2}",
    "network_training={max_steps: 2, batch_size: 300, max_length: 30, precision: fp32}",
    "vocadt_training={max_steps: 2, max_length: 40, precision: fp32, dev_sentences: 2}",
    "systems=[{name: copied, vocabulary: upstream, text: copied}, {name: trimmed, vocabulary_mode: trim},"
    " {name: back, vocabulary: upstream, text: back-translated},"
    " {name: first, initialiser: mean, embedding_warmup: copied},"
    " {name: network, initialiser: network}, {name: vocadt, initialiser: vocadt}]",
    "intrinsic=null",
)
# Kinds of other configurations, and of artifacts that the user gives.
ELSEWHERE = {
    "multitask",
    "condition",
    "imported-network",
    "imported-vocabulary",
    "curve",
    "allocation",
    "joint-vocabulary",
    "capacity",
    "allocation-report",
    "saved-weights",
    "seen-pairs",
    "unsupervised",
    "context",
    "entities",
    "source-encoder",
}
# Files that contain results and no durations.
LASTING = ("*.safetensors", "tokenizer.json", "train.*", "hypotheses.txt")


@pytest.fixture(scope="module")
def experiments(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Path, tuple[str, ...]]:
    """Configurations whose experiments are finished, each with its changes; together they have nearly every kind."""
    plain, bert, text = (written(tmp_path_factory.mktemp(name), CONFIG) for name in ("plain", "bert", "text"))
    publish_bert(bert.parent / "published", pretraining=False)
    (text.parent / "more.txt").write_text("".join(f"{line}\n" for line in german(40, 9)), encoding="utf-8")
    return {plain: (), bert: BERT, text: TEXT}


def made(experiments: Mapping[Path, tuple[str, ...]]) -> dict[str, tuple[Store, Step]]:
    """A step of every kind, made, with its store."""
    kinds: dict[str, tuple[Store, Step]] = {}
    for config, changes in experiments.items():
        pipeline, store = finish(config, *changes)
        for step in in_order([pipeline.report]):
            kinds.setdefault(step.stage.stage_name, (store, step))
    return kinds


def flip(path: Path, seed: int) -> None:
    """Flip one bit of one byte."""
    content = bytearray(path.read_bytes())
    content[random.Random(seed).randrange(len(content))] ^= 1
    path.write_bytes(content)


def lasting(artifact: Path) -> dict[str, bytes]:
    paths = [path for pattern in LASTING for path in artifact.rglob(pattern)]
    return {path.relative_to(artifact).as_posix(): path.read_bytes() for path in paths}


def largest(artifact: Path) -> Path:
    files = (path for path in artifact.rglob("*") if path.is_file() and path.name != RECORD)
    return max(files, key=lambda path: path.stat().st_size)


@pytest.mark.slow
def test_every_kind_is_named_put_aside_and_made_again(experiments: Mapping[Path, tuple[str, ...]]) -> None:
    kinds = made(experiments)
    assert kinds.keys() == {stage.stage_name for stage in STAGES} - ELSEWHERE
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed of the flips: {seed}")
    before = {}
    for kind, (store, step) in kinds.items():
        artifact = store.path(step)
        before[kind] = lasting(artifact)
        check_record(artifact, store, step, seed)
        file = largest(artifact)
        flip(file, seed)
        line = refused(store, step)
        assert kind in line and f"{file.relative_to(artifact)} is not as recorded" in line
    again = made(experiments)
    for kind, (store, step) in again.items():
        assert Store(store.home).find(step) is not None
        assert lasting(store.path(step)) == before[kind], kind
    aside = [path.name for store, _ in kinds.values() for path in quarantined(store)]
    assert all(any(name.startswith(f"{kind}-") for name in aside) for kind in kinds)


def check_record(artifact: Path, store: Store, step: Step, seed: int) -> None:
    """A byte of the record flipped: refused as well. The artifact is then put back as it was."""
    remaining = store.home / "kept"
    shutil.copytree(artifact, remaining)
    flip(artifact / RECORD, seed)
    assert "is damaged" in refused(store, step)
    remaining.rename(artifact)
    assert Store(store.home).find(step) is not None


def refused(store: Store, step: Step) -> str:
    """The one warning about a damaged artifact, which is moved away."""
    said: list[str] = []
    count = len(quarantined(store))
    assert Store(store.home, said.append).find(step) is None
    assert not store.path(step).exists() and len(quarantined(store)) == count + 1
    (line,) = said
    assert "\n" not in line
    return line


def quarantined(store: Store) -> list[Path]:
    return list((store.home / "quarantine").glob("*"))


@pytest.mark.slow
def test_commands_refuse_a_damaged_artifact_too(
    experiments: Mapping[Path, tuple[str, ...]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = next(iter(experiments))
    pipeline, store = finish(config)
    systems = {steps.system.name: steps for steps in pipeline.systems}
    model, vocabulary = store.path(pipeline.models.pretrained), store.path(pipeline.vocabularies.downstream["decoder"])
    arguments = {"--generator": systems["patt"].generator, "--distilled": systems["distilled"].distilled}
    arguments["--static"] = systems["word2vec"].static["decoder"]
    methods = {"--generator": "patt", "--distilled": "token-distillation", "--static": "word2vec"}
    places = {option: store.path(step) for option, step in arguments.items() if step is not None}
    assert places.keys() == methods.keys()

    def transfer(option: str, name: str) -> int:
        method = ["--method", methods[option], option, str(places[option]), "--out", str(tmp_path / name)]
        return main(["transfer", "--model", str(model), "--vocab", str(vocabulary), *method])

    for option in methods:
        assert transfer(option, f"whole{option}") == 0
    capsys.readouterr()
    for option, place in (*places.items(), ("--vocab", vocabulary), ("--model", model)):
        shutil.copytree(place, tmp_path / "kept", copy_function=shutil.copy2)
        flip(largest(place), seed=1)
        assert transfer(option if option in methods else "--generator", "damaged") == 2
        errors = capsys.readouterr().err
        assert "a damaged artifact" in errors and str(place) in errors
        assert not (tmp_path / "damaged").exists()
        shutil.rmtree(place)
        (tmp_path / "kept").rename(place)
