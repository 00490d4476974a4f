"""Counts inputs per test and prints the counts at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import fuzzing

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # names of models are made up here; read when the hub's client is imported


@pytest.fixture(autouse=True)
def _tallied(request: pytest.FixtureRequest) -> Iterator[None]:
    """Properties of a test reach the process that reports, wherever the test ran."""
    fuzzing.tally.inputs, fuzzing.tally.slowest = 0, 0.0
    yield
    request.node.user_properties.append(("fuzzed", (fuzzing.tally.inputs, fuzzing.tally.slowest)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    by_test = {
        report.nodeid.rpartition("/")[-1]: value
        for report in terminalreporter.getreports("")  # of teardowns
        for key, value in report.user_properties
        if key == "fuzzed"
    }
    for test, (inputs, slowest) in sorted(by_test.items()):
        terminalreporter.write_line(f"{inputs:7,} inputs, the slowest {slowest:5.2f} s: {test}")
    if by_test:
        terminalreporter.write_line(f"{sum(inputs for inputs, _ in by_test.values()):7,} inputs tried")
