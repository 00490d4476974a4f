"""The initialiser that docs/extending.md shows works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from subgraft.initialisers import methods
from subgraft.models.sides import side
from subgraft.transplanting.transplant import Method, transplant
from toys import fitted_tokenizer, mbart, multilingual_tokenizer


def test_the_shown_initialiser_transplants_a_model(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (repository / "docs" / "extending.md").read_text(encoding="utf-8")
    file, entry = re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "first_subword.py").write_text(file, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import first_subword  # type: ignore[import-not-found]

    added = eval("{" + entry + "}", vars(first_subword))
    monkeypatch.setattr(methods, "METHODS", {**methods.METHODS, **added})
    model, source, target = mbart(), multilingual_tokenizer(), fitted_tokenizer()
    old = side(model, "decoder").input.weight.detach().clone()
    result, reports, _ = transplant(
        model, dict.fromkeys(("encoder", "decoder"), source), {"decoder": target}, Method("first-subword")
    )
    new = side(result, "decoder").input.weight
    unseen = [entry for entry in target.ids if entry not in source.ids]
    assert reports["decoder"].unseen == len(unseen) > 20
    for token in unseen:
        assert torch.equal(new[target.ids[token]], old[source.segment(token)[0]])
