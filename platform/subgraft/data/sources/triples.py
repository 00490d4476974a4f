"""Triples of a knowledge graph: lines of head, relation and tail."""

from __future__ import annotations

from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.data.text import reading

Triple = tuple[str, str, str]


def read_triples(path: Path) -> list[Triple]:
    """Lines of head, relation and tail with tabs between them; equal lines count once.

    Raises UserError for a malformed line, with its number, and for a file with fewer than two entities.
    """
    triples = dict[Triple, None]()
    for number, line in enumerate(reading.lines(path), 1):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) != 3 or not all(cells):
            hint = "A line must have a head, a relation and a tail, separated by tabs."
            raise UserError("not a triple", where=f"{path}:{number}", hint=hint)
        triples[cells[0], cells[1], cells[2]] = None
    if not triples:
        raise UserError("no triples", where=str(path), hint="Write a head, a relation and a tail a line.")
    if len({name for head, _, tail in triples for name in (head, tail)}) < 2:
        hint = "A relation leads from one entity to another: add such triples."
        raise UserError("all triples are about one entity", where=str(path), hint=hint)
    return list(triples)
