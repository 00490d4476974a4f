"""Characters that nobody sees, or that change what is seen: they are kept, and told where text is checked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

BYTE_ORDER_MARK = "byte order marks (U+FEFF)"
# The Unicode standard, annex 9 (bidirectional formatting characters) and section 5.8 (newline guidelines).
KINDS: Mapping[str, str] = {
    "NUL characters (U+0000)": "\x00",
    BYTE_ORDER_MARK: "\ufeff",
    "controls of the direction of writing (U+202E and others)": "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069",
    "line separators inside segments (U+2028 and others)": "\x0b\x0c\x1c-\x1e\x85\u2028\u2029",
}
_ANY = re.compile(f"[{''.join(KINDS.values())}]")
_OF_KIND = {kind: re.compile(f"[{characters}]") for kind, characters in KINDS.items()}


def unseen(text: str) -> Counter[str]:
    """How many of each kind a text has."""
    if not _ANY.search(text):
        return Counter()
    return Counter({kind: len(found) for kind, of in _OF_KIND.items() if (found := of.findall(text))})
