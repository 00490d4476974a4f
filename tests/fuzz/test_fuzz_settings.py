"""Configurations: damaged YAML, any value anywhere, and what is planned of those that can be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from ruamel.yaml import YAML

from fuzzing import answers, any_text, any_value, damaged, evil, fuzzed, written
from subgraft.base.terminal import Terminal
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.yaml_tree import parse
from subgraft.experiments.session import Session
from subgraft.orchestration.execution.plan import table

pytestmark = pytest.mark.slow

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))
sound = st.sampled_from([path.read_text(encoding="utf-8") for path in CONFIGS])
# Its corpora are generated, so that it can be planned anywhere.
QUICKSTART = YAML(typ="safe").load(next(path for path in CONFIGS if path.stem == "quickstart"))
NUMBERS = st.sampled_from([-1, 0, 1, 2, 7, 1e-300, 0.5, 2**31 - 1, 2**31, 10**9, 10**18, 10**19, 1e300])


@fuzzed(1000, text=st.text(st.sampled_from("[]{}:,-#&*!|>'\"%@` \n\ta1.~?<"), max_size=60) | any_text | evil)
def test_any_text_is_yaml_or_refused(text: str, tmp_path: Path) -> None:
    with answers():
        parse(text, "any.yaml")
        load(written(tmp_path / "config.yaml", text), Experiment)


@fuzzed(2000, text=damaged(sound))
def test_a_damaged_configuration_is_read_or_refused(text: str, tmp_path: Path) -> None:
    with answers():
        load(written(tmp_path / "config.yaml", text), Experiment)


@fuzzed(1000, key=any_text, value=damaged(sound) | evil | any_text)
def test_an_override_is_taken_or_refused(key: str, value: str, tmp_path: Path) -> None:
    config = written(tmp_path / "config.yaml", CONFIGS[0].read_text(encoding="utf-8"))
    with answers():
        load(config, Experiment, [f"{key}={value}", f"finetune.epochs={value}"])


@st.composite
def changed(draw: st.DrawFn) -> Any:
    """The quickstart's settings with another value, or another key, at up to three places."""
    whole = json.loads(json.dumps(QUICKSTART))
    for _ in range(draw(st.integers(1, 3))):
        inside = whole
        while True:
            keys = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if not isinstance(inside[key], dict | list) or draw(st.integers(0, 5)) == 0:
                inside[key] = draw(NUMBERS | any_value)
                break
            inside = inside[key]
    return whole


@fuzzed(1500, settings=changed())
def test_any_settings_are_planned_or_refused(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBGRAFT_HOME", str(tmp_path / "home"))
    config = written(tmp_path / "config.yaml", json.dumps(settings))  # JSON is YAML
    with answers():
        session = Session(load(config, Experiment), tmp_path)
        planned = session.plan()
        with (tmp_path / "shown").open("w", encoding="utf-8") as shown:
            console = Terminal(file=shown)
            console.print(table(planned))
            console.print(session.estimates(planned) or "")
            for line in (*session.monolingual_text(), *session.unknown_tokens(), *session.warnings()):
                console.print(line)
