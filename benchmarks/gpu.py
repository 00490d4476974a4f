"""On one GPU: is it right, how fast is it, and what does it take. One command for a machine that is lent for minutes.

    python benchmarks/gpu.py --json gpu.json [--minutes 8] [--only PART ...]
    python benchmarks/gpu.py --tiny --device cpu --json tiny.json       (the same lines in a minute, on any machine)

Parts run in the order of their worth. Each is a process with a limit of its own, so a part that fails or takes too long
is recorded with its error and the rows that it had, and the next one goes on. The JSON file is written after each part,
with the card, its driver, versions, commit and command. Neither Ray nor MLflow is needed.

What counts as right: a part compares with float64 on the CPU (the softmax is in fp32, as in all of this package). With
unit roundoff u (2**-24 in fp32, 2**-9 in bf16), n terms in the longest sum and L modules with weights in a row, errors
that are independent grow as u * sqrt(n * L) where sums round (fp32), and as u * sqrt(L) where they are accumulated in
fp32 and only operands round (bf16). An error may be four times that, or twice the CPU's own in the same precision,
as some losses are ill-conditioned.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, is_dataclass
from functools import partial
from importlib.util import find_spec
from itertools import islice, pairwise
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias, get_args
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TQDM_DISABLE", "1")

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, MBartConfig, MBartForConditionalGeneration

from subgraft.config.corpora import Languages
from subgraft.config.initialisers import ResegmentationSettings
from subgraft.config.runtime import ZeroStage
from subgraft.config.training import FinetuneSettings, NamedPrecision
from subgraft.embeddings.generators.generator import Generator
from subgraft.embeddings.generators.generator_loss import GeneratorLoss
from subgraft.embeddings.generators.simulation import Simulator
from subgraft.modeling.families import count_parameters, family_of
from subgraft.modeling.inference.translate import Translator
from subgraft.modeling.precision import autocast
from subgraft.orchestration.estimates.memory_estimate import Dimensions, activation_bytes, state_bytes
from subgraft.orchestration.store.provenance import Provenance
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.checkpoint import Checkpoints
from subgraft.training.checkpoint_writer import CheckpointWriter
from subgraft.training.engine import PlainEngine
from subgraft.training.loop import Hooks, Trainer
from subgraft.training.objectives.compute import cross_entropy
from subgraft.training.objectives.compute.causal import CausalLoss, collate, shift_labels
from subgraft.training.objectives.compute.embedding_view import IGNORED
from subgraft.training.objectives.compute.seq2seq import Seq2SeqData, Seq2SeqLoss, Seq2SeqView
from subgraft.training.objectives.compute.translation import Translation

Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = Iterator[Row]
ROUNDOFF: Mapping[NamedPrecision, float] = {"fp32": 2.0**-24, "bf16": 2.0**-9}
DATASHEET = 989e12  # bf16 operations a second of an H100 or H200, dense
SUPPORT = Path(__file__).resolve().parent.parent / "tests" / "support"
LANGUAGES = Languages(source="en", target="de")


@dataclass(frozen=True)
class Machine:
    """Where a part runs. tiny: sizes that take a CPU seconds."""

    device: torch.device
    tiny: bool
    processes: int

    @property
    def is_gpu(self) -> bool:
        return self.device.type == "cuda"

    def wait(self) -> None:
        if self.is_gpu:
            torch.cuda.synchronize(self.device)

    def seconds(self, work: Callable[[], object], repeats: int = 5) -> float:
        """The median seconds of a piece of work, after one for nothing."""
        work()
        taken = []
        for _ in range(repeats):
            self.wait()
            began = time.perf_counter()
            work()
            self.wait()
            taken.append(time.perf_counter() - began)
        return median(taken)

    def with_peak(self, work: Callable[[], list[float]]) -> tuple[list[float], int | None]:
        """The result of a piece of work, and the bytes that were allocated at most; None on a CPU."""
        if not self.is_gpu:
            return work(), None
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(self.device)
        return work(), torch.cuda.max_memory_allocated(self.device)


def machine_of(device: str, tiny: bool, processes: int = 1) -> Machine:
    return Machine(torch.device(device), tiny, processes)


# Ceilings.


def ceilings(machine: Machine) -> Rows:
    """What the card does at most: products, and copies of its memory, counting bytes read and written."""
    size, count = (128, 2**16) if machine.tiny else (8192, 2**30)
    for name, dtype, tf32 in (("bf16", torch.bfloat16, False), ("fp32", torch.float32, False), ("TF32", None, True)):
        one, two = (torch.randn(size, size, device=machine.device, dtype=dtype) for _ in range(2))
        torch.backends.cuda.matmul.allow_tf32 = tf32
        yield {"product": name, "operations_a_second": 2 * size**3 / machine.seconds(partial(torch.matmul, one, two))}
    torch.backends.cuda.matmul.allow_tf32 = False
    source = torch.randint(255, (count,), dtype=torch.uint8, device=machine.device)
    target = torch.empty_like(source)
    yield {"copied_bytes_a_second": 2 * count / machine.seconds(lambda: target.copy_(source))}


# Every training of the package.


def trainings(machine: Machine) -> Rows:
    """Each training of the small experiments of every kind: its loss and gradients against float64, then all of it.

    These are all objectives, generators, learned rows, heads and ways of conditioning that the experiments record.
    """
    sys.path.insert(0, str(SUPPORT))
    from recorded_experiments import EXPERIMENTS, NETWORK, write_inputs

    # A search trains what others train; the network that is imported is that of another experiment.
    names = [name for name in EXPERIMENTS if name != NETWORK and "search" not in name]
    with tempfile.TemporaryDirectory() as place:
        write_inputs(Path(place))
        if machine.tiny:
            for name in ("both-sides", "llama"):
                yield from _experiment(name, place, str(machine.device))
            return
        with ProcessPoolExecutor(machine.processes, mp_context=get_context("spawn")) as pool:
            for done in as_completed([pool.submit(_experiment, name, place, str(machine.device)) for name in names]):
                yield from done.result()


def _experiment(name: str, place: str, device: str) -> list[Row]:
    """The trainings of one experiment, by its steps; what needs a package that is not there is left out."""
    if str(SUPPORT) not in sys.path:
        sys.path.insert(0, str(SUPPORT))
    torch.set_num_threads(1)
    from recorded_experiments import EXPERIMENTS
    from subgraft.config.experiment import Experiment
    from subgraft.config.loading import load
    from subgraft.config.runtime import Runtime
    from subgraft.experiments.pipeline import Pipeline
    from subgraft.orchestration.execution.worker import Job, perform
    from subgraft.orchestration.store.step import in_order

    rows, plain, left_out = list[Row](), Trainer.probe_memory, set[str]()
    folder, current = Path(place), ""

    def compared(trainer: Trainer, batch: Any) -> None:
        module, weights = trainer._module, trainer._weights
        row: Row = {"experiment": name, "step": current, "loss": type(module).__name__, "batch": type(batch).__name__}
        try:
            rows.append(row | comparison(module, batch, weights, torch.device(device)))
        except Exception as error:
            rows.append(row | {"right": False, "error": _described(error)})
        plain(trainer, batch)

    pipeline = Pipeline(load(folder / "config.yaml", Experiment, EXPERIMENTS[name]), folder)
    with patch.object(Trainer, "probe_memory", compared):
        for step in in_order([pipeline.report]):
            current = step.name
            if step.stage.stage_name in ("evaluate", "report") or any(
                each.fingerprint in left_out for each in step.inputs.values()
            ):
                left_out.add(step.fingerprint)
                continue
            try:
                perform(Job(step, folder / "home", Runtime(), 1, 0, False, Provenance.here()))
            except Exception as error:
                left_out.add(step.fingerprint)
                lacks = "not installed" in str(error) or "ModuleNotFoundError" in str(error)
                rows.append({"experiment": name, "step": current, "left_out" if lacks else "error": _described(error)})
    return rows


def comparison(module: nn.Module, batch: Any, weights: Mapping[str, float], device: torch.device) -> Row:
    """Relative errors of the weighted loss and of all gradients together, against float64 on the CPU, without dropout.

    The module is as before afterwards: its weights are exact in float64. What computes in fp32 by itself, as a network
    of features does, is compared with fp32 on the CPU.
    """
    training, cpu = module.training, torch.device("cpu")
    compute = partial(_loss_and_gradients, module.eval(), batch, weights)
    try:
        results = {
            "cpu fp32": compute(cpu, torch.float32, "fp32"),
            "cpu bf16": compute(cpu, torch.float32, "bf16"),
            "fp32": compute(device, torch.float32, "fp32"),
            "bf16": compute(device, torch.float32, "bf16"),
        }
        try:
            reference, kind = compute(cpu, torch.float64, "fp32"), "float64"
        except RuntimeError:
            reference, kind = results["cpu fp32"], "fp32"
    finally:
        module.to(device, torch.float32).train(training)
    exact = [tensor.double().cpu() for tensor in reference]
    row: Row = {"reference": kind, "exact_loss": float(exact[0])}
    for name, values in results.items():
        row[f"loss, {name}"] = abs(float(values[0]) - float(exact[0])) / abs(float(exact[0]))
        row[f"gradients, {name}"] = relative_error(values[1:], exact[1:])
    depth = sum(1 for each in module.modules() if list(each.parameters(recurse=False)))
    longest = max(max(parameter.shape, default=1) for parameter in module.parameters())
    allowed = {
        "fp32": 4 * ROUNDOFF["fp32"] * math.sqrt(longest * depth),
        "bf16": 4 * ROUNDOFF["bf16"] * math.sqrt(depth),
    }
    row["right"] = all(
        row[f"{what}, {precision}"] <= max(limit, 2 * row[f"{what}, cpu {precision}"])
        for precision, limit in allowed.items()
        for what in ("loss", "gradients")
    )
    return row | {f"allowed, {precision}": limit for precision, limit in allowed.items()}


def _loss_and_gradients(
    module: nn.Module,
    batch: Any,
    weights: Mapping[str, float],
    device: torch.device,
    dtype: torch.dtype,
    precision: NamedPrecision,
) -> list[Tensor]:
    module.to(device, dtype)
    with autocast(device, precision):
        sums = module(with_floats(batch.to(device), dtype))
    loss = torch.stack([weights[name] * value.double() / batch.counts[name] for name, value in sums.items()]).sum()
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    gradients = torch.autograd.grad(loss, trained, allow_unused=True)
    return [loss.detach(), *(gradient for gradient in gradients if gradient is not None)]


def with_floats(part: Any, dtype: torch.dtype) -> Any:
    """A batch with its fractions in this type."""
    if isinstance(part, Tensor):
        return part.to(dtype) if part.is_floating_point() else part
    if not is_dataclass(part) or isinstance(part, type):
        return part
    seen = {id(value): with_floats(value, dtype) for value in vars(part).values()}  # equal objects remain equal
    copy = object.__new__(type(part))
    for name, value in vars(part).items():
        object.__setattr__(copy, name, seen[id(value)])
    return copy


def relative_error(values: Sequence[Tensor], exact: Sequence[Tensor]) -> float:
    """The norm of the difference of all tensors, relative to their norm; 0 if there are none."""
    pairs = zip(values, exact, strict=True)
    difference = math.sqrt(sum(float((value.double().cpu() - true).square().sum()) for value, true in pairs))
    norm = math.sqrt(sum(float(true.square().sum()) for true in exact))
    return difference / norm if norm else difference


# Resuming, and the seeds of dropout.


class _StoppedError(Exception):
    """A training ends here, before the checkpoint of its last update."""


def resuming(machine: Machine) -> Rows:
    """A training with dropout, twice, and again after a stop and from its checkpoint: the same bytes or not."""
    config = GPT2Config(
        n_embd=64 if machine.tiny else 768, n_layer=2 if machine.tiny else 6, n_head=4, vocab_size=500, n_positions=256
    )
    torch.manual_seed(1)
    model = causal_model(config)
    data = Blocks(64, 64, config.vocab_size)
    for precision in ("fp32", "bf16"):
        settings = _settings(6, 8 * 64, precision)
        with tempfile.TemporaryDirectory() as folder:

            def run(name: str, settings: FinetuneSettings = settings, folder: str = folder, **stop: int) -> nn.Module:
                module = CausalLoss(deepcopy(model)).to(machine.device)
                with suppress(_StoppedError):
                    updates(module, data, settings, machine, Checkpoints(Path(folder, name)), **stop)
                return module

            whole, again = run("whole"), run("again")
            run("stopped", stop_at=4)
            resumed = run("stopped")
        for what, other in (("the same twice", again), ("stopped and resumed", resumed)):
            pairs = list(zip(whole.parameters(), other.parameters(), strict=True))
            yield {
                "what": what,
                "precision": precision,
                "same_bytes": all(torch.equal(one, two) for one, two in pairs),
                "relative_difference": relative_error(
                    [two.detach() for _, two in pairs], [one.detach().double().cpu() for one, _ in pairs]
                ),
            }


# Language models: operations, memory, and a loop that has nothing but PyTorch.


class Blocks:
    """Blocks of random tokens, all of one length: the examples of a causal model."""

    def __init__(self, count: int, length: int, vocabulary: int) -> None:
        self._tokens = np.random.default_rng(1).integers(vocabulary, size=(count, length))
        self.lengths = np.full(count, length)

    def batch(self, indices: np.ndarray, epoch: int) -> Any:
        del epoch
        return collate([shift_labels(self._tokens[index].tolist()) for index in indices], 0)


class Unsaved(Checkpoints):
    """Checkpoints that are not written: gigabytes that a measurement of updates does not need."""

    def save(self, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        del step, tensors, state


def causal_model(config: Any) -> Any:
    """A model of this configuration with random weights."""
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32)  # type: ignore[no-untyped-call]


def llama(machine: Machine, name: str) -> Any:
    """A Llama of a known shape with random weights."""
    width, inner, layers, heads, key_heads, vocabulary = {
        "tiny": (64, 128, 2, 4, 2, 512),
        "135M": (576, 1536, 30, 9, 3, 49152),  # SmolLM2-135M
        "1B": (2048, 8192, 16, 32, 8, 128256),  # Llama-3.2-1B
    }["tiny" if machine.tiny else name]
    config = LlamaConfig(
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=key_heads,
        vocab_size=vocabulary,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    )
    torch.manual_seed(1)
    with machine.device:
        return causal_model(config)


def operations(model: Any, tokens: int, length: int) -> float:
    """Floating-point operations of an update of a causal model: 6 a weight and token, and those of attention.

    Causal attention has 2 * T / 2 products of the width for scores and as many for states, forward, and twice backward.
    """
    config = model.config
    tables = {id(model.get_input_embeddings().weight), id(model.get_output_embeddings().weight)}
    body = sum(each.numel() for each in model.parameters() if each.dim() == 2 and id(each) not in tables)
    output = model.get_output_embeddings().weight.numel()
    attention = 6 * config.num_hidden_layers * config.hidden_size * length
    return float(tokens * (6 * (body + output) + attention))


def updates(
    module: Any,
    data: Any,
    settings: FinetuneSettings,
    machine: Machine,
    checkpoints: Checkpoints | None = None,
    stop_at: int | None = None,
) -> list[float]:
    """The seconds of each update but the first two of a training by the package's own loop.

    checkpoints: where each update is saved; None saves nothing.  stop_at: the update after which it is stopped.
    """
    times: list[float] = []

    def metrics(step: int, values: Mapping[str, float]) -> None:
        del values
        times.append(time.perf_counter())
        if step == stop_at:
            raise _StoppedError

    engine, seconds = PlainEngine(module, settings, machine.device), 1e9 if checkpoints is None else 0.0
    with tempfile.TemporaryDirectory() as folder:
        written, hooks = checkpoints or Unsaved(Path(folder)), Hooks(metrics=metrics)
        Trainer(
            module, module.weights, data, settings, engine, written, seed=1, checkpoint_seconds=seconds, hooks=hooks
        ).run()
    return [later - earlier for earlier, later in pairwise(times[1:])]


def bare_updates(model: Any, batches: Sequence[Any], machine: Machine) -> list[float]:
    """The same of a loop of PyTorch, on batches that are there: whole logits, fused AdamW, bf16, clipping."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    times = []
    model.train()
    for built in batches:
        batch = built.to(machine.device)
        with torch.autocast(machine.device.type, torch.bfloat16):
            logits = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask, use_cache=False).logits
        loss = functional.cross_entropy(logits.float().flatten(0, 1), batch.labels.flatten(), ignore_index=IGNORED)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        times.append(time.perf_counter())
    return [later - earlier for earlier, later in pairwise(times[1:])]


