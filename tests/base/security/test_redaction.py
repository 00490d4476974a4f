"""What is taken out of texts that leave the process, and what stays."""

from __future__ import annotations

import json
import time
import traceback
from urllib.parse import quote, quote_plus

import pytest

from subgraft.base.errors import OperationalError
from subgraft.base.security.redaction import redact, redact_values, redact_words

PLANTED = "pl4nted-S3cret"


@pytest.fixture(autouse=True)
def nothing_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN", "MLFLOW_TRACKING_PASSWORD", "HTTPS_PROXY", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"http://me:{PLANTED}@host:5000/api", "http://***@host:5000/api"),
        (f"postgresql://me:p@{PLANTED}@host/runs", "postgresql://***@host/runs"),
        (f"https://{PLANTED}@github.com/some/model", "https://***@github.com/some/model"),
        (f"runtime.tracking_uri=http://me:{PLANTED}@host", "runtime.tracking_uri=http://***@host"),
        (f"https://host/file.gz?part=2&token={PLANTED}&x=1", "https://host/file.gz?part=2&token=***&x=1"),
        (f"https://b.s3.com/f?X-Amz-Signature={PLANTED}", "https://b.s3.com/f?X-Amz-Signature=***"),
        (
            f"https://a.blob.core.windows.net/c?sv=2024&sig={PLANTED}%3D",
            "https://a.blob.core.windows.net/c?sv=2024&sig=***",
        ),
        (f"'Authorization': 'Bearer {PLANTED}'", "'Authorization': 'Bearer ***'"),
        (f"authorization: {PLANTED}", "authorization: ***"),
        (f"HF_TOKEN={PLANTED} subgraft run", "HF_TOKEN=*** subgraft run"),
        (f"MY_SERVICE_KEY={PLANTED}", "MY_SERVICE_KEY=***"),
        (f"PGPASSWORD={PLANTED} MYTOKEN='{PLANTED}'", "PGPASSWORD=*** MYTOKEN=***"),
        (f"APIKEY: {PLANTED}, MYSQL_PWD={PLANTED}", "APIKEY: ***, MYSQL_PWD=***"),
        (f'password="one\\"{PLANTED}" n=1', "password=*** n=1"),
        (f"secret='it\\'s {PLANTED}', n=1", "secret=***, n=1"),
        (f'{{\\"password\\": \\"a {PLANTED}\\", \\"n\\": 1}}', '{\\"password\\": ***, \\"n\\": 1}'),
        (f'password="a {PLANTED}\nand more', "password=***\nand more"),
        (f'api_key="first\n{PLANTED}\nlast" n=1', "api_key=*** n=1"),
        (f"next=%2Fx%3Fpassword%3D{PLANTED} n=1", "next=%2Fx%3Fpassword%3D*** n=1"),
        (f"-----BEGIN RSA PRIVATE KEY-----\nMII{PLANTED}\n-----END RSA PRIVATE KEY-----\nn", "***\nn"),
        (f"-----BEGIN PRIVATE KEY-----\nMII{PLANTED}\n", "***"),
        (f"mlflow.password={PLANTED}", "mlflow.password=***"),
        (f'{{"api_key": "{PLANTED}", "n": 1}}', '{"api_key": ***, "n": 1}'),
        (f"serve --auth-token {PLANTED} --port 1", "serve --auth-token *** --port 1"),
        (f"serve --token {PLANTED}", "serve --token ***"),
        ("cloned with ghp_0123456789abcdefghijABCDEFGHIJ", "cloned with ***"),
        ("hf_abcdefghijABCDEFGHIJ0123456789", "***"),
        ("AKIAIOSFODNN7EXAMPLE is not allowed", "*** is not allowed"),
    ],
)
def test_secrets_are_hidden(text: str, shown: str) -> None:
    assert redact(text) == shown
    assert redact(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "finetune.epochs=5 initialiser.sentences_per_token=100 pad_token=<pad>",
        "--tokens 500 --by-token-count --unk-token x",
        "one of the arguments --token --tokens is required",
        "unknown token: 'hello'; 3 new tokens: a, b",
        "sqlite:////home/a@b.org/mlflow.db",
        "https://huggingface.co/facebook/mbart-large-50@main and me@example.org",
        "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.5.1",
        "Basic authentication is needed, or a bearer of tokens",
        "export RAY_AUTH_TOKEN=$(cat ~/.ray/auth_token), or HF_TOKEN=<yours>",
        "key_value_heads: 4, secret_santa",
        "PWD=/home/me OLDPWD=/tmp COMPASS=north",
    ],
)
def test_text_without_secrets_is_unchanged(text: str) -> None:
    assert redact(text) == text


