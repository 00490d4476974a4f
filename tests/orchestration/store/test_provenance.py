"""The command that made an artifact, as a report shows it."""

from __future__ import annotations

import pytest

from subgraft.orchestration.store.provenance import Provenance


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        (("/usr/bin/subgraft", "run", "configs/laws.yaml"), "subgraft run configs/laws.yaml"),
        (("/venv/subgraft/__main__.py", "fit", "m", "--text", "my notes.txt"), "subgraft fit m --text 'my notes.txt'"),
        (("studies/laws.py", "--seeds", "3"), "python studies/laws.py --seeds 3"),
        (("/venv/bin/pytest", "-q"), ""),
        (("/venv/site-packages/pytest/__main__.py", "-q"), ""),
        (("/venv/site-packages/ipykernel_launcher.py", "-f", "kernel.json"), ""),
        (("-c",), ""),
        ((), ""),
    ],
)
def test_it_is_what_a_shell_takes(argv: tuple[str, ...], command: str) -> None:
    assert Provenance(argv).command == command