def small_language_model(machine: Machine) -> Rows:
    """135 M parameters (SmolLM2's shape), finetuned: by batch and length, against a bare loop in turns."""
    sizes = [(2048, 8), (512, 32), (512, 64), (128, 128)] if not machine.tiny else [(16, 4)]
    yield from _language_model(machine, "135M", sizes, against_bare=2)


def large_language_model(machine: Machine) -> Rows:
    """1 B parameters (Llama 3.2's shape)."""
    yield from _language_model(machine, "1B", [(2048, 8), (512, 32)] if not machine.tiny else [(16, 4)], against_bare=1)


def _language_model(machine: Machine, name: str, sizes: Sequence[tuple[int, int]], against_bare: int) -> Rows:
    model = llama(machine, name)
    config = model.config.to_dict()
    for number, (length, blocks) in enumerate(sizes):
        tokens, count = length * blocks, 3 if machine.tiny else 8
        data, settings = Blocks(blocks * count, length, model.config.vocab_size), _settings(count, tokens, "bf16")
        loss = CausalLoss(model, settings.label_smoothing)
        taken, peak = machine.with_peak(partial(updates, loss, data, settings, machine))
        bare = list[float]()
        if number < against_bare:
            batches = [data.batch(np.arange(blocks) + blocks * place, 0) for place in range(count)]
            for _ in range(2):
                bare += bare_updates(model, batches, machine)
                taken += updates(loss, data, settings, machine)
        seconds, estimate = median(taken), state_bytes(count_parameters(config), 0, 1)
        estimate += activation_bytes(Dimensions.of(config), tokens, "bf16", on_gpu=machine.is_gpu)
        yield {
            "model": name,
            "length": length,
            "tokens": tokens,
            "seconds": seconds,
            "tokens_a_second": tokens / seconds,
            "share_of_datasheet": operations(model, tokens, length) / seconds / DATASHEET,
            "to_bare_loop": seconds / median(bare) if bare else None,
            "peak_bytes": peak,
            "estimated_to_peak": None if peak is None else estimate / peak,
        }


