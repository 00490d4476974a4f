"""The descriptions of clusters pass Ray's own validation, and say what a run needs."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import ray
from ray.autoscaler._private.util import prepare_config, validate_config
from ray.autoscaler.tags import TAG_RAY_CLUSTER_NAME
from ruamel.yaml import YAML

Config = dict[str, Any]


CLUSTERS = ("cluster.yaml", "cluster-gcp.yaml")


@pytest.fixture(params=CLUSTERS)
def cluster(request: pytest.FixtureRequest, repository: Path) -> Config:
    config: Config = YAML(typ="safe").load(repository / request.param)
    return config


def _prepared(cluster: Config) -> Config:
    """As `ray up` sees it, before it asks a provider anything."""
    prepared: Config = prepare_config(copy.deepcopy(cluster))
    validate_config(prepared)
    return prepared


def test_ray_accepts_the_cluster(cluster: Config) -> None:
    prepared = _prepared(cluster)
    assert set(prepared["available_node_types"]) == {"head", "cpu", "gpu"}


def test_what_is_installed_has_the_versions_that_were_tested(repository: Path) -> None:
    for name in (*CLUSTERS, "k8s/Dockerfile"):
        text = (repository / name).read_text(encoding="utf-8").replace("\\\n", " ")
        commands = re.findall(r"^(?:RUN|  -) pip install (.*)$", text, flags=re.MULTILINE)
        assert commands, name
        for command in commands:
            assert "--constraint /home/ray/subgraft/constraints.txt" in command, command
            last = command.split()[-1]
            assert "/home/ray/subgraft[" in last or re.fullmatch(r"[\w-]+==[\d.]+", last), command


def test_the_validation_notices_mistakes(cluster: Config) -> None:
    with pytest.raises(jsonschema.ValidationError):
        _prepared({**cluster, "idle_timeout_minuts": 5})
    with pytest.raises(ValueError, match="head_node_type"):
        _prepared({**cluster, "head_node_type": "heed"})


def test_workers_come_and_go_and_the_head_does_no_work(cluster: Config) -> None:
    types = _prepared(cluster)["available_node_types"]
    assert types["head"]["resources"] == {"CPU": 0} and types["head"]["max_workers"] == 0
    workers = [types[name] for name in ("cpu", "gpu")]
    assert all(worker["min_workers"] == 0 < worker["max_workers"] for worker in workers)
    assert sum(worker["max_workers"] for worker in workers) <= cluster["max_workers"]
    assert types["gpu"]["resources"]["GPU"] == 1 and "GPU" not in types["cpu"]["resources"]
    assert cluster["idle_timeout_minutes"] >= 15, "a node that has just come up would be sent away between two stages"


def test_gpu_nodes_are_spot_nodes(repository: Path) -> None:
    aws, google = (YAML(typ="safe").load(repository / name)["available_node_types"]["gpu"] for name in CLUSTERS)
    assert aws["node_config"]["InstanceMarketOptions"] == {"MarketType": "spot"}
    assert google["node_config"]["scheduling"]["provisioningModel"] == "SPOT"


def test_both_clouds_get_the_same_cluster(repository: Path) -> None:
    """They differ in what is the provider's, and in nothing else."""
    aws, google = (YAML(typ="safe").load(repository / name) for name in CLUSTERS)
    assert aws.keys() == google.keys()
    differing = {name for name in aws if aws[name] != google[name]}
    assert differing == {"provider", "available_node_types", "initialization_commands", "head_setup_commands"}
    for name, node in aws["available_node_types"].items():
        other = google["available_node_types"][name]
        assert {**node, "node_config": None} == {**other, "node_config": None}


def test_every_container_has_the_store_and_asks_for_the_token(cluster: Config) -> None:
    prepared = _prepared(cluster)
    options = " ".join(prepared["docker"]["run_options"])
    home = re.search(r"--env SUBGRAFT_HOME=(\S+)", options)
    volume = re.search(r"--volume (\S+):(\S+)", options)
    assert home and volume and home[1].startswith(f"{volume[2]}/")
    mounts = [command for command in prepared["initialization_commands"] if "sudo mount -t nfs" in command]
    assert len(mounts) == 1 and mounts[0].endswith(f" {volume[1]}"), "not mounted"
    assert "--env RAY_AUTH_MODE=token" in options
    assert "/home/ray/.ray/auth_token" in prepared["file_mounts"]


