"""Completion of commands and options, in a real bash and a real fish."""

from __future__ import annotations

import shlex
import shutil
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


def completed_by_fish(*words: str) -> set[str]:
    """What fish offers for the last word, without the descriptions."""
    script = f"{sys.executable} -m subgraft completion fish | source; complete -C {shlex.quote(' '.join(words))}"
    done = subprocess.run(["fish", "-N", "-c", script], capture_output=True, text=True, check=True, timeout=120)
    return {line.partition("\t")[0] for line in done.stdout.splitlines()}


WORDS = [
    (("subgraft", "tra"), {"tracking", "transfer"}),
    (("subgraft", "vocab", "le"), {"learn"}),
    (("subgraft", "fit", "--qu"), {"--quick"}),
]


@pytest.mark.parametrize(("words", "offered"), WORDS)
def test_words_are_completed(words: tuple[str, ...], offered: set[str]) -> None:
    assert completed(*words) == offered


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        *WORDS,
        (("subgraft", "--vers"), {"--version"}),
        (("subgraft", "vocab", "learn", "--kind", "uni"), {"unigram"}),
        (("subgraft", "models", "show", "--js"), set()),  # which `models list` has
        (("subgraft", "completion", "fi"), {"fish"}),
    ],
)
def test_fish_completes_words(words: tuple[str, ...], offered: set[str]) -> None:
    assert completed_by_fish(*words) == offered
