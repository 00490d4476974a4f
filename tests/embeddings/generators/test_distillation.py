from __future__ import annotations

import torch

from subgraft.embeddings.generators.generator_loss import span_distance, state_shift
from subgraft.embeddings.generators.resegment import Resegmentation, Span
from subgraft.embeddings.generators.simulation import span_pairs

FIRST = Resegmentation([9, 8, 2], [], [Span((0, 1), (0, 2)), Span((1, 2), (2, 3))])
SECOND = Resegmentation([7], [], [Span((0, 2), (0, 1))])


def test_distance_is_equation_4() -> None:
    """Per span: the norm of the difference of mean states; here written out for three spans of two sentences."""
    torch.manual_seed(0)
    teacher = torch.randn(2, 4, 5, dtype=torch.float64)
    student = torch.randn(2, 5, 5, dtype=torch.float64)
    for shift in (0, 1):
        t, s = teacher[:, shift:].float(), student[:, shift:].float()
        expected = (
            (t[0, 0] - (s[0, 0] + s[0, 1]) / 2).norm()
            + (t[0, 1] - s[0, 2]).norm()
            + ((t[1, 0] + t[1, 1]) / 2 - s[1, 0]).norm()
        )
        distance = span_distance(teacher, student, span_pairs([FIRST, SECOND], [0, 0]), shift)
        torch.testing.assert_close(distance, expected)


def test_equal_states_have_no_distance_and_a_finite_gradient() -> None:
    states = torch.randn(1, 4, 5, requires_grad=True)
    same = span_pairs([Resegmentation([1, 2], [], [Span((0, 1), (0, 1)), Span((1, 2), (1, 2))])], [0])
    distance = span_distance(states.detach(), states, same, 0)
    distance.backward()
    assert distance == 0
    assert states.grad is not None
    assert torch.isfinite(states.grad).all()


def test_a_causal_decoder_reads_a_token_one_position_later_than_it_predicts_it() -> None:
    assert state_shift(True, "input") == 1
    assert state_shift(True, "prediction") == 0
    assert state_shift(False, "input") == 0
