"""What AWS and Google would say to docker/'s machines and policies, offline."""

import json
import re
from pathlib import Path

import jsonschema
import pytest

from tests.support.docker_files import DOCKER, read, strict


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
