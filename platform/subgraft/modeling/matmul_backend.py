"""The library for fp32 matrix products on a CPU, and the attention implementation that suits it.

PyTorch uses MKL on x86. On AMD processors with AVX-512, MKL uses half of the vector width and oneDNN all of it: a
training step takes 0.56 to 0.65 of the time (benchmarks/products.py). PyTorch uses oneDNN only when it is allowed to
round to bf16. oneDNN rounds on processors with bf16 units (AMX) and not on AMD's, which is verified with a product that
bf16 cannot represent.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from subgraft.config.training import Precision

ONEDNN = "oneDNN"
# Fused attention is many small products, each with a start in oneDNN that costs more than itself; plain attention is
# few large ones, and takes memory by the square of the length. From here on the fused one is as fast.
LONGEST_PLAIN = 256
# oneDNN keeps the code that it makes for each shape of a product, 1,024 of them: hundreds of MiB where every batch has
# another shape. Those of one layer are enough for the others, and no slower.
_KEPT_SHAPES = "64"


def products_by(device: torch.device, precision: Precision) -> str | None:
    """The library of a training's products where it is not the one that PyTorch chooses."""
    return ONEDNN if device.type == "cpu" and precision == "fp32" and _onednn_is_faster() else None


@contextmanager
def faster_products(device: torch.device, precision: Precision, tokens: int) -> Iterator[None]:
    """While open, for a pass forward and back, products are those of the faster library.

    tokens: of the batch's longest sentence.
    """
    if products_by(device, precision) is None:
        yield
        return
    attention = sdpa_kernel(SDPBackend.MATH) if tokens <= LONGEST_PLAIN else nullcontext()
    with _given_to_onednn(), attention:
        yield


@contextmanager
def _given_to_onednn() -> Iterator[None]:
    settings = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = settings.fp32_precision
    settings.fp32_precision = "bf16"
    try:
        yield
    finally:
        settings.fp32_precision = before


@cache
def _onednn_is_faster() -> bool:
    """Decided by processor type, not by timing, so that a machine always computes the same bytes."""
    there = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    fitting = there and torch.backends.cpu.get_cpu_capability() == "AVX512" and _made_by_amd()
    if fitting:
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", _KEPT_SHAPES)  # read when oneDNN is first used
    return fitting and _keeps_fp32()


def _made_by_amd() -> bool:
    try:
        return "AuthenticAMD" in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def _keeps_fp32() -> bool:
    """Whether a product with a factor that bf16 would round to 1 is correct."""
    factor = 1 + 2**-10
    with _given_to_onednn():
        found = torch.full((256, 256), factor) @ torch.ones(256, 256)
    return bool(torch.allclose(found, torch.tensor(256 * factor), rtol=1e-6))
