"""Precision and backend of matrix products in training.

Precision: fp32 or bf16, whichever a measurement of about a second finds faster.

Backend: PyTorch uses MKL on x86. On AMD processors with AVX-512, MKL uses half of the vector width and oneDNN all of
it: a training step takes 0.56 to 0.65 of the time (benchmarks/products.py). PyTorch uses oneDNN only when it is allowed
to round to bf16. oneDNN rounds on processors with bf16 units (AMX) and not on AMD's, which is verified with a product
that bf16 cannot represent.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import PreTrainedModel

from subgraft.config.training import NamedPrecision, Precision
from subgraft.modeling.families import family_of

ONEDNN = "oneDNN"
# Fused attention consists of many small products, and starting each in oneDNN costs more than the product. Plain
# attention consists of few large ones, and its memory grows with the square of the length. Above this length, in
# tokens, fused attention is as fast.
LONGEST_PLAIN = 256
# oneDNN caches the code that it compiles for each shape of a product, by default for 1,024 shapes: hundreds of MiB if
# every batch has another shape. The shapes of one layer are enough, and as fast.
_CACHED_SHAPES = "64"
# bf16 is selected if it takes at most this fraction of the time of fp32: a smaller gain does not justify its rounding.
MAX_TIME_RATIO = 0.9
# If one sentence takes this many times as long in bf16, batches are not measured, because they could take minutes. On
# processors without bf16 instructions the product for the gradient of states takes up to 67 times as long
# (docs/performance.md).
HOPELESS = 3.0
SECONDS = 1.0
# The number of tokens in a pass: enough to use the device fully, and few enough for a second.
TOKENS = {"cpu": 2048, "cuda": 16384}
# The sentence lengths of successive passes. They differ because in training every batch has another shape, and on a CPU
# products in bf16 are prepared for each shape.
LENGTHS = tuple(24 + 7 * number % 17 for number in range(17))
HEAD = 64
# The size of a task's vocabulary; each layer is measured with its share of the projection onto it.
VOCABULARY = 8192


def autocast(device: torch.device, precision: Precision) -> torch.autocast:
    """The autocast context for this precision; weights, sums and norms stay in fp32.

    Raises ValueError for `auto`, which must be resolved by a measurement first.
    """
    if precision == "auto":
        raise ValueError("precision auto was not resolved before it was used")
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16")


def to_device(tensor: Tensor, device: torch.device | str) -> Tensor:
    """A batch's tensor on a device. On a GPU, the copy waits for no computation that is still to be done there."""
    if torch.device(device).type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def fuses_attention(device: torch.device, precision: Precision) -> bool:
    """Whether fused attention is faster: on a CPU its backward pass is slow in bf16 (benchmarks/precision.py)."""
    return device.type != "cpu" or precision != "bf16"


def device_name(device: torch.device) -> str:
    """The device that a measurement is valid for: the GPU, or the processor with its number of threads."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"{_processor()}, threads: {torch.get_num_threads()}"


@dataclass(frozen=True)
class LayerShape:
    """The properties of a model that the measurement uses.

    Vocabularies are excluded, so that systems that differ only in them are trained in the same precision.

    Attributes:
        width: The width of hidden states.
        inner: The width of feed-forward layers.
        layers: The number of layers of both sides.
    """

    width: int
    inner: int
    layers: int

    @classmethod
    def of(cls, model: PreTrainedModel) -> LayerShape:
        family, config = family_of(model), model.config.to_dict()
        layers = family.layers(config, "encoder") + family.layers(config, "decoder")
        return cls(family.width(config), family.inner_width(config), max(1, layers))


@dataclass(frozen=True)
class MeasuredPrecision:
    """The chosen precision, and a layer's seconds for a forward and backward pass in each, on this device."""

    precision: NamedPrecision
    seconds: Mapping[NamedPrecision, float]
    device: str


def faster_precision(shape: LayerShape, device: torch.device) -> MeasuredPrecision:
    """Measure a layer of this shape, forward and backward, in both precisions for about a second.

    The caller's random state is unchanged.
    """
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(0)
        layer = _Layer(shape).to(device)
        tokens = torch.randn(TOKENS.get(device.type, 2048), shape.width, device=device)
    seconds = _seconds(layer, tokens)
    faster: NamedPrecision = "bf16" if seconds["bf16"] <= MAX_TIME_RATIO * seconds["fp32"] else "fp32"
    return MeasuredPrecision(faster, seconds, device_name(device))


