"""The files in docker/, read."""

import re
import tomllib

import yaml

from pilotstudy import __version__
from tests.support.places import ROOT, SHARED

DOCKER = ROOT / "docker"
KUBERAY = SHARED / "kuberay"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
IMAGE = f"pilotstudy:{__version__}"
CLOUDS = ["aws", "gcp"]


def read(name: str) -> list[dict]:
    return [document for document in yaml.safe_load_all((DOCKER / name).read_text()) if document]


def pins() -> dict[str, str]:
    lines = (DOCKER / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def last_stage() -> tuple[str, list[str]]:
    """What the image is made from, and its lines, continued ones joined."""
    text = (DOCKER / "Dockerfile").read_text().replace("\\\n", "")
    stage = re.split(r"^FROM ", text, flags=re.M)[-1].splitlines()
    return stage[0], stage[1:]


def strict(schema: object) -> object:
    """A schema of Kubernetes or Google, as JSON Schema that refuses fields that it does not name."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    if schema.get("format") in ("int64", "uint64"):  # Google's are strings, and numbers are taken too
        return {"type": ["integer", "string"]}
    if "$ref" in schema:
        return {"$ref": f"#/definitions/{schema['$ref']}"}
    closed = {key: strict(part) for key, part in schema.items() if key in ("type", "enum", "required", "items")}
    for key in "additionalProperties", "properties":
        if isinstance(schema.get(key), dict):
            part = schema[key]
            closed[key] = strict(part) if key[0] == "a" else {name: strict(one) for name, one in part.items()}
    if "properties" in closed and not schema.get("x-kubernetes-preserve-unknown-fields"):
        closed.setdefault("additionalProperties", False)
    return closed
