"""What CTranslate2 holds of a model in memory."""

from __future__ import annotations

import pytest

from finished import llama_bundle, separate_bundle
from subgraft.base.errors import UserError
from subgraft.modeling.exporting.ctranslate2 import fast_continuer, fast_translator


def test_where_it_computes_something_else_the_other_engine_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subgraft.modeling.exporting.ctranslate2.TOLERANCE", 0.0)
    with pytest.raises(UserError, match=r"outputs differ from this model(.|\n)*`engine: transformers`"):
        fast_translator(separate_bundle(), None, beam=1, max_length_ratio=2.5)
    with pytest.raises(UserError, match=r"outputs differ from this model(.|\n)*`engine: transformers`"):
        fast_continuer(llama_bundle(), None, beam=1, max_length_ratio=2.5)
