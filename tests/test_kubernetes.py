"""The manifests are what KubeRay, Kueue and Kubernetes take, ask for no rights, and say what a run needs.

No cluster is at hand here. Kubernetes' own schemas are those of kubernetes-validate; KubeRay's and Kueue's, which no
registry of packages carries, are in tests/schemas. An unknown field is a mistake, as `kubectl apply` has it.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import ray
from ruamel.yaml import YAML

Manifest = dict[str, Any]

KUBERNETES = "1.34"
CUSTOM: Mapping[str, Any] = json.loads((Path(__file__).with_name("schemas") / "crds.json").read_text(encoding="utf-8"))
NAMESPACE = "subgraft"
DIGEST = re.compile(r"\S+@sha256:[0-9a-f]{64}")


@pytest.fixture
def objects(repository: Path) -> list[Manifest]:
    """Every object of every file."""
    files = sorted((repository / "k8s").glob("*.yaml"))
    return [manifest for path in files for manifest in YAML(typ="safe").load_all(path)]


@pytest.fixture
def manifests(objects: list[Manifest]) -> dict[str, Manifest]:
    """By kind, of which there is one of each but for the policies of the network."""
    return {manifest["kind"]: manifest for manifest in objects}


def _check(manifest: Manifest) -> None:
    """Raises jsonschema.ValidationError, of which kubernetes_validate's is one."""
    schema = CUSTOM.get(f"{manifest['apiVersion']}/{manifest['kind']}")
    if schema is None:
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
        return
    jsonschema.validate(manifest, schema)
    for pod in _pods(manifest):
        kubernetes_validate.validate(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": pod}, KUBERNETES, strict=True
        )


def _pods(manifest: Manifest) -> list[Manifest]:
    """The parts of a custom resource: head, workers, and the pod that submits a job."""
    if manifest["kind"] == "RayJob":
        submitter: Manifest = manifest["spec"]["submitterPodTemplate"]["spec"]
        return [submitter, *_of_cluster(manifest["spec"]["rayClusterSpec"])]
    return _of_cluster(manifest["spec"]) if manifest["kind"] == "RayCluster" else []


def _of_cluster(cluster: Manifest) -> list[Manifest]:
    return [group["template"]["spec"] for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]


def test_every_object_is_what_its_schema_says(objects: list[Manifest]) -> None:
    assert len(objects) >= 12
    for manifest in objects:
        _check(manifest)


# Of which kind of object, where in it, and what somebody may write there by mistake.
WORKER = ("spec", "workerGroupSpecs", 0, "template", "spec")
MISTAKES: tuple[tuple[str, tuple[str | int, ...], Manifest], ...] = (
    ("RayJob", ("spec",), {"shutDownAfterJobFinishes": True}),
    ("RayJob", ("spec",), {"backoffLimit": "2"}),
    ("RayJob", ("spec", "submitterPodTemplate", "spec"), {"restartpolicy": "Never"}),
    ("RayCluster", WORKER, {"runAsNonRoot": True}),
    ("RayCluster", (*WORKER, "containers", 0, "securityContext"), {"capabilities": ["ALL"]}),
    ("ClusterQueue", ("spec",), {"quota": 1}),
    ("NetworkPolicy", ("spec",), {"egres": []}),
    ("PersistentVolumeClaim", ("spec",), {"storage": "1Gi"}),
)


@pytest.mark.parametrize(("kind", "place", "mistake"), MISTAKES)
def test_a_mistake_is_found(
    kind: str, place: tuple[str | int, ...], mistake: Manifest, manifests: dict[str, Manifest]
) -> None:
    manifest = copy.deepcopy(manifests[kind])
    there: Any = manifest
    for name in place:
        there = there[name]
    there.update(mistake)
    with pytest.raises(jsonschema.ValidationError):
        _check(manifest)


