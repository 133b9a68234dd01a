"""Settings of the operator that every pod gets, and what users add to pods."""

from dataclasses import replace

import pytest

from charonia_operator.pod.template import pod_template
from charonia_operator.resources import network_policy
from charonia_operator.settings import Settings
from charonia_operator.spec.reading import SpecError
from tests.support.inference_services import SETTINGS, a_service


def a_pod(settings=SETTINGS, **spec):
    return pod_template(a_service(**spec), settings)["spec"]


def test_pull_secrets_of_the_cluster_come_after_the_services_own():
    settings = replace(SETTINGS, image_pull_secrets=("mirror", "own"))

    pod = a_pod(settings, imagePullSecrets=[{"name": "own"}])

    assert pod["imagePullSecrets"] == [{"name": "own"}, {"name": "mirror"}]


def test_tolerations_of_the_cluster_stand_before_the_services_own():
    settings = replace(SETTINGS, tolerations=({"key": "dedicated", "operator": "Exists"},))

    pod = a_pod(settings, scheduling={"tolerations": [{"key": "own"}]})

    assert pod["tolerations"] == [{"key": "dedicated", "operator": "Exists"}, {"key": "own"}]


def test_resources_of_the_cluster_are_for_servers_that_ask_for_none():
    defaults = {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "4Gi"}}
    settings = replace(SETTINGS, resources=defaults)

    assert a_pod(settings)["containers"][0]["resources"] == defaults
    asking = a_pod(settings, resources={"requests": {"cpu": "2"}})
    assert asking["containers"][0]["resources"] == {"requests": {"cpu": "2"}}
    (server,) = a_pod(settings, gpu={"count": 1})["containers"]
    assert server["resources"]["limits"] == {"memory": "4Gi", "nvidia.com/gpu": "1"}


def test_a_cluster_that_gives_user_ids_itself():
    context = a_pod(replace(SETTINGS, run_as_user=0))["securityContext"]

    assert context == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_containers_of_users_are_restricted_unless_they_say_otherwise():
    sidecars = [
        {"name": "plain", "image": "a"},
        {"name": "special", "image": "a", "securityContext": {"readOnlyRootFilesystem": False}},
    ]

    _, plain, special = a_pod(sidecars=sidecars)["containers"]

    restricted = plain["securityContext"]
    assert restricted["readOnlyRootFilesystem"]
    assert special["securityContext"] == restricted | {"readOnlyRootFilesystem": False}


@pytest.mark.parametrize(
    ("flags", "setting", "value"),
    [
        (["--image-pull-secret=a", "--image-pull-secret=b"], "image_pull_secrets", ("a", "b")),
        (['--tolerations=[{"key":"a"}]'], "tolerations", ({"key": "a"},)),
        (['--resources={"limits":{"memory":"1Gi"}}'], "resources", {"limits": {"memory": "1Gi"}}),
        (["--run-as-user=0"], "run_as_user", 0),
    ],
)
def test_flags(flags, setting, value):
    assert getattr(Settings.parse(flags), setting) == value


@pytest.mark.parametrize("flag", ["--tolerations={}", "--tolerations=[1]", "--tolerations=x", "--resources=[]"])
def test_flags_that_are_no_such_json(flag, capsys):
    with pytest.raises(SystemExit):
        Settings.parse([flag])
    assert f"argument {flag.partition('=')[0]}: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"storage": [{"name": "a", "mountPath": "/a"}]}, "give exactly one of persistentVolumeClaim"),
        ({"storage": [{"name": "tmp", "mountPath": "/a", "emptyDir": {}}]}, "name 'tmp' is reserved"),
        ({"sidecars": [{"name": "server"}]}, "sidecars: the name 'server' is reserved"),
        ({"initContainers": [{"image": "a"}]}, "initContainers: every container needs a name"),
    ],
)
def test_additions_that_cannot_be(spec, text):
    """The API server refuses them too; a definition of an older release may let them through."""
    with pytest.raises(SpecError, match=text):
        a_service(**spec)


def test_the_operator_reaches_pods_behind_a_network_policy():
    settings = replace(SETTINGS, lease="charonia-system/charonia")
    service = a_service(networking={"networkPolicy": {}})

    (policy,) = network_policy.build(service, settings, {})

    own = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "charonia-system"}}}
    assert {"from": [own]} in policy["spec"]["ingress"]
    assert policy["spec"]["ingress"][0]["from"] == [{"podSelector": {}}]
    assert policy["spec"]["policyTypes"] == ["Ingress"]


@pytest.mark.parametrize(
    ("endpoint", "python", "ports"),
    [
        ("", None, [443]), ("http://minio:9000", None, [9000]), ("http://minio", None, [80]), ("minio:9000", None, [9000]),
        ("https://minio", {"requirements": ["a"]}, [443]), ("http://minio", {"requirements": ["a"]}, [80, 443]),
    ],
)  # fmt: skip
def test_ways_out_of_pods(endpoint, python, ports):
    repository = {"uri": "s3://bucket/models", **({"endpoint": endpoint} if endpoint else {})}
    spec = {"modelRepository": repository, "networking": {"networkPolicy": {"egress": "StorageAndDNS"}}}

    (policy,) = network_policy.build(a_service(**spec, **({"python": python} if python else {})), SETTINGS, {})

    names, *others = policy["spec"]["egress"]
    assert [each["port"] for each in names["ports"]] == [53, 53]
    assert [rule["ports"][0]["port"] for rule in others] == ports


def test_a_network_policy_restarts_no_pod():
    assert a_service(networking={"networkPolicy": {}}).fingerprint() == a_service().fingerprint()
