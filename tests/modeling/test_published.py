"""Published checkpoints in their layouts: ids and greedy outputs are transformers' own, and the page says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkpoint_table import COLUMNS, PAGE, measured, read_rows, written_page
from published import CHECKPOINTS, Checkpoint, english, half, nllb, sharded
from subgraft.modeling.load import load_model
from transformers_outputs import ADVERSARIAL, differing, equal_outputs

TEXT = PAGE.read_text(encoding="utf-8")
ROWS = read_rows(TEXT)
# One of each kind of sequence and of each layout of a vocabulary that only one family has.
QUICK = ("opus-mt-en-mul", "mbart-large-50-many-to-many-mmt", "m2m100_418M", "madlad400-3b-mt", "bart-base")


@pytest.mark.parametrize("name", QUICK)
def test_ids_and_outputs_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    checkpoint = CHECKPOINTS[name]
    checkpoint.publish(tmp_path)
    assert differing(tmp_path, checkpoint, [*ADVERSARIAL, *english(20)]) == []
    equal, different = equal_outputs(tmp_path, checkpoint, english(5))
    assert equal == 5 and different > 1


def test_a_first_nllb_puts_its_code_behind(tmp_path: Path) -> None:
    nllb(tmp_path, legacy=True)
    known = CHECKPOINTS["nllb-200-distilled-600M"]
    checkpoint = Checkpoint("nllb, as at first", nllb, known.languages, settings=known.settings)
    assert differing(tmp_path, checkpoint, english(5)) == []
    assert equal_outputs(tmp_path, checkpoint, english(3))[0] == 3


@pytest.mark.parametrize(
    "name", ["opus-mt-en-de", "mbart-large-cc25", "nllb-200-distilled-600M", "t5-small", "bart-base", "Llama-3.2-1B"]
)
def test_weights_in_other_forms_give_the_same_outputs(name: str, tmp_path: Path) -> None:
    checkpoint = CHECKPOINTS[name]
    checkpoint.publish(tmp_path)
    for change in (half, sharded):
        change(tmp_path)
        assert equal_outputs(tmp_path, checkpoint, english(5))[0] == 5
    assert str(load_model(tmp_path).dtype) == "torch.float16"


def test_the_page_is_of_all_checkpoints_and_of_nothing_that_went_wrong() -> None:
    assert ROWS.keys() == CHECKPOINTS.keys()
    assert written_page(ROWS, TEXT) == TEXT
    for name, row in ROWS.items():
        assert tuple(row) == COLUMNS
        for column, cell in row.items():
            done, _, asked = cell.partition(" of ")
            assert cell in ("yes", "assembled first") or cell.startswith("refused: ") or done == asked, (name, column)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CHECKPOINTS))
def test_the_page_says_what_is_so(name: str) -> None:
    assert measured(name) == ROWS[name]
