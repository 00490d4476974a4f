from __future__ import annotations

import pytest

from subgraft.base.errors import UserError
from subgraft.data.synthetic_pairs import add_tag, is_tagged, require_tag
from subgraft.subwords.vocabulary.learn import learn
from toys import english, english_tokenizer


def test_a_vocabulary_with_bytes_spells_the_tag_and_one_without_is_reported() -> None:
    spelling = learn(english(), kind="unigram", size=350, byte_fallback=True)
    require_tag(spelling, "encoder")
    assert spelling.decode(spelling.encode(add_tag("thank."))) == "<BT> thank."
    with pytest.raises(UserError, match="cannot spell the tag <BT>"):
        require_tag(english_tokenizer(), "encoder")


def test_a_corpus_says_by_what_it_was_made_of_whether_it_is_tagged() -> None:
    assert is_tagged({"kind": "back-translated", "tag": True})
    assert not is_tagged({"kind": "back-translated", "tag": False}) and not is_tagged({"kind": "copied"})
