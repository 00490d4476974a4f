"""Requests to a served model: damaged, cut off, or sent a part at a time, by clients with the token and without."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import strategies as st

from clients import TOKEN, Clients, answer, listening, request
from fuzzing import answers, damaged, fuzzed

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def clients() -> Iterator[Clients]:
    with listening(headers=2.0, unauthenticated=16) as result:
        yield result


@fuzzed(
    500,
    text=damaged(st.sampled_from([request("thank", token).decode() for token in (TOKEN, "another")])),
    cuts=st.lists(st.integers(0, 200), max_size=3).map(sorted),
    stays=st.booleans(),
)
def test_a_client_with_the_token_is_answered_after_any_request(
    text: str, cuts: list[int], stays: bool, clients: Clients, capfd: pytest.CaptureFixture[str]
) -> None:
    sent = text.encode("utf-8", "surrogatepass")
    with answers():
        connection = clients.connect()
        for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
            try:
                connection.sendall(sent[start:end])
            except ConnectionError:
                break  # refused before all of it was there
        if not stays:
            connection.close()
        status, body = answer(clients.connect(request("thank")))
        assert status == 200 and b"THANK" in body
    assert capfd.readouterr().err == ""
