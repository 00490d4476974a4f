"""Served models with a head: routes by task, limits, and answers as the model's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from finished import separate_bundle
from labelled import RECORDS, headed_bundle, labelled_corpus
from served_models import served
from subgraft.base.security.http_requests import MAX_TEXTS
from subgraft.interfaces.serving.application import application
from subgraft.interfaces.serving.predictions import MAX_CANDIDATES, MAX_TEXT_LENGTH
from subgraft.interfaces.serving.writer import Writer, open_model
from subgraft.training.understanding.predictor import Predictor
from toys import english_tokenizer, german_tokenizer

TOKEN = "a-token"
AUTHORISED = {"Authorization": f"Bearer {TOKEN}"}
# By task: its route, and an input.
ASKED: dict[str, tuple[str, Any]] = {
    "classification": ("/classify", "a text"),
    "pair-classification": ("/classify", ["a text", "another"]),
    "regression": ("/classify", {"text": "a text", "text_pair": "another"}),
    "relation-classification": ("/classify", {"text": "one met two", "head": [0, 3], "tail": [8, 11]}),
    "entity-typing": ("/classify", {"text": "one met two", "entity": [0, 3]}),
    "tagging": ("/tag", "some words"),
    "span-extraction": ("/answer", {"question": "what", "passage": "this and that"}),
    "ranking": ("/rank", {"query": "what", "candidates": ["this", "that", "more"]}),
    "multiple-choice": ("/rank", {"text": "what", "choices": ["this", "that"]}),
}


@pytest.fixture(scope="module")
def predictors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Predictor]:
    place = tmp_path_factory.mktemp("corpora")
    return {name: Predictor(headed_bundle(name, labelled_corpus(name, place))) for name in RECORDS}


@contextmanager
def _client(**models: Any) -> Iterator[TestClient]:
    with TestClient(application(models, TOKEN), base_url="http://127.0.0.1:8111") as client:
        yield client


@pytest.mark.parametrize("name", ASKED)
def test_each_task_has_a_route_that_answers_as_the_model_does(name: str, predictors: dict[str, Predictor]) -> None:
    predictor, (route, value) = predictors[name], ASKED[name]
    (expected,) = predictor.predict([predictor.form.of_value(value, "")])
    with _client(new=predictor) as client:
        (model,) = client.post(route, json={"inputs": [value]}, headers=AUTHORISED).json()["models"]
        assert (model["model"], model["task"]) == ("new", name) and model["seconds"] >= 0
        output = {**expected.facts, "text": expected.text, "truncated": False}
        assert model["outputs"] == [json.loads(json.dumps(output))]
        (described,) = client.get("/health", headers=AUTHORISED).json()["models"]
        assert (described["task"], described["route"]) == (name, route)
        assert described["labels"] == list(predictor.labels)
        other = next(each for each, _ in ASKED.values() if each != route)
        assert client.post(other, json={"inputs": [value]}, headers=AUTHORISED).status_code == 404
        refused = client.post("/translate", json={"texts": ["x"]}, headers=AUTHORISED)
        assert refused.status_code == 404 and route in refused.json()["error"]


@pytest.mark.parametrize("body", [{"texts": ["a", "b"]}, {"inputs": ["a", {"text": "b"}]}])
def test_inputs_have_other_names_too(body: Any, predictors: dict[str, Predictor]) -> None:
    with _client(new=predictors["classification"]) as client:
        (model,) = client.post("/classify", json=body, headers=AUTHORISED).json()["models"]
        alone = [client.post("/classify", json={"text": text}, headers=AUTHORISED).json() for text in ("a", "b")]
    labels = [each["label"] for each in model["outputs"]]
    assert labels == [each["models"][0]["outputs"][0]["label"] for each in alone]


def test_two_models_are_compared(predictors: dict[str, Predictor]) -> None:
    classifier = predictors["classification"]
    with _client(new=classifier, old=classifier, tags=predictors["tagging"]) as client:
        models = client.post("/classify", json={"texts": ["a"]}, headers=AUTHORISED).json()["models"]
        assert len(client.get("/health", headers=AUTHORISED).json()["models"]) == 3
    assert [model["model"] for model in models] == ["new", "old"]


@pytest.mark.parametrize(
    ("route", "body", "status", "reason"),
    [
        ("/classify", b"", 400, "send JSON"),
        ("/classify", b"[]", 400, "an object"),
        ("/classify", b"[" * 60_000, 400, "send JSON"),
        ("/classify", b'{"texts": "x"}', 400, "a list"),
        ("/classify", b'{"texts": []}', 400, "a list"),
        ("/classify", b'{"texts": ["x", 1]}', 400, "input 2"),
        ("/classify", b'{"texts": ["x"], "inputs": ["x"]}', 400, "one of"),
        ("/classify", b'{"txt": "x"}', 400, "no field 'text'"),
        ("/classify", b'{"texts": ["\\ud800"]}', 400, "half a character"),
        ("/classify", json.dumps({"texts": ["x"] * (MAX_TEXTS + 1)}).encode(), 413, "at most"),
        ("/classify", json.dumps({"text": "x" * (MAX_TEXT_LENGTH + 1)}).encode(), 413, "at most"),
        ("/classify", b" " * 70_000, 413, "bytes"),
        ("/rank", json.dumps({"query": "x", "candidates": ["x"] * (MAX_CANDIDATES + 1)}).encode(), 413, "candidates"),
        ("/rank", json.dumps({"query": "x", "candidates": ["x" * (MAX_TEXT_LENGTH + 1)]}).encode(), 413, "at most"),
    ],
)
def test_malformed_requests_are_refused(
    route: str, body: bytes, status: int, reason: str, predictors: dict[str, Predictor]
) -> None:
    with _client(new=predictors["classification"], ranks=predictors["ranking"]) as client:
        refused = client.post(route, content=body, headers=AUTHORISED)
        assert refused.status_code == status and reason in refused.json()["error"]
        assert client.post("/classify", json={"text": "x"}, headers=AUTHORISED).status_code == 200


@pytest.mark.parametrize("route", ["/classify", "/tag", "/answer", "/rank"])
def test_nothing_is_predicted_or_described_without_the_token(route: str, predictors: dict[str, Predictor]) -> None:
    with _client(**predictors) as client:
        assert client.post(route, json={"text": "x"}).status_code == 401
        assert client.get("/health").status_code == 401


def test_models_that_write_are_in_the_description_too() -> None:
    writer = Writer("nothing", english_tokenizer(), german_tokenizer(), lambda texts, beam: list(texts))
    with _client(new=writer) as client:
        (described,) = client.get("/health", headers=AUTHORISED).json()["models"]
        assert (described["model"], described["task"], described["route"]) == ("new", "translation", "/translate")
        sizes = {side: each["entries"] for side, each in described["vocabularies"].items()}
        assert sizes == {"encoder": 80, "decoder": 90}
        assert client.post("/classify", json={"text": "x"}, headers=AUTHORISED).status_code == 404


def test_a_directory_decides_whether_it_writes_or_predicts(tmp_path: Path) -> None:
    headed_bundle("tagging", labelled_corpus("tagging", tmp_path)).save(tmp_path / "tagger")
    separate_bundle().save(tmp_path / "marian")
    with (
        open_model(str(tmp_path / "tagger"), None, 1) as tagger,
        open_model(str(tmp_path / "marian"), None, 1) as marian,
    ):
        assert isinstance(tagger, Predictor) and isinstance(marian, Writer)


def test_a_served_classifier_answers_many_at_once(tmp_path: Path) -> None:
    headed_bundle("classification", labelled_corpus("classification", tmp_path)).save(tmp_path / "model")
    predictor = Predictor.load(tmp_path / "model")
    texts = [f"text number {number}" + " and more" * number for number in range(16)]
    with served(tmp_path / "model", tmp_path) as model:
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda text: model.post("/classify", {"texts": [text]}), texts))
        assert model.post("/tag", {"texts": ["x"]})[0] == 404
    assert {status for status, _ in answers} == {200}
    for (_, answer), expected in zip(answers, predictor.predict(texts), strict=True):
        (output,) = answer["models"][0]["outputs"]
        assert output["probabilities"] == pytest.approx(expected.facts["probabilities"], abs=1e-5)
