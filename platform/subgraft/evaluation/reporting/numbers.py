"""Formats of figures in reports and terminals."""

from __future__ import annotations

from subgraft.evaluation.metrics.significance import Interval

MISSING = "–"


def fixed(value: float | None, digits: int = 2) -> str:
    """A figure with a fixed number of decimals, a true minus sign and no negative zero."""
    if value is None:
        return MISSING
    written = f"{value:.{digits}f}"
    if float(written) == 0:
        written = written.lstrip("-")
    return written.replace("-", "−")


def signed(value: float, digits: int = 2) -> str:
    """A difference with its sign; zero is written ±."""
    written = fixed(abs(value), digits)
    if float(written) == 0:
        return f"±{written}"
    return f"{'+' if value > 0 else '−'}{written}"


def interval(shown: Interval, digits: int = 2) -> str:
    """Both ends in brackets."""
    return f"[{fixed(shown.low, digits)}, {fixed(shown.high, digits)}]"


def probability(value: float) -> str:
    """A p-value with three decimals, or < 0.001."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def equals(p_value: float) -> str:
    """A p-value after the letter p: = 0.023, or < 0.001."""
    written = probability(p_value)
    return written if written.startswith("<") else f"= {written}"


def count(value: int) -> str:
    """A whole number in groups of three."""
    return f"{value:,}"


def millions(value: int) -> str:
    """A number of parameters."""
    return f"{value / 1e6:.1f} M" if value >= 1e5 else count(value)


def gibibytes(number: int) -> str:
    """Bytes, as in 1.2 GiB."""
    return f"{number / 2**30:.1f} GiB"


def duration(seconds: float) -> str:
    """Seconds, as in 8.4 s, 3 min 05 s, 2 h 07 min."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def percent(share: float) -> str:
    """A share as a percentage."""
    return f"{100 * share:.1f} %"
