"""int8 on a processor without VNNI: by the library that is right there, or in float32."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from finished import separate_bundle
from subgraft.modeling.exporting.ctranslate2 import NOTEWORTHY
from subgraft.modeling.inference.int8_products import CHOICE

# What oneDNN does on a processor that has AVX2 and nothing later.
LESSER = {"ONEDNN_MAX_CPU_ISA": "AVX2", "OMP_NUM_THREADS": "1"}
CHOSEN = """
import os, sys
sys.modules["torch"] = None  # which nothing here needs
from subgraft.modeling.inference.int8_products import CHOICE, choose_library, exact_products
choose_library()
print(os.environ.get(CHOICE), exact_products())
"""


def _ended(arguments: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name != CHOICE}
    command = [sys.executable, "-P", *arguments]
    return subprocess.run(
        command, env={**inherited, **LESSER, **environment}, capture_output=True, text=True, timeout=600, check=False
    )


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="oneDNN is of x86 here")
def test_what_is_wrong_is_noticed_and_the_other_library_taken() -> None:
    alone = _ended(["-m", "subgraft.modeling.inference.int8_products"], **{CHOICE: "0"})
    assert alone.returncode == 1, "oneDNN is exact with AVX2 alone: is any of this still needed?"
    by_mkl = _ended(["-m", "subgraft.modeling.inference.int8_products"], **{CHOICE: "1"}).returncode == 0
    choice, exact = _ended(["-c", CHOSEN]).stdout.split()
    assert exact == str(by_mkl)
    assert choice in ("None", "1"), "None where CTranslate2 takes MKL of itself"
    assert _ended(["-c", CHOSEN], **{CHOICE: "0"}).stdout.split() == ["0", "False"], "what was set stays"


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="oneDNN is of x86 here")
def test_where_no_library_is_right_models_in_int8_are_computed_in_float32(tmp_path: Path) -> None:
    separate_bundle().save(tmp_path / "model")
    arguments = ["export", tmp_path / "model", "--to", "ctranslate2", "--quantization", "int8", "--out", tmp_path / "o"]
    exported = _ended(["-m", "subgraft", *map(str, arguments)], **{CHOICE: "0"})
    assert exported.returncode == 0, exported.stderr
    assert "products of int8 are wrong" in exported.stderr and "CT2_USE_MKL=1" in exported.stderr
    (mean,) = re.findall(r"by ([0-9.e+-]+) on average", exported.stdout)
    assert 0 < float(mean) < NOTEWORTHY and "[warning]" not in exported.stdout
