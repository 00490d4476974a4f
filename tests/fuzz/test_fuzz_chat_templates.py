"""Chat templates: whatever program they are, they are filled in or refused within their limits."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from fuzzing import damaged, fuzzed, tally
from subgraft.base.errors import UserError
from subgraft.base.json_io import parse
from subgraft.base.security.chat_process import Part, process_of

pytestmark = pytest.mark.slow

TEMPLATES = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message['content'] | trim }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}",
    "{% set ns = namespace(n=0) %}{% macro m(x) %}{{ x * 3 }}{% endmacro %}{{ m(messages[0].role) }}{{ ns.n }}",
    "{{ bos_token }}{% for m in messages[::-1] %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}",
)
_NUMBER = st.sampled_from(["0", "-1", "3", "99999", "10**7", "10**(10**9)", "2.5", "'x'", "[]", "messages"])
_PARTS = st.sampled_from(
    [
        "{{ 'x' * N }}",
        "{{ range(N) | list | length }}",
        "{{ lipsum(n=N) }}",
        "{% for i in range(N) %}",
        "{% endfor %}",
        "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
        "{{ '%0*d' % (N, 1) }}",
        "{{ messages | tojson(indent=N) }}",
        "{{ raise_exception('\u202e' * N) }}",
        "{{ ''.__class__ }}",
        "{{ N ** N }}",
        "{{ cycler(N).next() }}",
        "{{ strftime_now('%' * N) }}",
        "{{ ('a' * N) | replace('a', 'a' * N) }}",
        "{% set x = N %}{{ x.y.z }}",
    ]
)
_HOSTILE = st.lists(st.builds(lambda part, number: part.replace("N", number), _PARTS, _NUMBER), max_size=4).map("".join)
_CONVERSATION = parse('[{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]')


@fuzzed(300, text=damaged(st.sampled_from(TEMPLATES)) | _HOSTILE)
def test_a_template_is_filled_in_or_refused(text: str) -> None:
    """Without `answers`: the template's own process is timed, by its limits."""
    tally.inputs += 1
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SUBGRAFT_CHAT_MAX_SECONDS", "1")
        try:
            process_of.__wrapped__(text).render([Part(_CONVERSATION, prompt=True)], {"bos_token": "<s>"})
        except UserError as error:
            assert str(error).strip()
