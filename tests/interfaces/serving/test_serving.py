"""A served model over HTTP: a process of its own, asked through a socket as a browser or a program asks it."""

from __future__ import annotations

import asyncio
import gc
import http.client
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from transformers import MarianMTModel

from finished import gpt2_bundle, mbart_bundle, separate_bundle, tell_languages
from served_models import ServedModel, served
from subgraft.base.errors import UserError
from subgraft.base.security.http_requests import MAX_BODY_BYTES, MAX_TEXTS
from subgraft.config.corpora import Languages
from subgraft.config.evaluation import MeasurementSettings
from subgraft.interfaces.cli import main
from subgraft.interfaces.serving.application import MAX_TEXT_LENGTH, application
from subgraft.interfaces.serving.batching import Batcher
from subgraft.interfaces.serving.writer import Source, Writer, open_model
from subgraft.modeling.exporting.ctranslate2 import export_ctranslate2
from subgraft.pipeline.compute.outputs import translator
from toys import english_tokenizer, german_tokenizer

LANGUAGES = Languages(source="en", target="de")
TOKEN = "a-token"
AUTHORISED = {"Authorization": f"Bearer {TOKEN}"}


def _writer(write: Any = lambda texts: list(map(str.upper, texts))) -> Writer:
    return Writer("nothing", english_tokenizer(), german_tokenizer(), lambda texts, beam: write(texts))


@contextmanager
def _client(writer: Writer, patience: float = 10) -> Iterator[TestClient]:
    with TestClient(application({"new": writer}, TOKEN, patience), base_url="http://127.0.0.1:8111") as client:
        yield client


@contextmanager
def _translator(model: Path) -> Iterator[Writer]:
    with open_model(str(model), None, 1) as writer:
        assert isinstance(writer, Writer)
        yield writer


def test_texts_are_answered_with_their_pieces() -> None:
    with _client(_writer()) as client:
        answered = client.post("/translate", json={"texts": ["thank", "a\nb"]}, headers=AUTHORISED)
    (model,) = answered.json()["models"]
    assert model["outputs"] == ["THANK", "A B"] and model["model"] == "new" and model["seconds"] >= 0
    assert "".join(model["source_pieces"][0]) == "▁thank"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b'{"texts": "x"}', 400),
        (b'{"texts": []}', 400),
        (b'{"texts": [1]}', 400),
        (b'{"texts": ["\\ud800"]}', 400),
        (b"[" * 60_000, 400),
        (json.dumps({"texts": ["x"] * (MAX_TEXTS + 1)}).encode(), 413),
        (json.dumps({"texts": ["x" * (MAX_TEXT_LENGTH + 1)]}).encode(), 413),
        (b" " * (MAX_BODY_BYTES + 1), 413),
    ],
)
def test_malformed_requests_are_refused(body: bytes, status: int) -> None:
    with _client(_writer()) as client:
        answered = client.post("/translate", content=body, headers=AUTHORISED)
        assert answered.status_code == status and answered.json()["error"]
        assert client.post("/translate", json={"texts": ["x"]}, headers=AUTHORISED).status_code == 200


def test_a_request_names_one_of_several_directions() -> None:
    writer = replace(
        _writer(), directions={"de-en": lambda texts, beam: [f"en {text}" for text in texts], "fr-en": _reversed}
    )
    with _client(writer) as client:
        outputs = {}
        for direction in (None, "de-en", "fr-en", "en-fr", 5):
            body = {"texts": ["ab", "cd"]} | ({} if direction is None else {"direction": direction})
            answered = client.post("/translate", json=body, headers=AUTHORISED)
            outputs[direction] = answered.json()["models"][0]["outputs"] if answered.status_code == 200 else answered
        health = client.get("/health", headers=AUTHORISED).json()["models"]
    assert outputs[None] == ["AB", "CD"] and outputs["de-en"] == ["en ab", "en cd"] and outputs["fr-en"] == ["ba", "dc"]
    for wrong in ("en-fr", 5):
        assert outputs[wrong].status_code == 400 and "new has de-en, fr-en" in outputs[wrong].json()["error"]
    assert health[0]["directions"] == ["de-en", "fr-en"]
    assert writer.answer([Source("ab", "fr-en"), Source("x"), Source("cd", "fr-en")]) == ["ba", "X", "dc"]
    with _client(_writer()) as client:
        one = client.post("/translate", json={"texts": ["a"], "direction": "de-en"}, headers=AUTHORISED)
    assert one.status_code == 400 and "has one only" in one.json()["error"]


