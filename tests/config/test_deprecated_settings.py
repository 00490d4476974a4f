"""A configuration of an earlier version is refused with every line to change, and the line to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.interfaces.cli import main

QUICKSTART = """\
name: quickstart
preset: small
languages: {source: en, target: de}
seeds: [1, 2]

corpora:
  everyday: {generated: everyday, limit: {train: 16000, dev: 100, test: 100}}
  law: {generated: law, limit: {train: 2500, dev: 100, test: 200}}

upstream:
  corpus: everyday
  vocabulary: {kind: unigram, size: 1200}
downstream:
  corpus: law
  vocabulary: {kind: unigram, size: 1200}

model: {d_model: 128, encoder_layers: 2, decoder_layers: 2, ffn_dim: 256}
pretrain: {epochs: 3, batch_size: 2000, learning_rate: 0.003, warmup_steps: 100, precision: fp32, dev_sentences: 50}
generator_training: {max_steps: 60, batch_size: 1500, precision: fp32}
finetune: {epochs: 3, batch_size: 6000, learning_rate: 0.002, warmup_steps: 30, precision: fp32, dev_sentences: 50}

rows:
  - {name: pretrain-finetune, vocabulary: upstream}
  - {name: random, initialiser: random}
  - {name: mean, initialiser: mean}
  - {name: avg, initialiser: avg}
  - {name: patt+kd, initialiser: patt, kd_weight: 0.5}

evaluation: {speed_sentences: 32, speed_repeats: 2}
runtime: {pretrain_cpus: 2, evaluate_cpus: 2}
"""

TABLE3_BERT = """\
name: table3-bert
preset: small
languages: {source: en, target: fr}
seeds: [1]
sides: [decoder]

corpora:
  everyday: {folder: en-fr/tatoeba}
  itdocs: {folder: en-fr/itdocs}
cleaning: {max_characters: 500}

upstream:
  corpus: everyday
  objective: masked
  masking: {sentences_per_document: 8}
  vocabulary: {kind: wordpiece, size: 12000}
downstream:
  corpus: itdocs
  vocabulary: {kind: wordpiece, size: 8000}

model: {family: bert, encoder_layers: 3, decoder_layers: 3, attention_dropout: 0.1}
pretrain: {epochs: 6, label_smoothing: 0.0}

rows:
  - {name: without, vocabulary: upstream}
  - {name: mean, initialiser: mean}
  - {name: patt+kd, initialiser: patt, kd_weight: 0.5}

evaluation: {speed_sentences: 64}
runtime: {pretrain_cpus: 2, evaluate_cpus: 2}
"""

TUNING = """\
name: tuning
languages: {source: en, target: fr}
corpora: {everyday: {folder: en-fr/tatoeba}, itdocs: {folder: en-fr/itdocs}}
upstream: {corpus: everyday}
downstream: {corpus: itdocs}
finetune:
  table_learning_rate: 4.0e-3
rows:
  - name: mean
    initialiser: mean
    table_learning_rate: 2.0e-3
search:
  rows: [mean]
  space:
    table_learning_rate: [1.0e-3, 4.0e-3]
"""


def lines_to_change(text: str) -> dict[int, str]:
    """Line numbers of the keys that the settings of today no longer have, with what is to be written there."""
    expected: dict[int, str] = {}
    today = Experiment.model_fields
    upstream = today["upstream"].annotation.model_fields  # type: ignore[union-attr]
    # What each key became, unless the settings of today still have it.
    table = {
        "rows:": None if "rows" in today else "`systems:",
        "objective:": None if "objective" in upstream else "`objectives: [{kind: ",
        "masking:": None if "masking" in upstream else "`objectives: [{kind: masked, ",
        "table_learning_rate:": "`embedding_learning_rate: ",
    }
    for number, line in enumerate(text.splitlines(), start=1):
        for key, now in table.items():
            if line.strip().startswith(key) and now:
                expected[number] = now
    return expected


@pytest.mark.parametrize("text", [QUICKSTART, TABLE3_BERT, TUNING])
def test_every_line_to_change_is_reported_at_once(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "before.yaml"
    config.write_text(text)
    expected = lines_to_change(text)
    if not expected:  # nothing in it was renamed: it is read as ever
        assert load(config, Experiment).name == text.split()[1]
        return
    assert main(["plan", str(config)]) == 2
    lines = [line for line in capsys.readouterr().err.removeprefix("subgraft: ").splitlines() if line]
    assert len(lines) == len(expected)
    for line, (number, now) in zip(lines, expected.items(), strict=True):
        assert line.startswith(f"{config}:{number}: ") and now in line, line


def test_the_line_to_write_has_the_value(tmp_path: Path) -> None:
    config = tmp_path / "before.yaml"
    config.write_text(QUICKSTART)
    with pytest.raises(UserError, match=r"override finetune\.table_learning_rate=0\.004: .*rate: 0\.004`"):
        load(config, Experiment, ["finetune.table_learning_rate=0.004"])


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("systems=[{name: one, initialiser: mean, attached: true}]", "tie_to_sources: true"),
        ("systems=[{name: one, initialiser: mean, tables_first: 0.5}]", "embeddings_only_fraction: 0.5"),
        ("systems=[{name: one, initialiser: mean, rows_first: copied}]", 'embedding_warmup: "copied"'),
        ("systems=[{name: one, initialiser: mean, keep_seen: false}]", "copy_shared_tokens: false"),
        ("rows_first_training={max_steps: 5}", "embedding_warmup_training:"),
        ("finetune.pairs=200", "max_train_examples: 200"),
        ("finetune.rare_tokens={below: 5}", "min_count: 5"),
        ("systems=[{name: one, initialiser: mean, rare_tokens: {pull: 2.0}}]", "l2_to_init: 2.0"),
        ("finetune.pairs_drawn=true", "resample_subset: true"),
        ("finetune.text_share=0.5", "monolingual_fraction: 0.5"),
        ("runtime.hang_seconds=60", "heartbeat_timeout: 60"),
    ],
)
def test_an_old_name_is_refused_with_the_line_to_write(override: str, line: str, repository: Path) -> None:
    with pytest.raises(UserError) as refused:
        load(repository / "configs" / "quickstart.yaml", Experiment, [override])
    assert f"no longer a setting; write `{line}`" in str(refused.value)


def test_a_setting_that_became_a_constant_is_refused_with_its_value(repository: Path) -> None:
    with pytest.raises(UserError, match="min_ngram: no longer a setting; remove it, its value is always 3"):
        load(repository / "configs" / "quickstart.yaml", Experiment, ["static_embeddings.min_ngram=2"])
