"""Jobs as docs/cluster.md has them, on a real Ray head: uploads, runs, output and scores."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from ray_heads import Head, head
from small_experiments import TINY, written

pytestmark = [pytest.mark.ray, pytest.mark.slow]

TEXTS = (("sources", "en"), ("references", "de"))
# As much as takes dev BLEU above the 0.00 that it begins with: else no model is registered.
LEARNING = "finetune={epochs: 8, batch_size: 500, learning_rate: 0.01, warmup_steps: 10, precision: fp32}"
IMPORTED = """
import platform, ray, subgraft
print("driver", subgraft.__file__)
print("worker", ray.get(ray.remote(lambda: __import__("subgraft").__file__).remote()))
print("system", platform.system())
"""


@pytest.fixture(scope="module")
def up() -> Iterator[Head]:
    with head("--num-cpus=2") as one:
        yield one


@pytest.fixture(scope="module")
def environment(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runtime environment of the repository with a place for the store, as a user may write one."""
    place = tmp_path_factory.mktemp("environment")
    described = YAML(typ="safe").load(repository / "runtime_env.yaml")
    described["env_vars"]["SUBGRAFT_HOME"] = str(place / "home")
    YAML().dump(described, place / "runtime_env.yaml")
    return place / "runtime_env.yaml"


def test_driver_and_workers_import_what_was_sent(repository: Path, up: Head) -> None:
    sent = up.job("submit", "--runtime-env", "runtime_env.yaml", "--", "python", "-c", IMPORTED, cwd=repository)
    assert sent.returncode == 0, sent.stdout
    result = dict(re.findall(r"^(driver|worker) (\S+)$", sent.stdout, flags=re.MULTILINE))
    assert result["driver"] == result["worker"]
    assert re.search(r"/working_dir_files/_ray_pkg_\w+/platform/subgraft/__init__\.py$", result["driver"])
    assert "system Linux" in sent.stdout, "the folder `platform` hides the standard library's module"


def test_a_job_that_would_lose_its_store_is_refused(repository: Path, up: Head) -> None:
    command = ("--runtime-env", "runtime_env.yaml", "--submission-id=lost", "--", "python", "jobs/run.py")
    lost = up.job("submit", *command, "configs/quickstart.yaml", cwd=repository)
    assert up.status("lost") == "FAILED"
    assert "SUBGRAFT_HOME: the store would be in the temporary working directory of a job" in lost.stdout


def test_an_experiment_and_its_evaluation(repository: Path, up: Head, environment: Path, tmp_path: Path) -> None:
    config = written(tmp_path, TINY)
    sending = ("submit", "--runtime-env", str(environment))
    job = (
        "--no-wait",
        "--submission-id=run",
        "--",
        "python",
        "jobs/run.py",
        str(config),
        "pretrain.epochs=1",
        LEARNING,
    )
    assert up.job(*sending, *job, cwd=repository).returncode == 0
    followed = up.job("logs", "--follow", "run")
    assert "[done]     report" in followed.stdout
    assert "succeeded" in up.job("status", "run").stdout
    assert up.status("run") == "SUCCEEDED"
    assert (environment.parent / "home" / "store" / "report").is_dir()

    texts = [f"--{kind}={tmp_path / 'downstream' / f'test.{code}'}" for kind, code in TEXTS]
    scoring = ("--entrypoint-num-cpus=1", "--", "python", "jobs/evaluate.py", "--model=models:/tiny-en-de@champion")
    scored = up.job(*sending, *scoring, *texts, "--languages=en-de", "--language=de", cwd=repository)
    assert scored.returncode == 0, scored.stdout
    assert re.search(r"^BLEU\t\d+\.\d\d\tnrefs:1\|.*\|tok:13a", scored.stdout, flags=re.MULTILINE), scored.stdout


def test_a_job_is_stopped(up: Head) -> None:
    assert up.job("submit", "--no-wait", "--submission-id=long", "--", "sleep", "600").returncode == 0
    stopped = up.job("stop", "long")
    assert (stopped.returncode, up.status("long")) == (0, "STOPPED"), stopped.stdout
