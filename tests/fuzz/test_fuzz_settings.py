"""Configurations: damaged YAML, and any value anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import strategies as st

from fuzzing import answers, damaged, fuzzed, written
from subgraft.config.configfile import load
from subgraft.config.experiment import Experiment

pytestmark = pytest.mark.slow

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))
sound = st.sampled_from([path.read_text(encoding="utf-8") for path in CONFIGS])


@fuzzed(3000, text=damaged(sound))
def test_a_damaged_configuration_is_read_or_refused(text: str, tmp_path: Path) -> None:
    config = written(tmp_path / "config.yaml", text)
    with answers():
        load(config, Experiment)
