"""Random inputs: a reader accepts them, or refuses them with one message, within a time limit.

A module of tests/fuzz is about one kind of input. Each test there says how many inputs `make fuzz` tries, different
ones each time; `make test-all` tries a hundredth of them, always the same.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from subgraft.base.errors import SubgraftError

Test: TypeAlias = Callable[..., None]

SCALE = float(os.environ.get("SUBGRAFT_FUZZ", "0.01"))
# What any input may take at most. What others on the machine take from it does not count.
SECONDS = 5.0


class Tally:
    """How many inputs a test has had, and the seconds of the slowest of them."""

    inputs, slowest = 0, 0.0


tally = Tally()


def fuzzed(inputs: int, **strategies: st.SearchStrategy[Any]) -> Callable[[Test], Test]:
    """A test of arguments drawn from these, of which `make fuzz` draws so many; it reads each inside of `answers`."""
    wanted = settings(
        max_examples=max(5, round(inputs * SCALE)),
        deadline=None,
        derandomize="SUBGRAFT_FUZZ" not in os.environ,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    return lambda test: wanted(given(**strategies)(test))


@contextmanager
def answers() -> Iterator[None]:
    """Around what reads one input: that may refuse it as a command would, with a message, and has five seconds for it.

    Whatever else is raised would be a traceback, and goes through.
    """
    before = signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    began = _now()
    try:
        yield
    except (SubgraftError, OSError) as error:  # `main` reports both in one message
        assert str(error).strip(), "refused without a word"
    except _TooSlow:
        raise AssertionError(f"takes more than {SECONDS} seconds of processor time") from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        took = _now() - began
        tally.inputs += 1
        tally.slowest = max(tally.slowest, took)
    assert took <= SECONDS, f"took {took:.1f} seconds"


def _now() -> float:
    """Seconds, without those in which this thread could have run and had no processor, where the system counts them."""
    schedule = Path("/proc/thread-self/schedstat")
    waited = int(schedule.read_text().split()[1]) / 1e9 if schedule.exists() else 0.0
    return time.monotonic() - waited


class _TooSlow(BaseException):
    """No Exception, so that nothing that is tested takes it for one of its own."""


def _stop(number: int, frame: FrameType | None) -> None:
    raise _TooSlow


def written(path: Path, text: str) -> Path:
    """A file of that text, also where it holds what UTF-8 cannot say."""
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return path


# What has broken readers before: numbers, words of YAML and JSON, marks of other notations, characters that are none.
_NUMBERS = (".inf", "-.inf", ".nan", "1e400", "0x" + "f" * 4300, "9" * 4301, str(10**9), "-1", "0", "1e-320", "0o7")
_WORDS = ("~", "null", "true", "!!bool maybe", "!!int x", "!!float x", "!!python/object:os.system x", "<<", "[1]", "{}")
_MARKS = ("[/]", "[bold", "[link=x]y", ":smile:", "\x1b[2J", "%s", "{0}", "${x}", "../..", "/etc/passwd", "a\\b", '"')
_CHARACTERS = ("\ud800", '"\\ud800"', "\x00", "\u202e", "\ufeff", "\u2028", "\x85", "\r", "\n", "\t", "𝔘", "ß", " ", "")
_NESTED = ("[" * 5000, '{"a":' * 5000, "{a: " * 2000, "- " * 2000, "&a [*a]")
_COUNTS: tuple[Any, ...] = (0, -1, 1, 3, 10**6, 10**9, 2**31, 2**64, 1e400, 0.5, True, [], {}, "", None)
evil = st.sampled_from(_NUMBERS + _WORDS + _MARKS + _CHARACTERS + _NESTED)
# With surrogates, which `st.text` leaves out.
any_text = st.text(st.characters(), max_size=12)
# Whatever JSON can hold, and numbers that it cannot.
any_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text | evil,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=8,
)


@st.composite
def damaged(draw: st.DrawFn, sound: st.SearchStrategy[str]) -> str:
    """A sound text, of which up to four stretches are cut out, doubled or replaced by what breaks readers."""
    text = draw(sound)
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 40)))
        text = text[:start] + draw(evil | any_text | st.just(text[start:end] * 2)) + text[end:]
    return text


@st.composite
def changed(draw: st.DrawFn, sound: st.SearchStrategy[Any]) -> str:
    """The JSON of a sound value, in which one to three values, wherever they stand, are anything else, or are gone."""
    whole = {"": json.loads(json.dumps(draw(sound)))}
    for _ in range(draw(st.integers(1, 3))):
        holder: Any = whole
        key: Any = ""
        while isinstance(holder[key], dict | list) and holder[key] and draw(st.integers(0, 9)):
            holder = holder[key]
            key = draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder))))
        if holder is not whole and draw(st.integers(0, 3)) == 0:
            del holder[key]
            break
        holder[key] = draw(any_value | st.sampled_from(_COUNTS))
    return json.dumps(whole[""])