# mBART-large: pretraining, and the training of a generator.


def words_of(tokenizer: Tokenizer, lines: int, seed: int) -> list[str]:
    """Lines of 12 to 40 words of a vocabulary, by Zipf's law."""
    words = [entry.surface for entry in islice(tokenizer.ids, 20_000) if entry.word_initial and entry.surface.isalpha()]
    chooser = np.random.default_rng(seed)
    return [
        " ".join(words[int(place) % len(words)] for place in chooser.zipf(1.3, size=int(chooser.integers(12, 40))))
        for _ in range(lines)
    ]


def mbart(machine: Machine) -> Rows:
    """mBART-large's shape with random weights: pretraining on pairs, and PATT with its distillation."""
    from transfer_memory import invented_tokenizer

    size, width, layers = (400, 32, 1) if machine.tiny else (250_027, 1024, 12)
    tokenizer = invented_tokenizer(size, seed=1)
    config = MBartConfig(
        vocab_size=size,
        d_model=width,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=width // 16 if machine.tiny else 16,
        decoder_attention_heads=width // 16 if machine.tiny else 16,
        encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width,
        scale_embedding=True,
        pad_token_id=tokenizer.special["pad"],
        bos_token_id=tokenizer.special["bos"],
        eos_token_id=tokenizer.special["eos"],
        decoder_start_token_id=None,
    )
    torch.manual_seed(1)
    with machine.device:
        model: Any = MBartForConditionalGeneration(config)
    lines, tokens, steps = (24, 160, 3) if machine.tiny else (2000, 8000, 8)
    form = family_of(model).sequence_format(config.to_dict(), tokenizer, tokenizer, LANGUAGES)
    pairs = list(zip(words_of(tokenizer, lines, 1), words_of(tokenizer, lines, 2), strict=True))
    examples, padding = Translation(pairs, tokenizer, tokenizer, form, 256), (tokenizer.special["pad"],) * 2
    settings = _settings(steps, tokens, "bf16")
    table = model.get_input_embeddings().weight.numel()
    encoder, decoder = (
        sum(each.numel() for each in stack.layers.parameters()) for stack in (model.get_encoder(), model.get_decoder())
    )
    loss, data = Seq2SeqLoss(model, 0.1), Seq2SeqData(examples, *padding)
    yield _seq2seq_row("pretraining", machine, loss, data, settings, 6 * (encoder + decoder + table))
    view = Seq2SeqView(examples, "decoder", padding)
    simulator = Simulator(view, tokenizer, ResegmentationSettings(), 10, seed=1, max_positions=1024)
    patt = GeneratorLoss(model, Generator("patt", width), view, 0.5, 0.1, "input").to(machine.device)
    # The encoder is read, states are computed and followed back without gradients of weights, and the teacher is read.
    costs = 2 * encoder + 4 * (decoder + table) + 2 * decoder
    yield _seq2seq_row("generator: patt with distillation", machine, patt, simulator, settings, costs)