def test_all_of_it_is_in_one_namespace_that_admits_confined_pods_alone(objects: list[Manifest]) -> None:
    """A ClusterQueue and a ResourceFlavor are of the whole cluster; the quota is for this namespace."""
    results = {manifest["kind"]: manifest for manifest in objects}
    assert results["Namespace"]["metadata"]["name"] == NAMESPACE
    assert results["Namespace"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for manifest in objects:
        if manifest["kind"] not in ("Namespace", "ClusterQueue", "ResourceFlavor"):
            assert manifest["metadata"]["namespace"] == NAMESPACE, manifest["kind"]
    selector = results["ClusterQueue"]["spec"]["namespaceSelector"]
    assert selector == {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}


def test_no_pod_is_root_or_could_become_it(manifests: dict[str, Manifest]) -> None:
    """What Kubernetes' profile `restricted` asks of ours, and of the container that KubeRay adds to the head."""
    pods = [pod for kind in ("RayCluster", "RayJob") for pod in _pods(manifests[kind])]
    added = manifests["RayCluster"]["spec"]["autoscalerOptions"]["securityContext"]
    for pod in pods:
        user = pod["securityContext"]
        assert user["runAsNonRoot"] and user["runAsUser"] != 0
        assert user["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        assert all("hostPath" not in volume for volume in pod.get("volumes", []))
    for confined in (added, *(container["securityContext"] for pod in pods for container in pod["containers"])):
        assert confined == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def test_only_the_head_that_asks_for_pods_has_a_service_account(manifests: dict[str, Manifest]) -> None:
    head, *workers = _pods(manifests["RayCluster"])
    assert "automountServiceAccountToken" not in head and "serviceAccountName" not in head
    for pod in (*workers, *_pods(manifests["RayJob"])):
        assert pod["automountServiceAccountToken"] is False and "serviceAccountName" not in pod


def test_every_image_is_named_by_its_digest(manifests: dict[str, Manifest], repository: Path) -> None:
    for pod in (pod for kind in ("RayCluster", "RayJob") for pod in _pods(manifests[kind])):
        assert all(DIGEST.fullmatch(container["image"]) for container in pod["containers"])
    (base,) = re.findall(r"^FROM (\S+)$", (repository / "k8s" / "Dockerfile").read_text(), flags=re.MULTILINE)
    assert DIGEST.fullmatch(base)


def test_nobody_talks_to_anybody_but_for_the_allowed_connections(
    objects: list[Manifest], manifests: dict[str, Manifest]
) -> None:
    policies = {one["metadata"]["name"]: one["spec"] for one in objects if one["kind"] == "NetworkPolicy"}
    assert policies["nobody"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    for name, policy in policies.items():
        for peers in [rule["from"] for rule in policy.get("ingress", [])]:
            assert peers and all("podSelector" in peer and "ipBlock" not in peer for peer in peers), name
    open_to_all = [name for name, policy in policies.items() if "ipBlock" in json.dumps(policy)]
    assert open_to_all == ["autoscaler"]
    cluster = policies["autoscaler"]["podSelector"]["matchLabels"]["ray.io/cluster"]
    assert cluster == manifests["RayCluster"]["metadata"]["name"]
    (submitter,) = policies["submitter"]["podSelector"]["matchLabels"].items()
    assert submitter in manifests["RayJob"]["spec"]["submitterPodTemplate"]["metadata"]["labels"].items()


def _clusters(manifests: dict[str, Manifest]) -> list[Manifest]:
    return [manifests["RayCluster"]["spec"], manifests["RayJob"]["spec"]["rayClusterSpec"]]


def test_the_head_does_no_work_and_asks_for_a_token(manifests: dict[str, Manifest]) -> None:
    for cluster in _clusters(manifests):
        assert cluster["headGroupSpec"]["rayStartParams"] == {"num-cpus": "0"}
        assert cluster["authOptions"] == {"mode": "token"}
        assert cluster["rayVersion"] == ray.__version__
        assert cluster["headGroupSpec"].get("serviceType", "ClusterIP") == "ClusterIP", "reachable from outside"


def test_every_pod_has_the_store_on_the_shared_claim(manifests: dict[str, Manifest]) -> None:
    claim = manifests["PersistentVolumeClaim"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    for pod in (pod for cluster in _clusters(manifests) for pod in _of_cluster(cluster)):
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
        wanted = sum(count * _requested(group["template"], resource) for count, group in groups)
        wanted += _requested(job["spec"]["submitterPodTemplate"], resource)
        assert 0 < wanted <= amount, resource


def _requested(template: Manifest, resource: str) -> float:
    (container,) = template["spec"]["containers"]
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
    assert f"FROM rayproject/ray:{ray.__version__}-py311-gpu@sha256:" in image