def _reversed(texts: Sequence[str], beam: int) -> list[str]:
    return [text[::-1] for text in texts]


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer another"}, {"Authorization": "Bearer ä".encode()}])
def test_nothing_is_translated_without_the_token(headers: Any) -> None:
    with _client(_writer()) as client:
        assert client.post("/translate", json={"texts": ["x"]}, headers=headers).status_code == 401


def test_other_names_for_this_machine_are_refused() -> None:
    with _client(_writer()) as client:
        assert client.get("/", headers={"Host": "evil.example"}).status_code == 400
        page = client.get("/")
    assert page.status_code == 200 and "textarea" in page.text and TOKEN not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_the_server_survives_a_model_that_fails_or_hangs() -> None:
    def write(texts: list[str]) -> list[str]:
        if texts == ["slow"]:
            time.sleep(0.5)
        return texts

    with _client(_writer(write), patience=0.1) as client:
        assert client.post("/translate", json={"texts": ["slow"]}, headers=AUTHORISED).status_code == 504
    with _client(_writer(write)) as client:
        assert client.post("/translate", json={"texts": ["fast"]}, headers=AUTHORISED).status_code == 200


def test_requests_that_come_together_are_one_batch() -> None:
    sizes = []

    def write(texts: Any) -> list[str]:
        sizes.append(len(texts))
        return [f"<{text}>" for text in texts]

    async def ask() -> list[str]:
        batcher = Batcher(write)
        asked = [asyncio.create_task(batcher.ask([str(i)], 10)) for i in range(10)]
        await asyncio.sleep(0)
        running = asyncio.create_task(batcher.run())
        answers = await asyncio.gather(*asked)
        running.cancel()
        return [answer.outputs[0] for answer in answers]

    assert asyncio.run(ask()) == [f"<{i}>" for i in range(10)]
    assert sizes == [10]


def test_clients_that_wait_for_their_answers_stay_in_one_batch() -> None:
    """Each client sends its next request when it has an answer, so none is there when a batch ends."""
    sizes = []

    def write(texts: Any) -> list[str]:
        sizes.append(len(texts))
        return list(texts)

    async def client(batcher: Batcher[str, str], number: int) -> None:
        for _ in range(5):
            assert (await batcher.ask([str(number)], 10)).outputs == [str(number)]

    async def ask() -> None:
        batcher = Batcher(write)
        running = asyncio.create_task(batcher.run())
        await asyncio.gather(*(client(batcher, number) for number in range(8)))
        running.cancel()

    asyncio.run(ask())
    assert sizes == [8] * 5


def test_models_are_served_by_ctranslate2_and_without_it_by_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle, texts = separate_bundle(), ["thank you", "the garden"]
    bundle.save(tmp_path / "model")
    (tmp_path / "exported").mkdir()
    export_ctranslate2(tmp_path / "model", tmp_path / "exported")
    expected = translator(bundle, LANGUAGES, MeasurementSettings(beam=1))(texts)
    before = _models_of_torch()
    for model in ("model", "exported"):
        with _translator(tmp_path / model) as writer:
            assert (writer.engine, writer.write(texts, 1)) == ("CTranslate2", expected)
            assert _models_of_torch() == before, "what CTranslate2 runs is in memory once"
    monkeypatch.setattr("subgraft.interfaces.serving.writer.find_spec", lambda name: None)
    with _translator(tmp_path / "model") as writer:
        assert (writer.engine, writer.write(texts, 1)) == ("PyTorch", expected)


def _models_of_torch() -> int:
    gc.collect()
    return sum(type(each) is MarianMTModel for each in gc.get_objects())


def test_languages_that_the_models_files_name_need_not_be_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle, texts = mbart_bundle(), ["thank you", "the garden"]
    bundle.save(tmp_path)
    tell_languages(tmp_path, "en", "de")
    expected = translator(bundle, LANGUAGES, MeasurementSettings(beam=1))(texts)
    with _translator(tmp_path) as writer:
        assert (writer.engine, writer.write(texts, 1)) == ("CTranslate2", expected)
        with _client(writer) as client:
            (model,) = client.post("/translate", json={"texts": texts}, headers=AUTHORISED).json()["models"]
        assert model["languages"] == {"source": "en", "target": "de"}
        assert writer.languages == LANGUAGES
    monkeypatch.setattr("subgraft.interfaces.serving.writer.find_spec", lambda name: None)
    with _translator(tmp_path) as writer:
        assert (writer.engine, writer.write(texts, 1), writer.languages) == ("PyTorch", expected, LANGUAGES)


