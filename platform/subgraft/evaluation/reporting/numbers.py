"""Formatting of numbers in reports and terminals."""

from __future__ import annotations

from subgraft.evaluation.metrics.significance import Interval

MISSING = "–"


def fixed(value: float | None, digits: int = 2) -> str:
    """A figure with a fixed number of decimals, a true minus sign and no negative zero."""
    if value is None:
        return MISSING
    formatted = f"{value:.{digits}f}"
    if float(formatted) == 0:
        formatted = formatted.lstrip("-")
    return formatted.replace("-", "−")


def signed(value: float, digits: int = 2) -> str:
    """A difference with its sign; zero is written ±."""
    formatted = fixed(abs(value), digits)
    if float(formatted) == 0:
        return f"±{formatted}"
    return f"{'+' if value > 0 else '−'}{formatted}"


def interval(bounds: Interval, digits: int = 2) -> str:
    """Both ends in brackets."""
    return f"[{fixed(bounds.low, digits)}, {fixed(bounds.high, digits)}]"


def probability(value: float) -> str:
    """A p-value with three decimals, or < 0.001."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def equals(p_value: float) -> str:
    """A p-value after the letter p: = 0.023, or < 0.001."""
    formatted = probability(p_value)
    return formatted if formatted.startswith("<") else f"= {formatted}"


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
    rounded = round(seconds)
    if rounded < 3600:
        return f"{rounded // 60} min {rounded % 60:02d} s"
    return f"{rounded // 3600} h {rounded % 3600 // 60:02d} min"


def percent(share: float) -> str:
    """A share as a percentage."""
    return f"{100 * share:.1f} %"
