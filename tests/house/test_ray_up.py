"""`ray up` with the files of docker/: every command that it would send, recorded by Ray's own launcher."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.support.docker_files import CLOUDS, DOCKER, IMAGE, last_stage, read


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
