"""The manifests for Kubernetes have only fields that KubeRay and Kueue document, and say what a run needs.

No cluster and no schema is at hand here. The tables below are the fields that the manifests use, copied from the
references of ray.io/v1 (KubeRay 1.6), kueue.x-k8s.io/v1beta2 (Kueue 0.16) and v1 (Kubernetes); a field that is not in
its table is a spelling mistake, or needs looking up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import ray
from ruamel.yaml import YAML

Manifest = dict[str, Any]

RESOURCES = {"requests": dict, "limits": dict}
CONTAINER = {"name": str, "image": str, "env": [{"name": str, "value": str}], "resources": RESOURCES}
CONTAINER |= {"volumeMounts": [{"name": str, "mountPath": str}]}
POD = {
    "securityContext": {"fsGroup": int},
    "tolerations": [{"key": str, "operator": str, "effect": str}],
    "containers": [CONTAINER],
    "volumes": [{"name": str, "persistentVolumeClaim": {"claimName": str}}],
}
GROUP: dict[str, Any] = {"rayStartParams": dict, "template": {"spec": POD}}
WORKERS = {**GROUP, "groupName": str, "replicas": int, "minReplicas": int, "maxReplicas": int}
CLUSTER = {
    "rayVersion": str,
    "authOptions": {"mode": str},
    "enableInTreeAutoscaling": bool,
    "autoscalerOptions": {"idleTimeoutSeconds": int},
    "headGroupSpec": {**GROUP, "serviceType": str},
    "workerGroupSpecs": [WORKERS],
}
JOB = {
    "entrypoint": str,
    "shutdownAfterJobFinishes": bool,
    "ttlSecondsAfterFinished": int,
    "backoffLimit": int,
    "rayClusterSpec": CLUSTER,
}
QUOTA = {"coveredResources": [str], "flavors": [{"name": str, "resources": [{"name": str, "nominalQuota": str}]}]}
QUEUE = {"namespaceSelector": dict, "queueingStrategy": str, "resourceGroups": [QUOTA]}
CLAIM = {"accessModes": [str], "storageClassName": str, "resources": {"requests": dict}}
SPECS: dict[tuple[str, str], Any] = {
    ("ray.io/v1", "RayCluster"): CLUSTER,
    ("ray.io/v1", "RayJob"): JOB,
    ("kueue.x-k8s.io/v1beta2", "ResourceFlavor"): {},
    ("kueue.x-k8s.io/v1beta2", "ClusterQueue"): QUEUE,
    ("kueue.x-k8s.io/v1beta2", "LocalQueue"): {"clusterQueue": str},
    ("v1", "PersistentVolumeClaim"): CLAIM,
}
METADATA = {"name": str, "namespace": str, "labels": dict}


def _manifests(repository: Path) -> dict[str, Manifest]:
    found: dict[str, Manifest] = {}
    for path in sorted((repository / "k8s").glob("*.yaml")):
        for manifest in YAML(typ="safe").load_all(path):
            found[manifest["kind"]] = manifest
    return found


@pytest.fixture
def manifests(repository: Path) -> dict[str, Manifest]:
    """Every object, by kind; there is one of each."""
    return _manifests(repository)


def _amiss(value: Any, form: Any, where: str) -> Iterator[str]:
    """Where a value has a field or a type that its form does not have."""
    if isinstance(form, type):
        if type(value) is not form:
            yield f"{where}: {type(value).__name__}, not {form.__name__}"
    elif isinstance(form, list):
        for place, one in enumerate(value):
            yield from _amiss(one, form[0], f"{where}[{place}]")
    else:
        for name, one in value.items():
            if name in form:
                yield from _amiss(one, form[name], f"{where}.{name}")
            else:
                yield f"{where}.{name} is not documented"


def _problems(manifest: Mapping[str, Any]) -> list[str]:
    form = SPECS[manifest["apiVersion"], manifest["kind"]]
    whole = {"apiVersion": str, "kind": str, "metadata": METADATA, "spec": form}
    return list(_amiss(manifest, whole, manifest["kind"]))


def test_every_field_is_documented(manifests: dict[str, Manifest]) -> None:
    assert {kind for _, kind in SPECS} == set(manifests)
    assert [problem for manifest in manifests.values() for problem in _problems(manifest)] == []


def test_a_mistake_is_found(manifests: dict[str, Manifest]) -> None:
    job = manifests["RayJob"]
    assert _problems({**job, "spec": {**job["spec"], "shutDownAfterJobFinishes": True}})
    assert _problems({**job, "spec": {**job["spec"], "backoffLimit": "2"}})


def _clusters(manifests: dict[str, Manifest]) -> list[Manifest]:
    return [manifests["RayCluster"]["spec"], manifests["RayJob"]["spec"]["rayClusterSpec"]]


def _pods(cluster: Manifest) -> list[Manifest]:
    return [group["template"]["spec"] for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]


def test_the_head_does_no_work_and_asks_for_a_token(manifests: dict[str, Manifest]) -> None:
    for cluster in _clusters(manifests):
        assert cluster["headGroupSpec"]["rayStartParams"] == {"num-cpus": "0"}
        assert cluster["authOptions"] == {"mode": "token"}
        assert cluster["rayVersion"] == ray.__version__
        assert cluster["headGroupSpec"].get("serviceType", "ClusterIP") == "ClusterIP", "reachable from outside"


def test_every_pod_has_the_store_on_the_shared_claim(manifests: dict[str, Manifest]) -> None:
    claim = manifests["PersistentVolumeClaim"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    for pod in (pod for cluster in _clusters(manifests) for pod in _pods(cluster)):
        (container,) = pod["containers"]
        (volume,), (mount,) = pod["volumes"], container["volumeMounts"]
        environment = {one["name"]: one["value"] for one in container["env"]}
        assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
        assert volume["name"] == mount["name"]
        assert environment["SUBGRAFT_HOME"].startswith(f"{mount['mountPath']}/")


def test_the_cluster_that_stays_grows_from_zero(manifests: dict[str, Manifest]) -> None:
    cluster = manifests["RayCluster"]["spec"]
    assert cluster["enableInTreeAutoscaling"]
    for group in cluster["workerGroupSpecs"]:
        assert group["replicas"] == group["minReplicas"] == 0 < group["maxReplicas"]


def test_the_queued_job_is_what_kueue_takes_and_fits_its_quota(manifests: dict[str, Manifest]) -> None:
    """Kueue's rules: the cluster ends with the job, does not scale itself, and has at most seven groups of workers."""
    job, queue = manifests["RayJob"], manifests["LocalQueue"]
    cluster = job["spec"]["rayClusterSpec"]
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == queue["metadata"]["name"]
    assert job["metadata"]["namespace"] == queue["metadata"]["namespace"]
    assert queue["spec"]["clusterQueue"] == manifests["ClusterQueue"]["metadata"]["name"]
    assert job["spec"]["shutdownAfterJobFinishes"] and "enableInTreeAutoscaling" not in cluster
    assert len(cluster["workerGroupSpecs"]) <= 7
    (quota,) = manifests["ClusterQueue"]["spec"]["resourceGroups"]
    (flavor,) = quota["flavors"]
    assert flavor["name"] == manifests["ResourceFlavor"]["metadata"]["name"]
    there = {one["name"]: _amount(one["nominalQuota"]) for one in flavor["resources"]}
    assert set(there) == set(quota["coveredResources"])
    for resource, amount in there.items():
        groups = ((1, cluster["headGroupSpec"]), *((group["replicas"], group) for group in cluster["workerGroupSpecs"]))
        wanted = sum(count * _requested(group, resource) for count, group in groups)
        assert 0 < wanted <= amount, resource


def _requested(group: Manifest, resource: str) -> float:
    (container,) = group["template"]["spec"]["containers"]
    return _amount(container["resources"]["requests"].get(resource, "0"))


def _amount(quantity: str) -> float:
    number, unit = re.fullmatch(r"(\d+)(Gi)?", quantity).groups()  # type: ignore[union-attr]
    return float(number) * (2**30 if unit else 1)


def test_the_job_is_one_that_the_image_has(manifests: dict[str, Manifest], repository: Path) -> None:
    image = (repository / "k8s" / "Dockerfile").read_text(encoding="utf-8")
    (root,) = re.findall(r"^COPY .* \. (\S+)$", image, flags=re.MULTILINE)
    python, job, config, *_ = manifests["RayJob"]["spec"]["entrypoint"].split()
    assert python == "python"
    for path in (job, config):
        assert (repository / Path(path).relative_to(root)).is_file()
    assert f"FROM rayproject/ray:{ray.__version__}-py311-gpu" in image
