"""Chat templates that do no harm: hostile ones are refused within their limits, and good ones go on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from instruct import INSTRUCT
from subgraft.base.errors import UserError
from subgraft.base.security.chat_process import Part, Rendered, process_of
from subgraft.modeling.inference.prompts import ChatTemplate
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

TURNS = [{"role": "user", "content": "one two"}, {"role": "assistant", "content": "three"}]
_FOREVER = "{% for i in range(99999) %}" * 4 + "x" + "{% endfor %}" * 4


def _render(template: str) -> Rendered:
    return process_of(template).render([Part(TURNS)], {})[0]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBGRAFT_CHAT_MAX_SECONDS", "1")


@pytest.mark.parametrize(
    ("template", "limit"),
    [
        (_FOREVER.replace("x", ""), "takes too long.*SUBGRAFT_CHAT_MAX_SECONDS"),
        ("{{ 10 ** (10 ** 9) }}", "takes too (long|much memory)"),
        ("{{ lipsum(n=10 ** 7) }}", "takes too (long|much memory)"),
        ("{{ 'x' * 10 ** 10 }}", "too much memory.*SUBGRAFT_CHAT_MAX_MEMORY"),
        ("{{ 'x' * 10 ** 7 }}", "too much text.*SUBGRAFT_CHAT_MAX_TEXT"),
        ("{% set ns = namespace(t=['x']) %}{% for i in range(60) %}{% set ns.t = ns.t + ns.t %}{% endfor %}", "memory"),
    ],
)
@pytest.mark.usefixtures("short")
def test_a_template_without_end_is_refused(template: str, limit: str) -> None:
    for _ in range(2):  # the second time by a process that replaced the first
        with pytest.raises(UserError, match=f"(?s)the chat template cannot be used: .*{limit}"):
            _render(template)


@pytest.mark.parametrize(
    "template",
    [
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{{ " + "-" * 100_000 + "1 }}",
        "{{ messages.no.such }}",
        "{{ raise_exception('\x1b[2J' * 9999999) }}",
        "{{ ''.__class__.__mro__ }}",
        "{% if %}",
        "{{ 1 // 0 }}",
        "{{ messages | attr('x')() }}",
        "{{ '%d' % 'x' }}",
        "{{ dict(a=1).fromkeys(5) }}",
        "{{ '\ud800' }}{{ raise_exception('\ud800') }}",
    ],
)
def test_any_error_of_a_template_is_one_message(template: str) -> None:
    with pytest.raises(UserError, match="the chat template cannot be used: ") as refused:
        _render(template)
    assert len(str(refused.value)) < 1000


def test_a_good_template_keeps_its_process_and_an_error_does_not_replace_it() -> None:
    template = "{% if messages[0].content == 'no' %}{{ raise_exception('refused') }}{% endif %}{{ pid or messages }}"
    process = process_of(template)
    first = process.render([Part(TURNS)], {})[0].text
    running = process._running
    with pytest.raises(UserError, match="refused"):
        process.render([Part([{"role": "user", "content": "no"}])], {})
    assert process.render([Part(TURNS)], {})[0].text == first
    assert running is not None and process._running is running and running.process.poll() is None


def test_the_process_ends_when_its_owner_does() -> None:
    import gc

    process = process_of.__wrapped__("{{ messages }}")
    process.render([Part(TURNS)], {})
    assert process._running is not None
    child = process._running.process.pid
    del process
    gc.collect()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


@pytest.mark.usefixtures("short")
def test_a_model_with_a_hostile_template_is_refused(tmp_path: Path) -> None:
    INSTRUCT["qwen2.5"](tmp_path)
    tokenizer = Tokenizer.load(tmp_path).with_chat_template(_FOREVER)
    with pytest.raises(UserError, match="takes too long"):
        ChatTemplate.of(tokenizer, "m").ids(["one"], 256)
