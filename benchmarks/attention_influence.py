"""The loss of attention influence by products of tokens, and by a tensor of all pairs of segments.

    python benchmarks/attention_influence.py [--quick]

CPU seconds of the loss and its gradients of a batch of random attentions on one thread, the two in turn; and the
elements of the largest tensor. Their values agree (asserted).
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

from measurements import measurements, options
from subgraft.embeddings.learned_rows.attention_influence_loss import Attended, squared_differences

# Sentences, tokens before and after, segments, heads, width: short sentences, long ones, a large model.
SHAPES = ((64, 24, 18, 14, 4, 192), (24, 80, 55, 45, 4, 192), (8, 160, 110, 90, 16, 1024))


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with measurements(__doc__, args) as table:
        for shape in SHAPES[: 2 if args.quick else None]:
            table.add(f"{shape[0]} sentences of {shape[1]} and {shape[2]} tokens", **_compared(shape, args.repeats))


def _compared(shape: tuple[int, ...], repeats: int) -> dict[str, float]:
    count, before, after, segments, heads, width = shape
    teacher, student = (_attended(count, tokens, heads, width) for tokens in (before, after))
    sides = teacher, _inside(count, before, segments), student, _inside(count, after, segments)
    ways: dict[str, Callable[..., Tensor]] = {"ours": squared_differences, "pairs": _by_pairs}
    seconds = dict.fromkeys(ways, float("inf"))
    losses: dict[str, float] = {}
    for _ in range(repeats):
        for name, way in ways.items():
            begun = time.process_time()
            loss = way(*sides)
            loss.backward()  # type: ignore[no-untyped-call]
            seconds[name] = min(seconds[name], time.process_time() - begun)
            losses[name] = float(loss.detach())
    assert abs(losses["ours"] - losses["pairs"]) < 1e-3 * losses["pairs"], losses
    return {
        **{f"{name}_seconds": value for name, value in seconds.items()},
        "pairs_to_ours": seconds["pairs"] / seconds["ours"],
        "elements_ours": count * heads * (before + after) ** 2,
        "elements_pairs": count * segments**2 * width,
    }


def _attended(count: int, tokens: int, heads: int, width: int) -> Attended:
    weights = torch.randn(count, heads, tokens, tokens).softmax(-1)
    return Attended(weights.requires_grad_(), torch.randn(count, tokens, heads, width // heads, requires_grad=True))


def _inside(count: int, tokens: int, segments: int) -> Tensor:
    """Bool [B, T, I]: segments of about equal lengths."""
    return (torch.arange(tokens)[:, None] * segments // tokens == torch.arange(segments)).expand(count, -1, -1)


def _by_pairs(teacher: Attended, in_teacher: Tensor, student: Attended, in_student: Tensor) -> Tensor:
    difference = _influences(student, in_student) - _influences(teacher, in_teacher)
    return difference.square().mean(dim=(-2, -1)).sum()


def _influences(attended: Attended, inside: Tensor) -> Tensor:
    """[B, I, J, H, d/H]"""
    of = inside.float()
    weights = torch.einsum("bhtu,bti->bhiu", attended.weights, of / of.sum(dim=1, keepdim=True))
    return torch.einsum("bhiu,buj,buhd->bijhd", weights, of, attended.values)


if __name__ == "__main__":
    main()