def _seq2seq_row(
    what: str, machine: Machine, loss: Any, data: Any, settings: FinetuneSettings, operations_a_token: float
) -> Row:
    taken, peak = machine.with_peak(partial(updates, loss, data, settings, machine))
    batch_tokens = settings.batch_size
    began = time.perf_counter()
    data.batch(np.arange(16), 0)
    built = (time.perf_counter() - began) / data.lengths[:16].sum()
    seconds = median(taken)
    config = loss.model.config.to_dict()
    trained = sum(each.numel() for each in loss.parameters() if each.requires_grad)
    total = count_parameters(config).total
    estimate = state_bytes(count_parameters(config)._replace(total=total, trained=trained), 0, 1)
    estimate += activation_bytes(Dimensions.of(config), batch_tokens, "bf16", on_gpu=machine.is_gpu)
    return {
        "what": what,
        "tokens": batch_tokens,
        "seconds": seconds,
        "tokens_a_second": batch_tokens / seconds,
        "share_of_datasheet": operations_a_token * batch_tokens / seconds / DATASHEET,
        "seconds_to_build_a_batch": built * batch_tokens,
        "peak_bytes": peak,
        "estimated_to_peak": None if peak is None else estimate / peak,
    }


# Decoding.


def decoding(machine: Machine) -> Rows:
    """Greedy and beam search in fp32: the CPU's output, or another one of the same probability."""
    sys.path.insert(0, str(SUPPORT))
    from toys import build_marian, english, english_tokenizer, german_tokenizer, sequence_format

    # Of one size: beam search of transformers 5.17 takes the encoder's for both sides.
    source, target = english_tokenizer(90), german_tokenizer(90)
    shape = {"d_model": 256, "encoder_layers": 3, "decoder_layers": 3, "attention_heads": 4, "ffn_dim": 512}
    model = build_marian(source, target, seed=1, max_positions=64, **shape)
    with torch.no_grad():
        for parameter in model.parameters():  # else the probabilities of all tokens are nearly equal
            parameter.mul_(2.0)
    form = sequence_format({"model_type": "marian"}, source, target, LANGUAGES)
    for beam in (1, 4):
        outputs = {}
        for place in (torch.device("cpu"), machine.device):
            model.to(place)  # type: ignore[arg-type]
            translator = Translator(model, source, target, form, beam=beam, max_length_ratio=1.0, max_positions=64)
            outputs[place] = translator.with_probabilities(english(8 if machine.tiny else 200, 3))
        on_cpu, on_device = outputs[torch.device("cpu")], outputs[machine.device]
        differ = [(one, two) for one, two in zip(on_cpu, on_device, strict=True) if one.tokens != two.tokens]
        gaps = [_gap(one.probabilities, two.probabilities, beam) for one, two in differ]
        # Logits differ by their rounding; two outputs whose probabilities are closer than it are a tie.
        tie = 4 * ROUNDOFF["fp32"] * math.sqrt(6 * 12 * 512)
        yield {
            "beam": beam,
            "outputs": len(on_cpu),
            "different": len(differ),
            "largest_gap": max(gaps, default=0.0),
            "right": all(gap <= tie for gap in gaps),
        }