@pytest.mark.parametrize("name", ["127.0.0.1:8111", "localhost", "[::1]:8111"])
def test_this_machines_own_names_are_taken(name: str) -> None:
    with _client(_writer()) as client:
        assert client.get("/", headers={"Host": name}).status_code == 200


def test_what_cannot_be_served_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gpt2_bundle().save(tmp_path / "gpt2")
    mbart_bundle().save(tmp_path / "mbart")
    with (
        pytest.raises(UserError, match="languages: this model has a code"),
        open_model(str(tmp_path / "mbart"), None, 1),
    ):
        pass
    assert main(["serve", str(tmp_path / "gpt2"), "--host", "everywhere"]) == 2
    assert "expected an IP address" in capsys.readouterr().err
    assert main(["serve", str(tmp_path / "gpt2"), "--host", "192.0.2.1", "--port", "0"]) == 1
    assert "192.0.2.1:0: cannot listen there" in capsys.readouterr().err
    token = tmp_path / "token"
    token.touch()
    separate_bundle().save(tmp_path / "marian")
    assert main(["serve", str(tmp_path / "marian"), "--port", "0", "--token-file", str(token)]) == 2


@pytest.mark.parametrize(
    ("number", "host"), [(signal.SIGTERM, "127.0.0.1"), pytest.param(signal.SIGINT, "0.0.0.0", marks=pytest.mark.slow)]
)
def test_a_served_model_answers_many_at_once_and_ends_on_a_signal(
    number: signal.Signals, host: str, tmp_path: Path
) -> None:
    separate_bundle().save(tmp_path / "model")
    with served(tmp_path / "model", tmp_path, "--beam", "1", "--host", host, until=number) as model:
        connection = http.client.HTTPConnection("127.0.0.1", model.port, timeout=60)
        connection.request("GET", "/", headers={"Host": "models.example"})
        assert connection.getresponse().status == (400 if host == "127.0.0.1" else 200)
        assert model.token_file.stat().st_mode & 0o777 == 0o600
        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(model.ask, ["thank"] * 16))
        assert {status for status, _ in answers} == {200}
        assert len({answer["models"][0]["outputs"][0] for _, answer in answers}) == 1
    assert not model.token_file.exists() and not list(tmp_path.glob("subgraft-serve-*"))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_while_a_real_model_translates(number: signal.Signals, tmp_path: Path) -> None:
    separate_bundle().save(tmp_path / "model")
    with ThreadPoolExecutor(32) as pool:
        with served(tmp_path / "model", tmp_path, "--beam", "16", until=number) as model:
            assert model.ask("thank")[0] == 200
            answers = [pool.submit(model.ask, *["thank friend"] * 32) for _ in range(640)]  # 32 at once
            wait(answers, return_when=FIRST_COMPLETED)
        assert any(answer.exception() is not None for answer in answers), "it had answered them all"


def test_a_signal_ends_the_server_while_a_model_works(tmp_path: Path) -> None:
    """The model is one that nothing interrupts, as within a library's search."""
    script = tmp_path / "serve.py"
    script.write_text(
        "import contextlib, sys, time\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[2] / 'support')!r})\n"
        "from clients import writer\n"
        "from subgraft.interfaces.cli import main\n"
        "from subgraft.interfaces.serving import writer as opened\n"
        "def work(texts):\n"
        "    print('working', flush=True)\n"
        "    time.sleep(600)\n"
        "opened.open_model = lambda *arguments: contextlib.nullcontext(writer(work))\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    token = tmp_path / "token"
    command = [sys.executable, str(script), "serve", str(tmp_path), "--port", "0", "--token-file", str(token)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, ThreadPoolExecutor(1) as pool:
        assert process.stdout is not None
        port = re.search(r"http://[\d.]+:(\d+)/", process.stdout.readline())
        assert port is not None
        answer = pool.submit(ServedModel(int(port[1]), token).ask, "thank")
        while "working" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0 and "stopped" in process.stdout.read()
        assert not token.exists() and answer.exception() is not None
