"""Settings with comments as YAML."""

from __future__ import annotations

import yaml

from subgraft.experiments.fit.commented_yaml import Commented, plain, to_yaml

SETTINGS = {
    "name": "a: 'b' # c",
    "seeds": [1, 2],
    "cleaning": {"max_ratio": None},
    "corpora": Commented({"task": {"folder": "é/ß"}, "other": Commented({"folder": "o"}, "not # trained on")}, "split"),
    "systems": [{"name": "old", "learning_rate": 5e-05}, Commented({"name": "new"}, "its own")],
    "finetune": {"epochs": None, "batch_size": Commented(2000, "characters"), "rates": [0.1, 1e-6]},
    "text": {"target": ["x" * 200]},
}


def test_every_value_is_read_back_and_every_comment_is_there() -> None:
    text = to_yaml(SETTINGS)
    assert yaml.safe_load(text) == plain(SETTINGS)
    for line in (
        "corpora:   # split",
        "  other: {folder: o}   # not # trained on",
        "  - {name: new}   # its own",
        "  batch_size: 2000   # characters",
        "cleaning: {max_ratio: null}",
    ):
        assert line in text.splitlines(), text
