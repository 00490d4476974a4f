"""The largest batch is tried before anything else: it changes nothing, and where it does not fit it says what helps."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from subgraft.base.errors import OperationalError, SubgraftError
from subgraft.config.runtime import Runtime
from subgraft.config.training import TrainingSettings
from subgraft.training.checkpoint import Checkpoints
from subgraft.training.engine import PlainEngine
from subgraft.training.loop import Trainer
from subgraft.training.memory_probe import explain_out_of_memory, memory_saving_options, most_demanding

SETTINGS = TrainingSettings(epochs=2, batch_size=200, micro_batch_size=80, learning_rate=0.01, warmup_steps=4)
CPU, GPU = torch.device("cpu"), torch.device("cuda")
# Its layers hold 2,000 tokens of 8,192 numbers in several copies: hundreds of megabytes.
CONFIG = """
name: large
languages: {source: en, target: de}
corpora: {everyday: {folder: upstream}, law: {folder: downstream}}
upstream: {corpus: everyday, vocabulary: {size: 80, byte_fallback: false}}
downstream: {corpus: law, vocabulary: {size: 80, byte_fallback: false}}
model: {d_model: 16, encoder_layers: 1, decoder_layers: 2, attention_heads: 2, ffn_dim: 8192}
pretrain: {max_steps: 1, epochs: 1, batch_size: 100000, precision: fp32, dev_sentences: 2, max_length: 64}
systems: [{name: mean, initialiser: mean}]
"""
HEADROOM = 400 * 2**20


def _trainer(place: Path) -> tuple[Trainer, PlainEngine]:
    from subgraft.config.corpora import Languages
    from subgraft.training.objectives.compute.seq2seq import Seq2SeqData, Seq2SeqLoss
    from subgraft.training.objectives.compute.translation import Translation
    from toys import SHAPE, build_marian, english, english_tokenizer, german, german_tokenizer, sequence_format

    source, target = english_tokenizer(), german_tokenizer()
    form = sequence_format({"model_type": "marian"}, source, target, Languages(source="en", target="de"))
    pairs = list(zip(english(60), german(60), strict=True))
    data = Seq2SeqData(Translation(pairs, source, target, form, 40), source.special["pad"], target.special["pad"])
    module = Seq2SeqLoss(build_marian(source, target, seed=1, **SHAPE), 0.1)
    engine = PlainEngine(module, SETTINGS, CPU)
    return Trainer(module, {"loss": 1.0}, data, SETTINGS, engine, Checkpoints(place), seed=3), engine


def test_a_dry_batch_changes_no_byte(tmp_path: Path) -> None:
    """Neither weights nor moments of a model with dropout, nor anybody's random numbers."""
    states = []
    for rehearsed in (False, True):
        trainer, engine = _trainer(tmp_path / str(rehearsed))
        before = torch.get_rng_state()
        if rehearsed:
            trainer.probe_memory(trainer.largest_batch())
        assert torch.equal(torch.get_rng_state(), before)
        trainer.run()
        states.append(engine.state())
    assert states[0].keys() == states[1].keys()
    assert all(tensor.numpy().tobytes() == states[1][name].numpy().tobytes() for name, tensor in states[0].items())


def test_the_dry_batch_is_the_largest_micro_batch(tmp_path: Path) -> None:
    trainer, _ = _trainer(tmp_path)
    sentences, tokens = trainer.largest_batch().shape
    assert sentences * tokens <= 80 and sentences >= 2
    lengths = np.array([3, 3, 9, 10, 1])
    batches = [np.array([0, 1]), np.array([2, 0, 1]), np.array([3]), np.array([4])]
    assert [batch.tolist() for batch in most_demanding(batches, lengths, 2)] == [[2, 0, 1], [3]]


def test_only_settings_that_are_not_on_are_named() -> None:
    helps = memory_saving_options("finetune", SETTINGS, Runtime(), CPU, 8)
    assert helps[0].startswith("finetune.micro_batch_size=40 ") and helps[1] == "runtime.activation_checkpointing=true"
    assert not any("offload" in each for each in helps)  # there is no other memory than the machine's
    on = Runtime(workers=2, zero_stage=3, offload="parameters", activation_checkpointing=True)
    bf16 = SETTINGS.model_copy(update={"precision": "bf16"})
    assert memory_saving_options("finetune", bf16, on, GPU, 1) == [
        "runtime.workers=4 runtime.zero_stage=3, with a device for each"
    ]
    part = Runtime(workers=2, zero_stage=2)
    assert memory_saving_options("pretrain", bf16, part, GPU, 1)[1:4] == [
        "runtime.zero_stage=3",
        "runtime.zero_stage=2 runtime.offload=optimizer",
        "runtime.zero_stage=3 runtime.offload=parameters",
    ]


def test_other_errors_pass_through_and_the_allocators_is_reported() -> None:
    with pytest.raises(RuntimeError, match="shapes"), explain_out_of_memory("finetune", SETTINGS, Runtime(), CPU):
        raise RuntimeError("shapes differ")
    with (
        pytest.raises(OperationalError, match=r"32 sentences of 7 tokens: [\d.]+ GiB more were requested"),
        explain_out_of_memory("finetune", SETTINGS, Runtime(), CPU, (32, 7)),
    ):
        torch.empty(2**58, dtype=torch.uint8)


def _run(place: Path, limited: bool) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, __file__, str(place), "limited" if limited else "micro"]
    # An arena for each thread would take 64 MiB of the little there is to be.
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
def test_a_batch_that_does_not_fit_ends_a_step_with_one_message(tmp_path: Path) -> None:
    """In a process that may not take more memory: nothing half-written; in smaller parts the training goes on."""
    from small_experiments import written

    written(tmp_path, CONFIG)
    ended = _run(tmp_path, limited=True)
    assert ended.returncode == 1, ended.stderr
    assert "pretrain: memory does not suffice for the largest batch, 116 sentences of 26 tokens: " in ended.stdout
    assert "GiB more were requested" in ended.stdout
    assert "pretrain.micro_batch_size=50000 " in ended.stdout
    assert "Traceback" not in ended.stdout + ended.stderr
    store = tmp_path / "home" / "store"
    assert not (store / "pretrain").exists() and not any((store / ".partial").iterdir())
    again = _run(tmp_path, limited=False)
    assert again.returncode == 0, again.stdout + again.stderr
    assert len(list((store / "pretrain").iterdir())) == 1


def _pretrain(place: Path, how: str) -> None:
    """Make the inputs of the pretraining; then itself, with little memory left, whole or in small parts."""
    from subgraft.config.experiment import Experiment
    from subgraft.config.loading import load
    from subgraft.experiments.pipeline import Pipeline
    from subgraft.orchestration.execution.worker import Job, perform
    from subgraft.orchestration.store.provenance import Provenance
    from subgraft.orchestration.store.step import in_order

    torch.set_num_threads(1)
    changes = ["pretrain.micro_batch_size=100"] if how == "micro" else []
    pretrained = Pipeline(load(place / "config.yaml", Experiment, changes), place).models.pretrained
    for step in in_order([pretrained]):
        if step is pretrained:
            import subgraft.pipeline.compute.pretrain  # noqa: F401

            pages = int(Path("/proc/self/statm").read_text().split()[0])
            limit = pages * resource.getpagesize() + HEADROOM
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        perform(Job(step, place / "home", Runtime(), 1, 0, False, Provenance.here()))


if __name__ == "__main__":
    try:
        _pretrain(Path(sys.argv[1]), sys.argv[2])
    except SubgraftError as error:
        print(error)
        sys.exit(error.exit_code)
