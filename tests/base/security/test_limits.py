"""The limits of files from elsewhere: one table in code, the same in the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from subgraft.base.errors import UserError
from subgraft.base.security import limits
from subgraft.base.security.limits import Limit

LIMITS = [value for value in vars(limits).values() if isinstance(value, Limit)]


def test_every_limit_is_documented_with_its_default(repository: Path) -> None:
    text = (repository / "docs" / "security.md").read_text(encoding="utf-8")
    assert LIMITS and all(f"| `{limit.variable}` | {limit.default:,} |" in text for limit in LIMITS)


@pytest.mark.parametrize("said", ["", "0", "-1", "1e9", "many", "9" * 30])
def test_a_limit_that_is_not_a_number_is_refused(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = LIMITS[0]
    monkeypatch.setenv(limit.variable, said)
    with pytest.raises(UserError, match=f"{limit.variable}: expected a positive whole number"):
        _ = limit.value