def _gap(one: Sequence[float], two: Sequence[float], beam: int) -> float:
    """The difference of two outputs' mean log-probabilities, or of the first tokens that differ in it."""
    logs = [np.log(np.maximum(each, 1e-30)) for each in (one, two)]
    if beam > 1:
        return abs(float(logs[0].mean() - logs[1].mean()))
    shared = min(len(one), len(two))
    differences = np.abs(logs[0][:shared] - logs[1][:shared])
    return float(differences[np.argmax(differences > 1e-3)]) if len(differences) else 0.0


# Choices, one at a time.


def choices(machine: Machine) -> Rows:
    """What single settings are worth to an update of the 135 M model of 16,384 tokens in blocks of 512."""
    model, length, blocks = llama(machine, "135M"), *((16, 4) if machine.tiny else (512, 32))
    count = 3 if machine.tiny else 8
    data, loss = Blocks(blocks * count, length, model.config.vocab_size), CausalLoss(model)

    def update(precision: NamedPrecision = "bf16") -> float:
        return median(updates(loss, data, _settings(count, length * blocks, precision), machine))

    yield {"choice": "as it is: bf16, fused AdamW, SDPA, batches built ahead", "seconds": update()}
    yield {"choice": "fp32", "seconds": update("fp32")}
    torch.set_float32_matmul_precision("high")
    yield {"choice": "fp32 with TF32 products", "seconds": update("fp32")}
    torch.set_float32_matmul_precision("highest")
    with patch.object(Trainer, "_builds_ahead", False):
        yield {"choice": "batches built between updates", "seconds": update()}
    plain = torch.optim.AdamW
    with patch.object(torch.optim.AdamW, "__init__", _not_fused(plain.__init__)):
        yield {"choice": "AdamW that is not fused", "seconds": update()}
    model.set_attn_implementation("eager")
    yield {"choice": "plain attention", "seconds": update()}
    model.set_attn_implementation("sdpa")
    for rows in (144, 1024, 4096, length * blocks):
        with patch.object(cross_entropy, "loss_slice_rows", lambda *_, rows=rows: rows):
            yield {"choice": f"logits of {rows} tokens at a time", "seconds": update()}
    body = model.model
    began = time.perf_counter()
    body.compile(backend="eager" if machine.tiny else "inductor", dynamic=False)
    yield {"choice": "torch.compile, one shape", "seconds": update(), "with_compiling": time.perf_counter() - began}


