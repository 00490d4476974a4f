"""An autoscaling cluster on this machine: Ray's autoscaler at work, its nodes processes that claim to have GPUs."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

import subgraft
from ray_heads import Head, free_ports, head, own_address

PROVIDER = "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider"
HEAD = "ray.head.default"  # as Ray's provider of fake nodes calls it
HEAD_ID = "f" * 51 + "00000"
# What Ray's validation asks of any cluster, and a fake one does not use.
UNUSED: dict[str, Any] = {
    **{name: {} for name in ("auth", "docker", "file_mounts")},
    **{name: [] for name in ("cluster_synced_files", "rsync_exclude", "rsync_filter", "initialization_commands")},
    **{
        f"{when}_commands": [] for when in ("setup", "head_setup", "worker_setup", "head_start_ray", "worker_start_ray")
    },
    "file_mounts_sync_continuously": False,
}
OBJECT_STORE = 80_000_000


@contextmanager
def fake_cluster(description: Path, *, idle_minutes: float) -> Iterator[Head]:
    """The node types of a cluster's description, as fake nodes of two cores. idle_minutes: in place of its own."""
    port = free_ports(1)[0]
    environment = {
        "RAY_FAKE_CLUSTER": "1",
        "AUTOSCALER_UPDATE_INTERVAL_S": "1",
        # `ray up` starts the second version of the autoscaler.
        "RAY_enable_autoscaler_v2": "1",
        "RAY_CLOUD_INSTANCE_ID": HEAD_ID,
        "RAY_OVERRIDE_NODE_ID_FOR_TESTING": HEAD_ID,
        "PYTHONPATH": str(Path(subgraft.__file__).parent.parent),
    }
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(_faked(YAML(typ="safe").load(description), port, idle_minutes), file)
        file.flush()
        options = ("--num-cpus=0", f"--autoscaling-config={file.name}")
        with head(*options, environment=environment, port=port) as up:
            yield up


def _faked(cluster: dict[str, Any], port: int, idle_minutes: float) -> dict[str, Any]:
    types: dict[str, Any] = {HEAD: {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0}}
    for name, node in cluster["available_node_types"].items():
        if name != cluster["head_node_type"]:
            resources = {**node["resources"], "CPU": 2, "object_store_memory": OBJECT_STORE}
            limits = {limit: node[limit] for limit in ("min_workers", "max_workers")}
            types[name] = {"resources": resources, "node_config": {}, **limits}
    settings = {"gcs_address": f"{own_address()}:{port}", "head_node_id": HEAD_ID, "launch_multiple": True}
    # All nodes have this machine's address, and nothing is to be installed on them.
    settings |= dict.fromkeys(("use_node_id_as_ip", "disable_node_updaters", "disable_launch_config_check"), True)
    return {
        "cluster_name": "fake",
        "max_workers": cluster["max_workers"],
        "upscaling_speed": cluster["upscaling_speed"],
        "idle_timeout_minutes": idle_minutes,
        # Not as `fake_multinode`: the defaults of that type are not in Ray's wheel.
        "provider": {"type": "external", "module": PROVIDER, **settings},
        "available_node_types": types,
        "head_node_type": HEAD,
        **UNUSED,
    }
