"""What tags of tracked runs and registered models say, whichever version wrote them."""

from __future__ import annotations

from collections.abc import Mapping


def system_of(tags: Mapping[str, str]) -> str | None:
    """The system of an experiment that a run or a model belongs to; None where it belongs to none.

    Earlier versions called a system a row, and what they recorded has the tag `row`.
    """
    return tags.get("system", tags.get("row"))
