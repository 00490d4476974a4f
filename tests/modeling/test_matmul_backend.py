"""Products by the faster library: as exact as PyTorch's own, only while a batch is computed, only where it suits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from subgraft.modeling import precision
from subgraft.modeling.precision import LONGEST_PLAIN, ONEDNN, faster_products, products_by

CPU = torch.device("cpu")
SETTINGS = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]


@pytest.fixture
def suited(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As on a processor that oneDNN suits, whatever this one is: what must hold there holds here."""
    monkeypatch.setattr(precision, "_onednn_is_faster", lambda: True)
    yield
    assert SETTINGS.fp32_precision == "none"


def _pass(tokens: int) -> tuple[Tensor, list[Tensor]]:
    torch.manual_seed(1)
    layer, states = nn.Linear(64, 192), torch.randn(4, tokens, 64)
    queries, keys, values = layer(states).unflatten(-1, (3, 4, 16)).permute(2, 0, 3, 1, 4).unbind(0)
    mask = torch.ones(tokens, tokens, dtype=torch.bool).tril()
    heard = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
    heard.square().sum().backward()
    return heard.detach(), [each.grad for each in layer.parameters() if each.grad is not None]


@pytest.mark.skipif(not precision._keeps_fp32(), reason="here oneDNN rounds to bf16, so it is never asked")
@pytest.mark.usefixtures("suited")
@pytest.mark.parametrize("tokens", [30, LONGEST_PLAIN + 1])
def test_a_pass_gives_the_same(tokens: int) -> None:
    heard, gradients = _pass(tokens)
    with faster_products(CPU, "fp32", tokens):
        result, result_gradients = _pass(tokens)
    assert torch.allclose(heard, result, atol=1e-6)
    for expected, gradient in zip(gradients, result_gradients, strict=True):
        assert torch.allclose(expected, gradient, atol=1e-5 * float(expected.abs().max()))


@pytest.mark.usefixtures("suited")
def test_attention_is_plain_where_sentences_are_short_and_all_is_as_before_afterwards() -> None:
    with faster_products(CPU, "fp32", LONGEST_PLAIN):
        assert SETTINGS.fp32_precision == "bf16" and not torch.backends.cuda.flash_sdp_enabled()
    with faster_products(CPU, "fp32", LONGEST_PLAIN + 1):
        assert SETTINGS.fp32_precision == "bf16" and torch.backends.cuda.flash_sdp_enabled()
    with pytest.raises(RuntimeError, match="stopped"), faster_products(CPU, "fp32", 3):
        raise RuntimeError("stopped")
    assert torch.backends.cuda.flash_sdp_enabled()


@pytest.mark.usefixtures("suited")
def test_bf16_and_gpus_are_left_alone() -> None:
    assert products_by(CPU, "fp32") == ONEDNN
    assert products_by(CPU, "bf16") is None and products_by(torch.device("cuda"), "fp32") is None
    with faster_products(CPU, "bf16", 3):
        assert SETTINGS.fp32_precision == "none" and torch.backends.cuda.flash_sdp_enabled()


def test_a_processor_where_mkl_is_as_fast_or_bf16_would_be_taken_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for reason in ("_is_amd", "_keeps_fp32"):
        with monkeypatch.context() as patched:
            patched.setattr(precision, reason, lambda: False)
            assert not precision._onednn_is_faster.__wrapped__()
