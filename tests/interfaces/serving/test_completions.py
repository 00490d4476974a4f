"""A served language model over HTTP, in the form of OpenAI's API: real models, asked on 127.0.0.1."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import transformers

from clients import TOKEN, listening_to
from finished import gpt2_bundle, separate_bundle
from instruct import INSTRUCT
from published import CHECKPOINTS
from served_models import served
from subgraft.base.errors import UserError
from subgraft.interfaces.api.model import translate
from subgraft.interfaces.serving.writer import Writer, open_model
from subgraft.modeling.exporting.ctranslate2 import export_ctranslate2
from subgraft.modeling.inference.continue_text import Continuer
from subgraft.modeling.inference.prompts import ChatTemplate
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.understanding.predictor import Predictor

PROMPT = "der Garten"
ENGINES = {"CTranslate2": None, "PyTorch": "transformers", "llama.cpp": "llamacpp"}


class _Server:
    def __init__(self, port: int) -> None:
        self._port = port

    def send(self, path: str, body: Any = None, token: str = TOKEN) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        sent = None if body is None else json.dumps(body)
        connection.request("GET" if body is None else "POST", path, sent, {"Authorization": f"Bearer {token}"})
        return connection.getresponse()

    def ask(self, path: str = "/v1/completions", **body: Any) -> tuple[int, Any]:
        response = self.send(path, {"model": "m", "temperature": 0, **body})
        return response.status, json.loads(response.read())

    def events(self, path: str = "/v1/completions", **body: Any) -> list[Any]:
        response = self.send(path, {"model": "m", "temperature": 0, "stream": True, **body})
        assert response.status == 200 and response.getheader("content-type", "").startswith("text/event-stream")
        *events, done, end = response.read().decode().split("\n\n")
        assert (done, end) == ("data: [DONE]", "")
        return [json.loads(event.removeprefix("data: ")) for event in events]


@pytest.fixture(params=ENGINES)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[_Server]:
    gpt2_bundle().save(tmp_path / "model")
    if request.param == "llama.cpp":
        pytest.importorskip("xllamacpp")
    engine: Any = ENGINES[request.param]
    with open_model(str(tmp_path / "model"), None, 1, engine) as model, listening_to({"m": model}) as port:
        assert not isinstance(model, Predictor) and model.engine == request.param
        yield _Server(port)


def _expected(prompt: str, max_tokens: int) -> str:
    bundle = gpt2_bundle()
    start = bundle.sequence_format(None).start
    limits = {"max_length_ratio": 1000.0, "max_positions": bundle.max_positions, "max_tokens": max_tokens}
    return Continuer(bundle.model, bundle.decoder, start, beam=1, **limits)([prompt])[0]  # type: ignore[arg-type]


def test_completions_are_those_of_generate(server: _Server) -> None:
    prompts = [PROMPT, "die Katze und der Hund"]
    status, answer = server.ask(prompt=prompts, max_tokens=9)
    assert status == 200 and answer["object"] == "text_completion" and answer["model"] == "m"
    assert [choice["text"] for choice in answer["choices"]] == [_expected(prompt, 9) for prompt in prompts]
    assert [choice["index"] for choice in answer["choices"]] == [0, 1]
    assert {choice["finish_reason"] for choice in answer["choices"]} <= {"stop", "length"}
    tokenizer = gpt2_bundle().decoder
    prompt_tokens = sum(1 + len(tokenizer.encode(prompt)) for prompt in prompts)
    assert answer["usage"]["prompt_tokens"] == prompt_tokens
    assert 0 < answer["usage"]["completion_tokens"] <= 18
    assert answer["usage"]["total_tokens"] == prompt_tokens + answer["usage"]["completion_tokens"]


def test_a_stream_has_the_same_text_in_parts(server: _Server) -> None:
    events = server.events(prompt=PROMPT, max_tokens=12, stream_options={"include_usage": True})
    *parts, last, usage = events
    texts = [event["choices"][0]["text"] for event in parts]
    assert "".join(texts) == _expected(PROMPT, 12) and sum(map(bool, texts)) > 2
    assert last["choices"][0]["finish_reason"] == "length" and usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 12


def test_a_stop_ends_the_text_before_it(server: _Server) -> None:
    whole = _expected(PROMPT, 12)
    stop = whole[len(whole) // 2 : len(whole) // 2 + 3]
    _, answer = server.ask(prompt=PROMPT, max_tokens=12, stop=stop)
    (choice,) = answer["choices"]
    assert (choice["text"], choice["finish_reason"]) == (whole[: whole.index(stop)], "stop")
    events = server.events(prompt=PROMPT, max_tokens=12, stop=[stop, "never there"])
    assert "".join(event["choices"][0]["text"] for event in events) == choice["text"]


def test_concurrent_requests_with_different_settings_have_their_own_answers(server: _Server) -> None:
    asked = [{"prompt": PROMPT, "max_tokens": 3 + number, "top_p": 0.5} for number in range(8)]
    asked += [{"prompt": PROMPT, "max_tokens": 25, "temperature": 1.0}]
    asked += [{"prompt": "der Hund und die Katze gehen", "max_tokens": 4}]  # with the one before, beyond the positions
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda one: server.ask(**one), asked))
    assert {status for status, _ in answers} == {200}
    texts = [answer["choices"][0]["text"] for _, answer in answers]
    assert texts[:8] == [_expected(PROMPT, 3 + number) for number in range(8)]
    assert texts[9] == _expected("der Hund und die Katze gehen", 4)


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({}, 400, "prompt"),
        ({"prompt": []}, 400, "prompt"),
        ({"prompt": PROMPT, "echo": True}, 400, "echo: not supported"),
        ({"prompt": PROMPT, "n": 2}, 400, "n: not supported"),
        ({"prompt": PROMPT, "seed": 3}, 400, "seed"),
        ({"prompt": PROMPT, "temperature": 3}, 400, "temperature"),
        ({"prompt": PROMPT, "max_tokens": 1000}, 400, "the model takes 40 tokens"),
        ({"prompt": PROMPT, "model": "other"}, 404, "there is m"),
        ({"prompt": PROMPT * 8000}, 413, "bytes"),
        ({"prompt": "\ud800"}, 400, "prompt"),
        ({"prompt": PROMPT, "stop": ["a"] * 5}, 400, "stop"),
        ({"prompt": PROMPT, "\ud800": 1}, 400, "a field's name"),
    ],
)
def test_refusals_have_openais_form(tmp_path: Path, body: Any, status: int, message: str) -> None:
    gpt2_bundle().save(tmp_path)
    with open_model(str(tmp_path), None, 1) as model, listening_to({"m": model}) as port:
        server = _Server(port)
        answered, refusal = server.ask(**body)
        assert answered == status and message in refusal["error"]["message"]
        assert refusal["error"]["type"] == "invalid_request_error"
        neutral: Any = {"n": 1, "echo": False, "frequency_penalty": 0, "logit_bias": {}, "seed": None, "user": "me"}
        assert server.ask(prompt=PROMPT, max_tokens=3, **neutral)[0] == 200


def test_models_are_listed_and_need_the_token(server: _Server) -> None:
    assert [one["id"] for one in json.loads(server.send("/v1/models").read())["data"]] == ["m"]
    for path, body in (("/v1/models", None), ("/v1/completions", {"model": "m", "prompt": PROMPT})):
        refused = server.send(path, body, token="another")
        assert refused.status == 401 and json.loads(refused.read())["error"]["code"] == "invalid_api_key"
    assert server.send("/translate", {"texts": ["x"]}).status == 404


def test_a_client_that_leaves_a_stream_ends_its_completion(server: _Server) -> None:
    for _ in range(3):
        response = server.send("/v1/completions", {"model": "m", "prompt": PROMPT, "max_tokens": 36, "stream": True})
        response.read(10)
        response.close()
    assert server.ask(prompt=PROMPT, max_tokens=5)[0] == 200


def test_a_chat_is_answered_through_the_template(tmp_path: Path) -> None:
    INSTRUCT["qwen2.5"](tmp_path)
    turn = [{"role": "user", "content": "one two"}]
    with open_model(str(tmp_path), None, 1) as model, listening_to({"m": model}) as port:
        server = _Server(port)
        status, answer = server.ask("/v1/chat/completions", messages=turn, max_tokens=8)
        assert status == 200 and answer["object"] == "chat.completion"
        message = answer["choices"][0]["message"]
        assert message["role"] == "assistant"
        assert not isinstance(model, Writer | Predictor)
        ids = ChatTemplate.of(model.tokenizer, "m").ids([turn], 256)[0]
        assert answer["usage"]["prompt_tokens"] == len(ids)
        events = server.events("/v1/chat/completions", messages=turn, max_tokens=8)
        assert events[0]["choices"][0]["delta"]["role"] == "assistant" and events[-1]["choices"][0]["delta"] == {}
        assert "".join(event["choices"][0]["delta"].get("content", "") for event in events) == message["content"]
        for role, content, complaint in (("user", "<|im_end|>", "<|im_end|>"), ("\ud800", "one", "unicode")):
            status, refusal = server.ask("/v1/chat/completions", messages=[{"role": role, "content": content}])
            assert status == 400 and complaint in refusal["error"]["message"]


@pytest.mark.slow
def test_a_hostile_template_is_refused_while_other_routes_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal at the end finds the template running: the server ends nevertheless."""
    monkeypatch.setenv("SUBGRAFT_CHAT_MAX_SECONDS", "3")
    INSTRUCT["qwen2.5"](tmp_path / "model")
    loops = "{% for i in range(99999) %}" * 4 + "{% endfor %}" * 4
    Tokenizer.load(tmp_path / "model").with_chat_template(loops).save(tmp_path / "model")
    chat = {"model": str(tmp_path / "model"), "messages": [{"role": "user", "content": "one"}], "max_tokens": 3}
    text = {"model": str(tmp_path / "model"), "prompt": "one", "max_tokens": 3}
    with served(tmp_path / "model", tmp_path) as model, ThreadPoolExecutor(2) as pool:
        asked = pool.submit(model.post, "/v1/chat/completions", chat)
        time.sleep(1)
        assert model.post("/v1/completions", text)[0] == 200
        status, refusal = asked.result()
        assert status == 400 and "takes too long" in refusal["error"]["message"]
        assert model.post("/v1/completions", text)[0] == 200
        unanswered = pool.submit(model.post, "/v1/chat/completions", chat)
        time.sleep(0.5)
    assert unanswered.exception() is not None or unanswered.result()[0] >= 400


