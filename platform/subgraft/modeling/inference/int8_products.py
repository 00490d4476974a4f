# mypy: allow-untyped-calls
"""Whether CTranslate2 multiplies int8 correctly on this processor, tested with a product whose result is known.

On processors other than Intel's CTranslate2 uses oneDNN. Without VNNI instructions oneDNN adds two 8-bit products in 16
bits, which saturates (see "Nuances of int8 Computations" in its documentation). CTranslate2 uses all 8 bits, so
log-probabilities are wrong by half a nat and more. MKL, which CTranslate2 also includes, was exact on all tested
processors. CTranslate2 reads CT2_USE_MKL once, at import, so each library is tested in a separate process.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

CHOICE = "CT2_USE_MKL"
# Every other pair of products has the largest sum of two 8-bit products; the total is the width.
_WIDTH, _TOKENS = 64, 8


def choose_library() -> None:
    """Make CTranslate2 use MKL if its default is wrong and MKL is correct.

    It must be called before CTranslate2 is imported; afterwards, or if CT2_USE_MKL is set, nothing changes.
    """
    if CHOICE in os.environ or "ctranslate2" in sys.modules:
        return
    if not _exact_in_subprocess({}) and _exact_in_subprocess({CHOICE: "1"}):
        os.environ[CHOICE] = "1"


@cache
def exact_products() -> bool:
    """Whether int8 products are exact on this processor with this process's library."""
    import ctranslate2

    with tempfile.TemporaryDirectory(prefix="subgraft-int8-") as folder:
        _specification().save(folder)
        generator = ctranslate2.Generator(folder, device="cpu", compute_type="int8", intra_threads=1)
        outputs = [np.array(generator.forward_batch([["<1>"] * length])) for length in (1, _TOKENS)]
    return all(bool(np.allclose(logits, _WIDTH, rtol=1e-3)) for logits in outputs)


def _exact_in_subprocess(environment: Mapping[str, str]) -> bool:
    """Whether they are exact in a process with these variables; False if it fails, as without CTranslate2."""
    command = [sys.executable, "-P", "-m", "subgraft.modeling.inference.int8_products"]
    process = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, check=False)
    return process.returncode == 0


def _specification() -> Any:
    """A decoder that leaves its embeddings, of 1 and -1, unchanged, and whose output rows all equal them."""
    from ctranslate2.specs import TransformerDecoderModelSpec

    specification = TransformerDecoderModelSpec.from_config(1, 1, pre_norm=True, no_final_norm=True)
    decoder = specification.decoder
    signs = np.where(np.arange(_WIDTH) % 4 < 2, 1, -1).astype(np.float32)
    rows = np.tile(signs, (_TOKENS, 1))
    decoder.embeddings.weight, decoder.projection.weight = rows, rows
    decoder.projection.bias = np.zeros(_TOKENS, np.float32)
    decoder.scale_embeddings = False
    decoder.position_encodings.encodings = np.zeros_like(rows)
    layer = decoder.layer[0]
    for norm in (layer.self_attention.layer_norm, layer.ffn.layer_norm):
        norm.gamma, norm.beta = np.ones(_WIDTH, np.float32), np.zeros(_WIDTH, np.float32)
    inner, outer = layer.self_attention.linear
    for linear, outputs in (
        (inner, 3 * _WIDTH),
        (outer, _WIDTH),
        (layer.ffn.linear_0, _WIDTH),
        (layer.ffn.linear_1, _WIDTH),
    ):
        linear.weight, linear.bias = np.zeros((outputs, _WIDTH), np.float32), np.zeros(outputs, np.float32)
    specification.register_vocabulary([f"<{token}>" for token in range(_TOKENS)])
    for role in ("unk_token", "bos_token", "eos_token"):
        setattr(specification.config, role, "<0>")
    specification.validate()
    specification.optimize(quantization="int8")
    return specification


if __name__ == "__main__":
    sys.modules["torch"] = None  # type: ignore[assignment]  # CTranslate2 imports it where it can, which takes seconds
    sys.exit(not exact_products())
