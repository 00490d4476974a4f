"""Reading a vocabulary leaves the collector as it was, also where it fails."""

from __future__ import annotations

import gc

import pytest

from subgraft.base.errors import UserError
from subgraft.subwords.vocabulary.directory import Source
from subgraft.subwords.vocabulary.tokenizer import Tokenizer, gc_paused
from toys import english_tokenizer


def test_the_collector_is_off_inside_and_as_before_afterwards() -> None:
    assert gc.isenabled()
    with gc_paused(), gc_paused():
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with gc_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_vocabulary_read_or_refused_leaves_it_on() -> None:
    assert english_tokenizer().ids and gc.isenabled()
    with pytest.raises(UserError):
        Tokenizer(Source("{}", {}))
    assert gc.isenabled()