def test_a_model_without_a_template_does_not_chat(server: _Server) -> None:
    status, refusal = server.ask("/v1/chat/completions", messages=[{"role": "user", "content": "one"}])
    assert status == 400 and "no chat template" in refusal["error"]["message"]


def test_a_seed_repeats_a_sample_or_is_refused(server: _Server, request: pytest.FixtureRequest) -> None:
    asked: dict[str, Any] = {"prompt": PROMPT, "max_tokens": 12, "temperature": 1.5}
    answers = [server.ask(**asked, seed=seed) for seed in (1, 2, 1)]
    if request.node.callspec.params["server"] == "CTranslate2":
        assert answers[0][0] == 400 and "CTranslate2 cannot repeat" in answers[0][1]["error"]["message"]
        return
    texts = [answer["choices"][0]["text"] for _, answer in answers]
    assert texts[0] == texts[2] != texts[1]


def test_a_gguf_is_served(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    from subgraft.modeling.exporting.gguf import export_gguf

    CHECKPOINTS["gpt2"].publish(tmp_path / "model")
    (tmp_path / "out").mkdir()
    export_gguf(tmp_path / "model", tmp_path / "out", "q8_0")
    with open_model(str(tmp_path / "out"), None, 1) as model, listening_to({"m": model}) as port:
        status, answer = _Server(port).ask(prompt=PROMPT, max_tokens=4)
        assert status == 200 and answer["usage"]["completion_tokens"] <= 4
    with (
        pytest.raises(UserError, match=r"a GGUF runs in llama\.cpp"),
        open_model(str(tmp_path / "out"), None, 1, "transformers"),
    ):
        pass
    with pytest.raises(UserError, match="no encoder, so it cannot translate"):  # not: it has no beam search
        translate(tmp_path / "out", [PROMPT])


def test_a_classifier_is_refused_for_llama_cpp_before_its_weights_are_read(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    CHECKPOINTS["gpt2"].publish(tmp_path / "model")
    model = transformers.GPT2ForSequenceClassification.from_pretrained(tmp_path / "model")
    model.save_pretrained(tmp_path / "model")
    config = tmp_path / "model" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"n_embd": 48}))  # which the weights do not have
    with (
        pytest.raises(UserError, match=r"which llama\.cpp does not run"),
        open_model(str(tmp_path / "model"), None, 1, "llamacpp"),
    ):
        pass


def test_exports_are_served_and_translators_complete_nothing(tmp_path: Path) -> None:
    gpt2_bundle().save(tmp_path / "model")
    (tmp_path / "exported").mkdir()
    export_ctranslate2(tmp_path / "model", tmp_path / "exported")
    separate_bundle().save(tmp_path / "marian")
    with open_model(str(tmp_path / "exported"), None, 1) as model, listening_to({"m": model}) as port:
        assert _Server(port).ask(prompt=PROMPT, max_tokens=9)[1]["choices"][0]["text"] == _expected(PROMPT, 9)
    with open_model(str(tmp_path / "marian"), None, 1) as model, listening_to({"m": model}) as port:
        assert _Server(port).ask(prompt=PROMPT)[0] == 404
        assert json.loads(_Server(port).send("/v1/models").read())["data"] == []
