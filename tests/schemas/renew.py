"""Writes crds.json: the schemas of the custom resources in k8s/, as KubeRay and Kueue publish them.

    python tests/schemas/renew.py KUBERAY KUEUE     clones of ray-project/kuberay and kubernetes-sigs/kueue

Both are under the Apache License 2.0. Descriptions are left out. A pod's template is any object there: KubeRay repeats
all of Kubernetes' own schema, which the test has from elsewhere. An object has no other fields than those named, as
`kubectl apply` sees it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

# A clone's tag, where its definitions are, and of which kinds, in which version.
SOURCES = {
    "kuberay": ("v1.6.2", "ray-operator/config/crd/bases/ray.io_{}.yaml", ("rayclusters", "rayjobs"), "v1"),
    "kueue": (
        "v0.16.9",
        "config/components/crd/bases/kueue.x-k8s.io_{}.yaml",
        ("clusterqueues", "localqueues", "resourceflavors"),
        "v1beta2",
    ),
}


def schemas(clone: Path, tag: str, path: str, kinds: tuple[str, ...], wanted: str) -> dict[str, Any]:
    """By apiVersion and kind."""
    results = {}
    for kind in kinds:
        command = ["git", "-C", str(clone), "show", f"{tag}:{path.format(kind)}"]
        definition = YAML(typ="safe").load(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        spec = definition["spec"]
        for version in spec["versions"]:
            if version["name"] == wanted:
                name = f"{spec['group']}/{version['name']}/{spec['names']['kind']}"
                results[name] = _plain(version["schema"]["openAPIV3Schema"], top=True)
    return results


def _plain(schema: Any, top: bool = False) -> Any:
    """A schema as JSON Schema has it."""
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    properties = schema.get("properties", {})
    if "containers" in properties.get("spec", {}).get("properties", {}):
        return {"type": "object"}
    plain = {name: _plain(one) for name, one in schema.items() if name not in ("description", "properties", "format")}
    plain = {name: one for name, one in plain.items() if not name.startswith("x-kubernetes-")}
    if properties:
        plain["properties"] = {name: _plain(one) for name, one in properties.items() if not (top and name == "status")}
        if "x-kubernetes-preserve-unknown-fields" not in schema:
            plain["additionalProperties"] = False
    if top:
        plain["properties"]["metadata"] = {"type": "object"}
    return plain


def main(kuberay: str, kueue: str) -> None:
    results: dict[str, Any] = {"sources": {name: f"{tag}:{path}" for name, (tag, path, *_) in SOURCES.items()}}
    for clone, source in zip((kuberay, kueue), SOURCES.values(), strict=True):
        results |= schemas(Path(clone), *source)
    written = json.dumps(results, indent=1, sort_keys=True)
    Path(__file__).with_name("crds.json").write_text(f"{written}\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
