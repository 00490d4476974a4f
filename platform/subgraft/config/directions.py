"""Settings of directions: the language pairs that one model translates, or is tested on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from subgraft.config.corpora import Languages
from subgraft.config.settings_base import Settings


class Direction(Settings):
    """A direction of translation; its name is SOURCE-TARGET, as in `de-en`.

    source: the code of the language that is read.
    target: the code of the language that is written.
    corpus: a name in `corpora`.
    train: whether systems are finetuned on it; if not, it is only tested on (zero-shot).
    """

    source: str
    target: str
    corpus: str
    train: bool = True

    @property
    def name(self) -> str:
        """Its name in settings and tables."""
        return self.languages.name

    @property
    def languages(self) -> Languages:
        """The languages that are read and written."""
        return Languages(source=self.source, target=self.target)


# The settings that `with_first_direction` fills in, by group; "" is the experiment itself.
FILLED_BY_DIRECTIONS: Mapping[str, frozenset[str]] = {
    "": frozenset({"languages"}),
    "downstream": frozenset({"corpus"}),
}


def with_first_direction(settings: Mapping[str, Any]) -> dict[str, Any]:
    """`settings` with the languages and the corpus of the first direction, where they are left out.

    Validation reports errors in directions.
    """
    directions = settings.get("directions")
    first = directions[0] if isinstance(directions, list | tuple) and directions else None
    if isinstance(first, Direction):
        first = first.model_dump()
    if not isinstance(first, Mapping) or not {"source", "target", "corpus"} <= first.keys():
        return dict(settings)
    downstream = settings.get("downstream", {})
    if isinstance(downstream, Mapping):
        downstream = {"corpus": first["corpus"], **downstream}
    languages = {"source": first["source"], "target": first["target"]}
    return {"languages": languages, **settings, "downstream": downstream}
