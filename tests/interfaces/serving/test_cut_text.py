"""The routes with which the page shows tokens: cuts by all vocabularies, and the facts of a token."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.testclient import TestClient

import subgraft
from finished import separate_bundle
from subgraft.experiments.origin import Origin, origin_of
from subgraft.interfaces.serving.application import application
from subgraft.interfaces.serving.vocabularies import MAX_CHARACTERS
from subgraft.interfaces.serving.writer import Writer
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.segmentation import readable
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from toys import english_tokenizer, german, german_tokenizer

TOKEN = "a-token"
NEW = learn(german(400, 7), kind="unigram", size=150, like=german_tokenizer())
TEXT = "nachbarschaft gartenhaus, freund"


def _writer(decoder: Tokenizer) -> Writer:
    return Writer("nothing", english_tokenizer(), decoder, lambda texts, beam: list(texts))


@contextmanager
def _client(origins: dict[str, Origin], **models: Writer) -> Iterator[TestClient]:
    app = application(models, TOKEN, origins=origins)
    with TestClient(app, base_url="http://127.0.0.1:8111", headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        yield client


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Origin:
    """Of a model whose decoder has the vocabulary NEW."""
    place = tmp_path_factory.mktemp("models")
    separate_bundle().save(place / "old")
    subgraft.transfer(place / "old", NEW).save(place / "new")
    return origin_of(place / "new")


def _cut(client: TestClient, *texts: str, side: str = "decoder") -> list[dict[str, Any]]:
    answered = client.post("/cut", json={"texts": texts, "side": side})
    assert answered.status_code == 200, answered.text
    return list(answered.json()["vocabularies"])


def _facts(client: TestClient, piece: str, which: str = "own") -> dict[str, Any]:
    vocabulary = NEW if which == "own" else german_tokenizer()
    body = {"model": "new", "side": "decoder", "which": which, "id": vocabulary.pieces.index(piece)}
    answered = client.post("/token", json=body)
    assert answered.status_code == 200, answered.text
    return dict(answered.json())


def test_a_text_is_cut_by_the_own_and_by_the_original_vocabulary(origin: Origin) -> None:
    with _client({"new": origin}, new=_writer(NEW), old=_writer(german_tokenizer())) as client:
        own, original = _cut(client, TEXT, "")
        (source,) = _cut(client, TEXT, side="encoder")
    assert own["uses"] == [{"model": "new", "side": "decoder", "which": "own"}]
    assert [(use["model"], use["which"]) for use in original["uses"]] == [("old", "own"), ("new", "original")]
    for cuts, tokenizer in ((own, NEW), (original, german_tokenizer())):
        ids = tokenizer.encode(TEXT)
        assert cuts["tokens"] == len(ids) and cuts["entries"] == len(tokenizer)
        first, empty = cuts["texts"]
        assert [token for _, tokens, _ in first["cells"] for token in tokens] == ids and empty["cells"] == []
    assert own["tokens"] < original["tokens"] and original["unknown"] == 1
    assert "," not in original["texts"][0]["decoded"], "the comma is unknown"
    assert len(source["uses"]) == 3, "all have the same vocabulary of sources"


def test_a_token_says_where_its_embedding_is_from(origin: Origin) -> None:
    old = german_tokenizer()
    copied = next(piece for piece in NEW.pieces if piece in old.pieces and len(piece) > 3)
    unseen = next(piece for piece in NEW.pieces if piece not in old.pieces and len(piece) > 6)
    with _client({"new": origin}, new=_writer(NEW)) as client:
        assert f"a copy of that of {copied!r}" in _facts(client, copied)["origin"]
        facts = _facts(client, unseen)
        entry = NEW.entries[NEW.pieces.index(unseen)]
        assert entry is not None
        parts = [readable(old, part) for part in old.segment(entry) if old.pieces[part] != "▁"]
        assert f"the mean of those of {' + '.join(parts)} in" in facts["origin"]
        assert {each["piece"] for each in facts["similar"]} >= set(parts) and facts["similar_in"] == "original"
        before = _facts(client, copied, which="original")
        assert before["origin"] == "" and copied.replace("▁", "␣") not in [each["piece"] for each in before["similar"]]
        assert _facts(client, NEW.pieces[NEW.special["unk"]])["role"] == "unknown token"


def test_where_nothing_is_recorded_the_answer_says_so() -> None:
    with _client({}, new=_writer(NEW)) as client:
        (only,) = _cut(client, TEXT)
        assert [use["which"] for use in only["uses"]] == ["own"]
        facts = _facts(client, next(piece for piece in NEW.pieces if len(piece) > 5))
        assert "do not say which vocabulary" in facts["origin"] and facts["similar_in"] == "own"
        (described,) = client.get("/health").json()["models"]
    assert described["vocabularies"]["decoder"]["original"] is None
    assert "do not say" in described["vocabularies"]["decoder"]["missing"]


@pytest.mark.parametrize(
    ("route", "body", "status"),
    [
        ("/cut", b"", 400),
        ("/cut", b"[]", 400),
        ("/cut", b"[" * 60_000, 400),
        ("/cut", b'{"texts": "x"}', 400),
        ("/cut", b'{"texts": [1]}', 400),
        ("/cut", b'{"texts": ["\\ud800"]}', 400),
        ("/cut", b'{"texts": ["x"], "side": ["encoder"]}', 400),
        ("/cut", b'{"texts": ["%s"]}' % (b"x" * (MAX_CHARACTERS + 1)), 413),
        ("/token", b"{}", 400),
        ("/token", b'{"model": [], "side": "decoder", "id": 1}', 400),
        ("/token", b'{"model": "new", "side": {}, "id": 1}', 400),
        ("/token", b'{"model": "new", "side": "decoder", "id": -1}', 400),
        ("/token", b'{"model": "new", "side": "decoder", "id": true}', 400),
        ("/token", b'{"model": "new", "side": "decoder", "id": 150}', 400),
        ("/token", b'{"model": "new", "side": "decoder", "which": "original", "id": 1}', 400),
    ],
)
def test_malformed_requests_are_refused(route: str, body: bytes, status: int) -> None:
    with _client({}, new=_writer(NEW)) as client:
        assert client.post(route, content=body, headers={"Authorization": "Bearer other"}).status_code == 401
        refused = client.post(route, content=body)
        assert refused.status_code == status and refused.json()["error"]
        assert client.post("/cut", json={"texts": ["x"]}).status_code == 200


def test_the_page_may_run_its_own_script_alone() -> None:
    with _client({}, new=_writer(NEW)) as client:
        page = client.get("/")
        policy, of_answers = (
            each.headers["content-security-policy"] for each in (page, client.post("/cut", json={"texts": []}))
        )
    assert "'sha256-" in policy and "unsafe" not in policy and "require-trusted-types-for 'script'" in policy
    assert of_answers == "default-src 'none'; frame-ancestors 'none'"
    assert "://" not in page.text.replace("http://www.w3.org", ""), "nothing is fetched from elsewhere"
