"""Compose and Kubernetes: what their tools would say to the files in docker/, and what those do not look at."""

import json

import jsonschema
import kubernetes_validate
import pytest
import yaml
from compose_spec import PyCompose

from tests.support.docker_files import IMAGE, KUBERAY, read, strict


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