def test_the_dashboard_listens_on_its_own_machine_only(cluster: Config) -> None:
    (start,) = [command for command in cluster["head_start_ray_commands"] if "ray start" in command]
    assert "--dashboard-host=127.0.0.1" in start


def test_the_images_have_the_ray_that_is_tested_here(cluster: Config) -> None:
    for image in (cluster["docker"]["head_image"], cluster["docker"]["worker_image"]):
        assert re.fullmatch(rf"rayproject/ray:{re.escape(ray.__version__)}-py311-[cg]pu@sha256:[0-9a-f]{{64}}", image)


def _nodes(repository: Path, name: str) -> dict[str, Config]:
    types: Config = _prepared(YAML(typ="safe").load(repository / name))["available_node_types"]
    return {node: kind["node_config"] for node, kind in types.items()}


def test_on_aws_ray_makes_no_role_and_no_security_group_of_its_own(repository: Path) -> None:
    """Its role would be AmazonEC2FullAccess and AmazonS3FullAccess, its group would let the world try SSH.

    Ray's launcher makes each only where the file does not name one (ray/autoscaler/_private/aws/config.py).
    """
    nodes = _nodes(repository, "cluster.yaml")
    assert "IamInstanceProfile" in nodes["head"]
    assert all("SecurityGroupIds" in node for node in nodes.values())


def test_on_aws_the_head_alone_has_a_role_and_disks_and_metadata_are_closed(repository: Path) -> None:
    nodes = _nodes(repository, "cluster.yaml")
    assert [name for name, node in nodes.items() if "IamInstanceProfile" in node] == ["head"]
    for node in nodes.values():
        assert node["MetadataOptions"]["HttpTokens"] == "required"
        assert node["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
        assert all(disk["Ebs"]["Encrypted"] for disk in node["BlockDeviceMappings"])
    commands = " ".join(YAML(typ="safe").load(repository / "cluster.yaml")["initialization_commands"])
    assert "verifyChain = yes" in commands and "checkHost = " in commands
    assert "127.0.0.1:/ /mnt/shared" in commands, "the file system is reached over TLS"


def test_the_heads_role_on_aws_is_for_nodes_of_this_cluster(repository: Path) -> None:
    """It may start what the file describes and end what bears the cluster's name; looking is all it may do at large."""
    cluster = YAML(typ="safe").load(repository / "cluster.yaml")
    statements = json.loads((repository / "cluster-aws-policy.json").read_text())["Statement"]
    granted = {action for statement in statements for action in statement["Action"]}
    assert granted == {"ec2:DescribeInstances", "ec2:RunInstances", "ec2:CreateTags", "ec2:TerminateInstances"}
    assert [one["Sid"] for one in statements if one["Resource"] == "*"] == ["LookAtInstances"]
    by_name = {one["Sid"]: one.get("Condition", {}) for one in statements}
    started = by_name["StartNodesOfThisCluster"]["StringEquals"]
    assert started[f"aws:RequestTag/{TAG_RAY_CLUSTER_NAME}"] == cluster["cluster_name"]
    assert by_name["TagAndEndNodesOfThisCluster"]["StringEquals"] == {
        f"aws:ResourceTag/{TAG_RAY_CLUSTER_NAME}": cluster["cluster_name"]
    }
    workers = [node for name, node in _nodes(repository, "cluster.yaml").items() if name != "head"]
    assert started["ec2:InstanceType"] == [node["InstanceType"] for node in workers]


def test_on_google_cloud_nodes_are_in_a_network_of_their_own_and_the_head_alone_has_an_account(
    repository: Path,
) -> None:
    """With a network for every node, Ray chooses none; the accounts of a node's type come before Ray's."""
    nodes = _nodes(repository, "cluster-gcp.yaml")
    for name, node in nodes.items():
        (network,) = node["networkInterfaces"]
        assert network["subnetwork"].endswith("/subnetworks/subgraft")
        assert len(node["serviceAccounts"]) == (name == "head")
    role = YAML(typ="safe").load(repository / "cluster-gcp-role.yaml")["includedPermissions"]
    assert all(permission.startswith("compute.") for permission in role)
    assert not [one for one in role if re.search(r"[Ii]am|firewall|setServiceAccount|projects", one)]
