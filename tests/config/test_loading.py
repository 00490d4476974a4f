"""Configurations: what is read, and how every mistake is reported with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field, model_validator

from subgraft.base.errors import UserError
from subgraft.config.loading import load
from subgraft.config.settings_base import Settings
from subgraft.config.vocabularies import VocabularySettings
from subgraft.data.sources.registry import CorpusSource


class Constant(Settings):
    kind: Literal["constant"]
    rate: float


class InverseSquareRoot(Settings):
    kind: Literal["inverse_square_root"]
    peak: float
    warm_up: Annotated[int, Field(ge=0)] = 100


class Training(Settings):
    learning_rate: Annotated[float, Field(gt=0)] = 1e-3
    steps: int = 10
    shuffle: bool = True
    precision: Literal["fp32", "bf16"] = "fp32"
    schedule: Annotated[Constant | InverseSquareRoot, Field(discriminator="kind")] | None = None

    @model_validator(mode="after")
    def _short(self) -> Training:
        if self.steps > 1000:
            raise ValueError("at most 1000 steps")
        if not self.shuffle and self.schedule is not None:
            raise ValueError("schedule.kind needs shuffled text")
        return self


class Whole(Settings):
    language: str
    training: Training
    schedules: Annotated[
        tuple[Annotated[Constant | InverseSquareRoot, Field(discriminator="kind")], ...], Field(min_length=1)
    ] = (Constant(kind="constant", rate=0.1),)
    corpora: tuple[CorpusSource, ...] = ()
    shares: dict[str, float] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _as_experiments_do(cls, data: object) -> object:
        return dict(data) if isinstance(data, dict) else data


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def mistakes(path: Path, *overrides: str) -> list[str]:
    with pytest.raises(UserError) as caught:
        load(path, Whole, overrides)
    assert caught.value.exit_code == 2
    return [line.replace(f"{path}:", "") for line in str(caught.value).splitlines()]


GOOD = "language: no\ntraining:\n  learning_rate: 1e-4\n  steps: 5\n"


def test_yaml_1_2_values_keep_their_meaning(tmp_path: Path) -> None:
    whole = load(write(tmp_path, GOOD + "shares: {no: 1, yes: 0.5}\n"), Whole)
    assert whole.language == "no"
    assert whole.training.learning_rate == 1e-4
    assert whole.shares == {"no": 1.0, "yes": 0.5}


def test_dates_stay_text_and_lists_become_tuples(tmp_path: Path) -> None:
    text = GOOD.replace("no", "2020-01-01", 1) + "corpora:\n- files: {train: [a, b]}\n- generated: law\n"
    whole = load(write(tmp_path, text), Whole)
    assert whole.language == "2020-01-01"
    assert whole.corpora[0].files == {"train": ("a", "b")}


def test_every_mistake_at_once_with_its_line(tmp_path: Path) -> None:
    text = (
        "training:\n"
        "  learning_rat: 1\n"
        "  steps: many\n"
        "  shuffle: no\n"
        "  precision: bf15\n"
        "  steps: 4\n"
        "corpora:\n"
        "  - generated: everday\n"
        "  - {}\n"
    )
    assert mistakes(write(tmp_path, text)) == [
        "1: language: required, but not given",
        "2: training.learning_rat: unknown field; did you mean 'learning_rate'?",
        '3: training.steps: expected a whole number, found "many"',
        '4: training.shuffle: expected true or false, found "no"',
        "5: training.precision: expected 'fp32' or 'bf16', found \"bf15\"; did you mean 'bf16'?",
        "6: training.steps: given twice (first on line 3)",
        "8: corpora.0.generated: expected 'everyday' or 'law', found \"everday\"; did you mean 'everyday'?",
        "9: corpora.1: give exactly one of generated, folder, files, urls, mtdata, squad, columns, bilingual, "
        "together, records, conversations, labelled, features, verses, plain, texts (given: none)",
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('  steps: "5"', '3: training.steps: expected a whole number, found "5"'),
        ("  steps: 2.5", "3: training.steps: expected a whole number, found 2.5"),
        ("  steps: true", "3: training.steps: expected a whole number, found true"),
        ("  steps:", "3: training.steps: expected a whole number, found null"),
        ("  steps: 2000", "2: training: at most 1000 steps"),
        ("  learning_rate: 0", "3: training.learning_rate: expected greater than 0, found 0"),
        ("  learning_rate: fast", '3: training.learning_rate: expected a number, found "fast"'),
        ("  zzz: 1", "3: training.zzz: unknown field; known: "),
        ("  lr: 1", "3: training.lr: unknown field; did you mean 'learning_rate'?"),
        ("  learn: 1", "3: training.learn: unknown field; did you mean 'learning_rate'?"),
        ("  s: 1", "3: training.s: unknown field; known: "),
        ("  schedule: {kind: constant, rte: 1}", "3: training.schedule.rate: required, but not given"),
        ("  schedule: {kind: constant, rte: 1}", "3: training.schedule.rte: unknown field; did you mean 'rate'?"),
        ("  schedule: {kind: inverse_square_root, peak: 1, warm_up: -1}", "3: training.schedule.warm_up: expected"),
        (
            "  schedule: {kind: cosine}",
            "3: training.schedule.kind: expected 'constant' or 'inverse_square_root', found",
        ),
        ("  steps: !!python/object:os.system x", "3: training.steps: the tag "),
        ("  [1, 2]: 3", "3: training: a key must be plain text"),
        ("  schedule: &a {kind: constant, rate: *a}", "an alias to a value that contains it"),
    ],
)
def test_one_mistake(tmp_path: Path, line: str, message: str) -> None:
    lines = mistakes(write(tmp_path, f"language: de\ntraining:\n{line}\n"))
    assert any(message in one for one in lines), lines


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("language: de\ntraining: [1\nsteps: 2\n", "3: not YAML: "),
        ("language: de\n\tsteps: 2\n", "2: not YAML: "),
        ("language: 'de\n", "not YAML: "),
        ("language: de\n---\nlanguage: fr\n", "2: not YAML: expected a single document"),
        ("language: de\ntraining: \x01\n", "2: not YAML: a control character is not allowed"),
        ("language: *nowhere\n", "1: not YAML: found undefined alias"),
        ("", "1: language: required, but not given"),
        ("- 1\n", "1: expected a mapping of names to values, found [1]"),
    ],
)
def test_broken_yaml(tmp_path: Path, text: str, message: str) -> None:
    assert message in mistakes(write(tmp_path, text))[0]


def test_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    assert "no such configuration file" in mistakes(tmp_path / "config.yaml")[0]
    assert "this is a folder" in mistakes(tmp_path)[0]
    (tmp_path / "latin.yaml").write_bytes(b"language: de\nname: caf\xe9\n")
    with pytest.raises(UserError, match=r"latin\.yaml:2: not UTF-8"):
        load(tmp_path / "latin.yaml", Whole)


def test_overrides_replace_create_and_index(tmp_path: Path) -> None:
    path = write(tmp_path, "language: de\ntraining: {steps: 3}\ncorpora:\n- generated: law\n")
    whole = load(
        path,
        Whole,
        [
            "training.learning_rate=1e-5",
            "training.schedule.kind=constant",
            "training.schedule.rate=2",
            "corpora.0={generated: everyday, limit: {train: 7}}",
            "language=no",
            "shares.a=0.5",
        ],
    )
    assert whole.language == "no"
    assert whole.training == Training(learning_rate=1e-5, steps=3, schedule=Constant(kind="constant", rate=2.0))
    assert whole.corpora[0].limit == {"train": 7}
    assert whole.shares == {"a": 0.5}


def test_a_list_is_not_too_short_because_its_items_are_wrong(tmp_path: Path) -> None:
    (said,) = mistakes(write(tmp_path, GOOD + "schedules: [{kind: constat, rate: 1.0}]\n"))
    assert said.endswith("found \"constat\"; did you mean 'constant'?")
    (said,) = mistakes(write(tmp_path, GOOD + "schedules: []\n"))
    assert said.endswith("schedules: expected a list of at least 1, found []")


def test_a_mistake_of_several_settings_is_at_the_one_that_it_names_first(tmp_path: Path) -> None:
    lines = "language: de\ntraining:\n  shuffle: false\n  schedule:\n    rate: 1.0\n    kind: constant\n"
    assert mistakes(write(tmp_path, lines)) == ["6: training: schedule.kind needs shuffled text"]


def test_an_override_mends_a_mistake_in_the_file(tmp_path: Path) -> None:
    assert load(write(tmp_path, GOOD.replace("5", "many")), Whole, ["training.steps=6"]).training.steps == 6


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.steps=many", 'training.steps: expected a whole number, found "many"'),
        ("training.stepz=1", "training.stepz: unknown field; did you mean 'steps'?"),
        ("training.steps", "expected key=value"),
        ("training..steps=1", "expected key=value"),
        ("training.steps=[1", "not YAML: "),
        ("training.steps.deep=1", "training.steps.deep: leads through a value"),
        ("corpora.3.generated=law", "corpora.3.generated: leads through a value"),
        ("training.schedule.kind=constant", "training.schedule.rate: required, but not given"),
        ("training={steps: 1, steps: 2}", "training.steps: given twice"),
    ],
)
def test_mistakes_in_overrides(tmp_path: Path, override: str, message: str) -> None:
    lines = mistakes(write(tmp_path, GOOD + "corpora:\n- generated: law\n"), override)
    assert len(lines) == 1
    assert lines[0].startswith(f"override {override}: {message}")


# Each was a traceback, or work without end.
ABSURD = {
    "!!bool maybe": "cannot be read: 'maybe'",
    "!!int many": "cannot be read: 'many'",
    ".inf": "cannot be read: '.inf'",
    "1e400": "cannot be read: '1e400'",
    "0x" + "f" * 4300: "cannot be read: '0xfff",
    "9" * 4301: "cannot be read: '999",
    "-9999999999999999999": "cannot be read: '-9999999999999999999'",
}


@pytest.mark.parametrize(("value", "message"), ABSURD.items(), ids=[value[:20] for value in ABSURD])
def test_a_number_that_nobody_means_is_refused_with_its_line(value: str, message: str, tmp_path: Path) -> None:
    (mistake,) = mistakes(write(tmp_path, GOOD.replace("steps: 5", f"steps: {value}")))
    assert mistake.startswith(f"4: training.steps: {message}")
    assert len(mistake) < 120
    (mistake,) = mistakes(write(tmp_path, GOOD), f"training.steps={value}")
    assert message in mistake


ALIASES = "".join(f"l{at}: &l{at} [{', '.join([f'*l{at - 1}'] * 9)}]\n" for at in range(1, 12))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 5000, "1: not YAML: values nested more than 64 deep"),
        ("{a: " * 5000, "1: not YAML: values nested more than 64 deep"),
        ("- " * 5000, "1: not YAML: values nested more than 64 deep"),
        ("l0: &l0 [x]\n" + ALIASES, "more than 100,000 values, with every alias (*) written out"),
        ("".join(f"l{at}: &l{at} [*l{at - 1}]\n" for at in range(1, 99)).replace("*l0", "x"), "nested more than 64"),
        ("# " + "x" * 1024**2, "a configuration of more than 1,048,576 bytes"),
    ],
    ids=["flow lists", "flow mappings", "lists", "aliases of aliases", "aliases in aliases", "long"],
)
def test_yaml_that_would_take_for_ever_is_refused_at_once(text: str, message: str, tmp_path: Path) -> None:
    config = write(tmp_path, text)
    (mistake,) = mistakes(config)
    assert message in mistake


def test_an_alias_that_is_used_honestly_is_read(tmp_path: Path) -> None:
    text = GOOD + "corpora:\n- files: &files {train: [a, b]}\n- files: *files\n"
    one, other = load(write(tmp_path, text), Whole).corpora
    assert one == other


def test_a_default_that_depends_on_a_mistake_is_not_reported_as_one(tmp_path: Path) -> None:
    """As byte_fallback does on a vocabulary's kind."""
    config = write(tmp_path, "kind: -1\nsize: 100\n")
    with pytest.raises(UserError) as caught:
        load(config, VocabularySettings)
    assert (
        str(caught.value) == f"{config}:1: kind: expected 'unigram', 'bpe', 'wordpiece' or 'byte-level-bpe', found -1"
    )