def _seconds(layer: _Layer, tokens: Tensor) -> dict[NamedPrecision, float]:
    """The median time of a pass in each precision, over several sentence lengths; few sentences if bf16 is slow.

    Precisions take turns, and on a CPU processor time counts, so that other work on the machine does not decide.
    """
    names: tuple[NamedPrecision, ...] = ("fp32", "bf16")
    sentences = _sentences(tokens, min(LENGTHS) - 1)
    for name in names:  # loads libraries
        _pass(layer, sentences[:1], name)
    seconds = {name: min(_pass(layer, sentences[:1], name) for _ in range(2)) for name in names}
    if seconds["bf16"] > HOPELESS * seconds["fp32"]:
        sentences_in_time = sentences[: max(1, int(SECONDS / seconds["bf16"]))]
        return {name: _pass(layer, sentences_in_time, name) for name in names}
    passes, lengths = list[dict[NamedPrecision, float]](), cycle(LENGTHS)
    while sum(sum(times.values()) for times in passes) < SECONDS:
        states = _sentences(tokens, next(lengths))
        passes.append({name: _pass(layer, states, name) for name in names})
    return {name: median(times[name] for times in passes) for name in names}


def _sentences(tokens: Tensor, length: int) -> Tensor:
    """Tokens [n, width] as sentences [n / length, length, width]; a remainder is dropped."""
    count = len(tokens) // length
    return tokens[: count * length].view(count, length, -1)


class _Layer(nn.Module):
    """A layer of a Transformer, passed twice, and its share of the projection onto a vocabulary."""

    def __init__(self, shape: LayerShape) -> None:
        super().__init__()
        self.attended, self.mixed = nn.Linear(shape.width, 3 * shape.width), nn.Linear(shape.width, shape.width)
        self.inner, self.outer = nn.Linear(shape.width, shape.inner), nn.Linear(shape.inner, shape.width)
        self.rows = nn.Linear(shape.width, max(1, VOCABULARY // shape.layers))
        self.heads = next(n for n in range(max(1, shape.width // HEAD), 0, -1) if shape.width % n == 0)

    def forward(self, states: Tensor, fused: bool) -> Tensor:
        """[sentences, tokens, width] → a loss."""
        for _ in range(2):  # the code for a shape is compiled once for all layers of a side
            parts = self.attended(states).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            attention = functional.scaled_dot_product_attention if fused else _attention
            attended = attention(*parts.unbind(0)).transpose(1, 2).flatten(2)
            states = functional.layer_norm(states + self.mixed(attended), states.shape[-1:])
            inner = functional.gelu(self.inner(states))
            states = functional.layer_norm(states + self.outer(inner), states.shape[-1:])
        logits: Tensor = self.rows(states).flatten(0, 1).float()
        labels = torch.zeros(len(logits), dtype=torch.long, device=logits.device)
        return functional.cross_entropy(logits, labels)


def _attention(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    scores = queries @ keys.transpose(-1, -2) * keys.shape[-1] ** -0.5
    attended: Tensor = scores.softmax(-1, dtype=torch.float32).to(queries.dtype) @ values
    return attended


def _pass(layer: _Layer, states: Tensor, precision: NamedPrecision) -> float:
    """Seconds of a forward and backward pass: of the processor's time on a CPU, with all of its threads."""
    clock = time.perf_counter if states.device.type == "cuda" else time.process_time
    started = clock()
    with faster_products(states.device, precision, states.shape[1]):
        with autocast(states.device, precision):
            loss = layer(states, fuses_attention(states.device, precision))
        loss.backward()
    layer.zero_grad()
    float(loss.detach())
    if states.device.type == "cuda":
        torch.cuda.synchronize(states.device)
    return clock() - started


def _processor() -> str:
    """The name of the processor, if the system provides it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def products_by(device: torch.device, precision: Precision) -> str | None:
    """The library for matrix products in training, if it is not the one that PyTorch chooses."""
    return ONEDNN if device.type == "cpu" and precision == "fp32" and _onednn_is_faster() else None


@contextmanager
def faster_products(device: torch.device, precision: Precision, tokens: int) -> Iterator[None]:
    """A forward and backward pass in this context uses the faster library for products.

    tokens: the length of the batch's longest sentence.
    """
    if products_by(device, precision) is None:
        yield
        return
    attention = sdpa_kernel(SDPBackend.MATH) if tokens <= LONGEST_PLAIN else nullcontext()
    with _onednn_products(), attention:
        yield


@contextmanager
def _onednn_products() -> Iterator[None]:
    settings = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = settings.fp32_precision
    settings.fp32_precision = "bf16"
    try:
        yield
    finally:
        settings.fp32_precision = before


@cache
def _onednn_is_faster() -> bool:
    """Whether oneDNN is faster. It is decided by processor type, so that a machine always computes the same bytes."""
    is_available = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    is_candidate = is_available and torch.backends.cpu.get_cpu_capability() == "AVX512" and _is_amd()
    if is_candidate:
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", _CACHED_SHAPES)  # read when oneDNN is first used
    return is_candidate and _keeps_fp32()


def _is_amd() -> bool:
    try:
        return "AuthenticAMD" in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def _keeps_fp32() -> bool:
    """Whether a product with a factor that bf16 would round to 1 is correct."""
    factor = 1 + 2**-10
    with _onednn_products():
        product = torch.full((256, 256), factor) @ torch.ones(256, 256)
    return bool(torch.allclose(product, torch.tensor(256 * factor), rtol=1e-6))
