"""Names of other libraries that are not public: each is written down here, with the version that has it."""

from __future__ import annotations

import ast
import inspect
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Name:
    """A name of another library, who uses it, the release it was found in, and the parameters that it is given."""

    user: str
    release: str
    module: str
    attribute: str
    parameters: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.module}.{self.attribute}"


JOINING = ("backend", "world_rank", "world_size", "init_method", "timeout_s")
RAY, SACREBLEU, DEEPSPEED = "ray 2.60", "sacrebleu 2.6", "deepspeed 0.19"
UPLOAD, TER = "orchestration/execution/upload.py", "evaluation/metrics/calibration.py"
MEMORY = "faults/test_memory.py"
LOCAL, RENDEZVOUS, TRAIN = (
    "base/security/local_ray.py",
    "base/security/rendezvous.py",
    "ray.train.torch.config",
)
PACKAGE = ("target_path", "include_gitignore", "excludes", "logger")
ALIGNMENT = "sacrebleu.metrics.lib_ter"
NODES = "ray.autoscaler._private.fake_multi_node.node_provider"
ZERO = "deepspeed.runtime.zero.stage_1_and_2"
NAMES = (
    Name("orchestration/tracking/page.py", "mlflow 3.17", "mlflow.server.handlers", "_get_tracking_store"),
    Name(UPLOAD, RAY, "ray._private.runtime_env.packaging", "create_package", PACKAGE),
    Name(UPLOAD, RAY, "ray._private.ray_constants", "get_runtime_env_default_excludes"),
    Name(LOCAL, RAY, "ray._private", "ray_constants"),
    Name(LOCAL, RAY, "ray._private.ray_constants", "ENABLE_RAY_CLUSTER"),
    Name(
        "orchestration/execution/resources.py", RAY, "ray._private.accelerators", "get_accelerator_manager_for_resource"
    ),
    Name(RENDEZVOUS, RAY, TRAIN, "_TorchBackend"),
    Name(RENDEZVOUS, RAY, TRAIN, "_set_torch_distributed_env_vars"),
    Name(RENDEZVOUS, RAY, TRAIN, "_setup_torch_process_group", JOINING),
    Name(TER, SACREBLEU, ALIGNMENT, "BeamEditDistance", ("words_ref",)),
    Name(TER, SACREBLEU, ALIGNMENT, "trace_to_alignment", ("trace",)),
    Name(TER, SACREBLEU, ALIGNMENT, "_shift", ("words_h", "words_r", "cached_ed", "checked_candidates")),
    Name(TER, SACREBLEU, ALIGNMENT, "_flip_trace", ("trace",)),
    Name(TER, SACREBLEU, ALIGNMENT, "_MAX_SHIFT_CANDIDATES"),
    Name(
        "training/deepspeed_engine.py",
        *(DEEPSPEED, ZERO, "DeepSpeedZeroOptimizer._lazy_init_hp_params_optimizer_state"),
    ),
    Name("support/fake_clusters.py", RAY, NODES, "FakeMultiNodeProvider", ("provider_config", "cluster_name")),
    Name("test_cluster.py", RAY, "ray.autoscaler._private.util", "prepare_config", ("config",)),
    Name("test_cluster.py", RAY, "ray.autoscaler._private.util", "validate_config", ("config",)),
    Name(MEMORY, RAY, "ray._private.utils", "get_system_memory"),
    Name(MEMORY, RAY, "ray._private.utils", "get_used_memory"),
)
OWN = {"subgraft", "os", "sys", "__future__"}


@pytest.mark.parametrize("name", NAMES, ids=str)
def test_a_private_name_is_there(name: Name) -> None:
    library, release = name.release.split()
    installed = version(library)
    advice = (
        f"{name.user} relies on {name} of {name.release}, which is not public; {library} {installed} has changed it"
    )
    assert installed.startswith(f"{release}."), f"{advice}, or has not: look, and note its release here"
    try:
        result: Any = import_module(name.module)
        for attribute in name.attribute.split("."):
            result = getattr(result, attribute)
    except (ImportError, AttributeError):
        pytest.fail(advice)
    if name.parameters:
        assert set(name.parameters) <= set(inspect.signature(result).parameters), advice


def test_the_release_is_pinned(repository: Path) -> None:
    """Another release can come only with a change to pyproject.toml, where this test is run."""
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    stated = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    for library, release in {tuple(name.release.split()) for name in NAMES}:
        major, minor = release.split(".")
        (named,) = [one for one in stated if one.partition(">")[0].partition("[")[0] == library]
        assert named.endswith(f",<{major}.{int(minor) + 1}"), f"{named}: private names of {library} {release} are used"


def test_no_other_private_name_is_used(repository: Path) -> None:
    known = {(name.user, str(name)) for name in NAMES}
    roots = [repository / name for name in ("platform/subgraft", "tests", "jobs", "benchmarks", "studies")]
    used = {
        (path.relative_to(root).as_posix(), name)
        for root in roots
        for path in root.rglob("*.py")
        for name in _private_names(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert used, "nothing was looked at"
    assert used <= known


def _private_names(tree: ast.Module) -> Iterator[str]:
    """The names of other libraries with a part that begins with an underscore: imported, or read from an import."""
    imported: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    reads = (
        (node.value.id, node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    )
    read = (f"{imported[name]}.{attribute}" for name, attribute in reads if name in imported)
    for name in (*imported.values(), *read):
        parts = name.split(".")
        if parts[0] not in OWN and any(part.startswith("_") and not part.startswith("__") for part in parts):
            yield name
