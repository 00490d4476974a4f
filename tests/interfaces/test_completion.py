"""Completion of commands and options, in a real bash."""

from __future__ import annotations

import subprocess
import sys

import pytest

COMPLETE = """
source <({python} -m subgraft completion bash)
COMP_WORDS=({words})
COMP_CWORD={last}
_shtab_subgraft
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def completed(*words: str) -> set[str]:
    """What bash offers for the last word."""
    quoted = " ".join(f"'{word}'" for word in words)
    script = COMPLETE.format(python=sys.executable, words=quoted, last=len(words) - 1)
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, timeout=120)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("subgraft", "tra"), {"tracking", "transfer"}),
        (("subgraft", "vocab", "le"), {"learn"}),
        (("subgraft", "fit", "--qu"), {"--quick"}),
    ],
)
def test_words_are_completed(words: tuple[str, ...], offered: set[str]) -> None:
    assert completed(*words) == offered
