"""The candidates of a query, ranked by their relevance."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from subgraft.base.errors import UserError
from subgraft.base.limits import MAX_RELEVANCE
from subgraft.config.settings_base import Settings
from subgraft.data.tasks.labelled import Column, LabelledRow, LabelledTaskSpec, UnlearnableError, class_of
from subgraft.data.tasks.span_extraction import answered
from subgraft.data.text.fields import ANNOTATION, QUERY, Field, Sides, json_cell
from subgraft.data.text.sentences import sentence_limits


class RankingColumns(Settings):
    """query, candidate: ranking: the columns of both texts; the records of a query follow each other.
    relevance: the column of a whole number, 0 for a candidate that is not relevant.
    query_id: the column of the query's name; by default equal queries that follow each other are one.
    ranking: whether squad is read as ranking: the sentences of a passage are the candidates of its question.
    """

    query: Column | None = None
    candidate: Column | None = None
    relevance: Column | None = None
    query_id: Column | None = None
    ranking: bool = False


def _examples(row: LabelledRow) -> Iterator[Sides]:
    if row.settings.ranking:
        yield from _ranked_sentences(row)
        return
    relevance = row.number("relevance")
    if relevance != int(relevance) or relevance < 0:
        raise UserError(f"the relevance {relevance} is not a whole number from 0", where=row.where)
    if relevance > MAX_RELEVANCE:
        hint = f"Relevances are grades, at most {MAX_RELEVANCE}: a document's gain is 2 to the power of its grade."
        raise UserError(f"the relevance {relevance:g} is too large", where=row.where, hint=hint)
    query, candidate, named = row.text("query"), row.text("candidate"), row.columns["query_id"]
    name = class_of(row.value("query_id"), "the query's name", row.where) if named else ""
    yield (query, candidate, json_cell(int(relevance)), name)


def _ranked_sentences(row: LabelledRow) -> Iterator[Sides]:
    """The sentences of a passage; those that contain an answer of the question are relevant."""
    question, passage, spans = answered(row)
    bounds = [(first, last) for first, last in pairwise(sentence_limits(passage)) if passage[first:last].strip()]
    relevant = [any(first <= start and end <= last for start, end in spans) for first, last in bounds]
    if not any(relevant):
        raise UnlearnableError("answer_not_in_sentence")
    if len(bounds) < 2:
        raise UnlearnableError("one_candidate")
    for (first, last), is_relevant in zip(bounds, relevant, strict=True):
        yield (question, passage[first:last].strip(), json_cell(int(is_relevant)), str(row.row["number"]))


class _Queries:
    """Names the queries of ranked candidates and checks that the records of each query are adjacent."""

    def __init__(self) -> None:
        self._names = set[str]()
        self._previous, self._name = "", ""

    def __call__(self, cells: Sides, where: str) -> tuple[Sides, str]:
        query = cells[3] or cells[0]
        if query != self._previous or not self._names:
            if query in self._names:
                hint = "The records of a query must be adjacent: sort the file by query, or set `query_id`."
                raise UserError(f"the query '{query:.40}' comes again", where=where, hint=hint)
            self._names.add(query)
            self._previous, self._name = query, cells[3] or str(len(self._names))
        return (*cells[:3], self._name), self._name


RANKING = LabelledTaskSpec(
    name="ranking",
    called="Ranking",
    hub_tag="text-ranking",
    task="candidates:Ranking",
    pairs=True,
    settings=RankingColumns,
    columns=("query", "candidate", "relevance"),
    optional_columns=("query_id",),
    formats=("squad",),
    chosen_by="ranking",
    fields=(Field("relevance", ANNOTATION), Field(QUERY, "label")),
    examples=_examples,
    grouping=_Queries,
    route="/rank",
    line="query, candidates",
    answer="the best; `ranks` from 1, `scores`",
)