def test_what_the_environment_keeps_secret_is_hidden_wherever_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", PLANTED)
    monkeypatch.setenv("HTTPS_PROXY", "http://me:pr%40xy-word@proxy:3128")
    assert redact(f"a/{PLANTED}/b, named twice: {PLANTED}") == "a/***/b, named twice: ***"
    assert redact("the proxy refused pr@xy-word and pr%40xy-word") == "the proxy refused *** and ***"
    monkeypatch.setenv("SOME_KEY", "on")
    assert redact("turned on") == "turned on", "too short to distinguish from a word"


@pytest.mark.parametrize("variable", ["PGPASSWORD", "APIKEY", "MYTOKEN", "HF_TOKEN", "db_secret", "MYSQL_PWD"])
def test_it_is_hidden_however_it_is_written(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = 'p@ss/wörd "x" it\'s\\'
    monkeypatch.setenv(variable, secret)
    shown = [secret, repr(secret), json.dumps(secret), json.dumps(secret, ensure_ascii=False)]
    shown += [quote(secret), quote(secret, safe=""), quote_plus(secret), quote(secret, safe="").lower()]
    for text in shown:
        hidden = redact(f"<{text}>")
        assert "***" in hidden and "ss" not in hidden, hidden


def test_a_line_of_a_secret_of_many_lines_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["-----BEGIN PRIVATE KEY-----", "MIIabcdefgh", "0123456789AB", "-----END PRIVATE KEY-----"]
    monkeypatch.setenv("DEPLOY_KEY", "\n".join(lines) + "\n")
    assert redact(f"line 2 is {lines[1]}, 3 is {lines[2]}") == "line 2 is ***, 3 is ***"
    assert redact("a file that begins with -----BEGIN") == "a file that begins with -----BEGIN"


def test_words_and_values() -> None:
    words = ("subgraft", "serve", "--api-key", PLANTED, "--port", "1", "--tokens", "500")
    assert redact_words(words) == ("subgraft", "serve", "--api-key", "***", "--port", "1", "--tokens", "500")
    values = {
        "uri": f"http://me:{PLANTED}@host",
        "epochs": 3,
        "hub.api_key": PLANTED,
        "by": ["x", {"password": PLANTED}],
    }
    assert redact_values(values) == {
        "uri": "http://***@host",
        "epochs": 3,
        "hub.api_key": "***",
        "by": ["x", {"password": "***"}],
    }


def test_what_no_file_can_hold_is_spelled() -> None:
    assert redact("caf\udce9.yaml") == "caf\\udce9.yaml"


def test_errors_have_no_secrets() -> None:
    where = f"http://me:{PLANTED}@host"
    try:
        raise OperationalError(f"{where} is away", where=where, hint=f"token={PLANTED}")
    except OperationalError as error:
        shown = f"{error}{error!r}{error.where}{error.what}{error.hint}{traceback.format_exc()}"
    assert PLANTED not in shown.replace('raise OperationalError(f"{where}', "")


def test_long_texts_take_no_time() -> None:
    before = time.process_time()
    for text in (
        "a" * 200_000,
        "password " * 20_000,
        "://" * 50_000,
        "eyJ-" * 20_000,
        "A_" * 100_000,
        "token=" * 30_000,
        'password="' * 20_000,
        "password='a" * 19_999 + '"',
        'password=\\"' * 20_000,
        "-----BEGIN PRIVATE KEY-----" * 10_000,
        "-----BEGIN " * 20_000,
    ):
        redact(text)
    assert time.process_time() - before < 5.0