def _not_fused(plain: Callable[..., None]) -> Callable[..., None]:
    return lambda self, *arguments, **named: plain(self, *arguments, **named | {"fused": False})


def attention(machine: Machine) -> Rows:
    """Forward and backward of PyTorch's kernels for attention by length, 16,384 tokens, 9 heads of 64, bf16."""
    tokens, heads = (64, 2) if machine.tiny else (16_384, 9)
    for length in (16,) if machine.tiny else (128, 512, 2048, 8192):
        shape = (tokens // length, heads, length, 64)
        states = [torch.randn(shape, device=machine.device, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
        mask = torch.ones(tokens // length, 1, length, length, dtype=torch.bool, device=machine.device).tril()
        for kernel in ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH"):
            for masked in (False, True):

                def work(kernel: str = kernel, masked: bool = masked, states: Any = states, mask: Any = mask) -> None:
                    with sdpa_kernel(getattr(SDPBackend, kernel)):
                        attend: Any = functional.scaled_dot_product_attention
                        attend(*states, attn_mask=mask if masked else None, is_causal=not masked).sum().backward()

                row: Row = {"kernel": kernel, "length": length, "mask": "given" if masked else "causal"}
                try:
                    yield row | {"seconds": machine.seconds(work)}
                except RuntimeError as error:  # a kernel that does not take this
                    yield row | {"refused": str(error).splitlines()[0][:200]}


def copies(machine: Machine) -> Rows:
    """Batches to the device, and a checkpoint's copy to main memory."""
    batch = Blocks(32, 512, 1000).batch(np.arange(32), 0)
    yield {"what": "a batch of 16,384 tokens, pinned", "seconds": machine.seconds(lambda: batch.to(machine.device))}
    pageable = {name: getattr(batch, name) for name in ("input_ids", "attention_mask", "labels")}
    plain = machine.seconds(lambda: [each.to(machine.device) for each in pageable.values()])
    yield {"what": "the same, not pinned", "seconds": plain}
    model = llama(machine, "135M")
    engine = PlainEngine(CausalLoss(model), _settings(1, 512, "bf16"), machine.device)
    engine.probe_memory(Blocks(1, 16, 500).batch(np.arange(1), 0).to(machine.device), ["loss"], times=1)
    with tempfile.TemporaryDirectory() as folder:
        state = engine.state()
        writer = CheckpointWriter(Checkpoints(Path(folder)), engine, 60.0, background=True)
        began = time.perf_counter()
        writer.reserve(state, {})
        yield {"what": "buffers of a checkpoint", "seconds": time.perf_counter() - began}
        seconds = machine.seconds(lambda: writer._copy_to_host(state), repeats=3)
        size = sum(tensor.numel() * tensor.element_size() for tensor in state.values())
        yield {"what": "a checkpoint's copy", "seconds": seconds, "bytes_a_second": size / seconds}


def profile(machine: Machine) -> Rows:
    """Where the time of an update goes: the ten operations that take the device longest."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiled

    model, length, blocks = llama(machine, "135M"), *((16, 4) if machine.tiny else (512, 32))
    data, loss = Blocks(blocks * 4, length, model.config.vocab_size), CausalLoss(model)
    updates(loss, data, _settings(2, length * blocks, "bf16"), machine)
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if machine.is_gpu else [])]
    with profiled(activities=activities) as recorded:
        updates(loss, data, _settings(3, length * blocks, "bf16"), machine)
    column = "self_device_time_total" if machine.is_gpu else "self_cpu_time_total"
    events = sorted(recorded.key_averages(), key=lambda event: -getattr(event, column))
    total = sum(getattr(event, column) for event in events)
    for event in events[:10]:
        yield {"operation": event.key[:120], "share": getattr(event, column) / total, "calls": event.count}


# DeepSpeed.


def zero(machine: Machine) -> Rows:
    """ZeRO 0 to 3 in a world of one: the losses of the plain engine."""
    if find_spec("deepspeed") is None or sys.modules.get("deepspeed", ...) is None:
        yield {"left_out": "deepspeed is not installed"}
        return
    from subgraft.training.deepspeed_engine import DeepSpeedEngine

    environment = {
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29555",
    }
    os.environ.update(environment)
    torch.manual_seed(1)
    config = LlamaConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=512,
    )
    model, data, settings = causal_model(config), Blocks(32, 16, 512), _settings(4, 128, "fp32")

    def losses(engine_of: Callable[[nn.Module], Any]) -> list[float]:
        module, values = CausalLoss(deepcopy(model)).to(machine.device), list[float]()
        hooks = Hooks(metrics=lambda step, named: values.append(named["train_loss"]))
        with tempfile.TemporaryDirectory() as folder:
            engine, written = engine_of(module), Unsaved(Path(folder))
            Trainer(module, module.weights, data, settings, engine, written, seed=1, hooks=hooks).run()
        return values

    plain = losses(lambda module: PlainEngine(module, settings, machine.device))
    for stage in get_args(ZeroStage):
        make = partial(DeepSpeedEngine, settings=settings, device=machine.device, zero_stage=stage)
        under_zero = losses(make)
        difference = max(abs(one - two) / two for one, two in zip(under_zero, plain, strict=True))
        yield {"stage": stage, "largest_relative_difference": difference, "right": difference < 1e-4}


def _settings(steps: int, tokens: int, precision: NamedPrecision) -> FinetuneSettings:
    return FinetuneSettings(
        max_steps=steps,
        batch_size=tokens,
        max_length=8192,
        learning_rate=1e-4,
        warmup_steps=1,
        precision=precision,
        label_smoothing=0.0,
    )


# Running the parts.


@dataclass(frozen=True)
class Part:
    """A question, and the seconds that its answer may take."""

    answer: Callable[[Machine], Rows]
    limit: float


PARTS = {
    "ceilings": Part(ceilings, 40),
    "trainings": Part(trainings, 120),
    "small-language-model": Part(small_language_model, 70),
    "mbart": Part(mbart, 80),
    "resuming": Part(resuming, 40),
    "choices": Part(choices, 90),
    "large-language-model": Part(large_language_model, 60),
    "decoding": Part(decoding, 40),
    "profile": Part(profile, 40),
    "attention": Part(attention, 40),
    "copies": Part(copies, 40),
    "zero": Part(zero, 60),
}


def main(arguments: Sequence[str] | None = None) -> None:
    args = _parser().parse_args(arguments)
    machine = machine_of(args.device, args.tiny, args.processes)
    if args.part:
        _answer(args.part, machine, args.rows)
        return
    result: dict[str, Any] = {"machine": described(machine), "parts": {}}
    until = time.monotonic() + 60 * args.minutes
    for name in args.only or PARTS:
        limit = min(PARTS[name].limit, until - time.monotonic())
        print(f"== {name}: {_question(name)}", flush=True)
        result["parts"][name] = (_here if args.tiny else partial(in_own_process, limit=limit))(name, machine)
        _show(result["parts"][name])
        if args.json:
            write_json(args.json, result)


def _question(name: str) -> str:
    return (PARTS[name].answer.__doc__ or "").partition("\n")[0]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART")
    parser.add_argument("--minutes", type=float, default=8.0, help="for all parts together")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="sizes for a CPU, all parts in one process")
    parser.add_argument("--processes", type=int, default=8, help="that train small experiments at once")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)
    return parser


def described(machine: Machine) -> dict[str, Any]:
    """What the figures were made on, and by which code and command."""
    here = Provenance.here()
    card: dict[str, Any] = {}
    if machine.is_gpu:
        properties = torch.cuda.get_device_properties(machine.device)
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        driver = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        card = {"card": properties.name, "bytes": properties.total_memory, "driver": driver, "cuda": torch.version.cuda}
    return {
        **card,
        "cores": os.cpu_count(),
        "versions": {**here.versions, "torch": torch.__version__},
        "commit": here.git_commit or os.environ.get("SUBGRAFT_COMMIT"),
        "command": list(here.argv),
    }


def in_own_process(name: str, machine: Machine, limit: float) -> dict[str, Any]:
    """A part in a process of its own, which is ended with its children after the limit."""
    with tempfile.TemporaryDirectory() as folder:
        rows, errors = Path(folder, "rows"), Path(folder, "errors")
        options = ["--part", name, "--rows", str(rows), "--device", str(machine.device)]
        options += ["--processes", str(machine.processes), *(["--tiny"] if machine.tiny else [])]
        began = time.monotonic()
        with errors.open("w") as stream:
            command = [sys.executable, __file__, *options]
            process = subprocess.Popen(command, stdout=stream, stderr=stream, start_new_session=True)
            try:
                code = process.wait(max(limit, 0.0))
                state, error = ("done", None) if code == 0 else ("failed", errors.read_text()[-3000:])
            except subprocess.TimeoutExpired:
                state, error = "took too long", errors.read_text()[-500:]
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        return _part(state, began, read_rows(rows), error)


def _here(name: str, machine: Machine) -> dict[str, Any]:
    began, rows = time.monotonic(), list[Row]()
    try:
        rows.extend(PARTS[name].answer(machine))
    except Exception:
        return _part("failed", began, rows, traceback.format_exc())
    return _part("done", began, rows, None)


def _part(state: str, began: float, rows: Sequence[Row], error: str | None) -> dict[str, Any]:
    part: dict[str, Any] = {"state": state, "seconds": round(time.monotonic() - began, 1), "rows": list(rows)}
    return part if error is None else part | {"error": error}


def _answer(name: str, machine: Machine, rows: Path) -> None:
    with rows.open("a", encoding="utf-8") as stream:
        for row in PARTS[name].answer(machine):
            stream.write(json.dumps(row) + "\n")
            stream.flush()


def read_rows(path: Path) -> list[Row]:
    """The complete lines of a file of rows, which may not be there."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def write_json(path: Path, content: Any) -> None:
    """Write a file that is either the old one or all of the new one, whenever this ends."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    unfinished.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(path)


def _show(part: Mapping[str, Any]) -> None:
    rows = part["rows"]
    wrong = [row for row in rows if row.get("right") is False or "error" in row]
    print(f"   {part['state']}, {part['seconds']} s, {len(rows)} rows, {len(wrong)} wrong", flush=True)
    for row in wrong if len(rows) > 20 else rows:
        print("   ", json.dumps({key: _short(value) for key, value in row.items()}), flush=True)
    if "error" in part:
        print(part["error"], flush=True)


def _short(value: Any) -> Any:
    return float(f"{value:.3g}") if isinstance(value, float) else value


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:500]


if __name__ == "__main__":
    main()
