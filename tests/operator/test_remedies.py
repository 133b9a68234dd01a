"""What to do, by the words of a cause: those that the matrix of causes does not have."""

import pytest

from charonia_operator.reasons import TROUBLES, Reason, remedy_of
from charonia_operator.remedies import advice, refused, sentences
from tests.support.inference_services import a_service

BUCKET = {"uri": "s3://bucket/models"}
PIP = {"requirements": ["a"]}
NEW_CLAIM = {"type": "PersistentVolumeClaim", "persistentVolumeClaim": {"size": "1Gi", "storageClassName": "fast"}}
PRIVATE = {"server": {"image": "a/b:1"}, "imagePullSecrets": [{"name": "login"}]}

CASES = [
    # reason, words, spec, better reason (empty: the same), words of the remedy
    ("VolumeNotMounted", 'secret "pip" not found', {"python": {**PIP, "configSecretRef": {"name": "pip"}}},
     "SecretMissing", "Create Secret pip with key pip.conf, or correct spec.python.configSecretRef;"),
    ("VolumeNotMounted", 'secret "other" not found', {}, "SecretMissing", "or correct the spec (spec.podTemplate);"),
    ("SecretMissing", 'secret "all" not found', {"server": {"envFrom": [{"secretRef": {"name": "all"}}]}},
     "", "Create Secret all, or correct spec.server.envFrom[0];"),
    ("ConfigurationMissing", "couldn't find key a in ConfigMap default/words",
     {"server": {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "words", "key": "a"}}}]}},
     "", "Put key a into ConfigMap words, or correct spec.server.env[0]."),
    ("SecretMissing", "has no accessKeyId: expected a file ID",
     {"modelRepository": {**BUCKET, "credentials": {"secretRef": {"name": "s"}, "keys": {"accessKeyId": "ID"}}}},
     "", "Put key ID into Secret s, or name its own key in spec.modelRepository.credentials.keys.accessKeyId."),
    ("Unschedulable", "pod has unbound immediate PersistentVolumeClaims",
     {"modelRepository": {**BUCKET, "cache": NEW_CLAIM}}, "ClaimNotBound", "kubectl describe pvc simple-models"),
    ("Unschedulable", "1 node(s) had volume node affinity conflict", {}, "", "another zone"),
    ("Unschedulable", "1 Insufficient nvidia.com/mig-1g.10gb.", {"gpu": {"migProfile": "1g.10gb"}},
     "InsufficientGPU", "Free nvidia.com/mig-1g.10gb on a node, add nodes, or change spec.gpu.migProfile."),
    ("Unschedulable", "1 Insufficient nvidia.com/gpu.", {"gpu": {"count": 2}}, "InsufficientGPU", "or change spec.gpu.count."),
    ("Unschedulable", "3 node(s) didn't match Pod's node affinity/selector.", {"scheduling": {"nodeSelector": {"a": "b"}}},
     "", "Correct spec.scheduling.nodeSelector, or label a node so"),
    ("Unschedulable", "3 node(s) didn't match Pod's node affinity/selector.", {"scheduling": {"affinity": {"podAffinity": {}}}},
     "", "Correct spec.scheduling.affinity, or label a node so"),
    ("Unschedulable", "2 Insufficient cpu, 1 Insufficient nvidia.com/gpu.", {"gpu": {}}, "InsufficientGPU", "spec.gpu.count"),
    ("ForbiddenByPolicy", "failed quota: q: must specify limits.cpu for: server", {},
     "QuotaExceeded", "Set limits.cpu in spec.resources: ResourceQuota q asks for it."),
    ("ForbiddenByPolicy", "maximum memory usage per Container is 1Gi, but limit is 2Gi", {}, "", "Change memory in spec.resources"),
    ("RepositoryDenied", "Client sent an HTTP request to an HTTPS server.", {}, "RepositoryInvalid", "write https://"),
    ("RepositoryUnreachable", "Connection refused", {}, "", "Nobody listens there"),
    ("RepositoryUnreachable", "no answer from http://a: timed out", {}, "", "Correct host and port"),
    ("PythonDependenciesFailed", "SSLCertVerificationError: CERTIFICATE_VERIFY_FAILED", {"python": PIP}, "", "Give `cert` in pip.conf"),
    ("PythonDependenciesFailed", "401 Error, Credentials not correct", {"python": PIP}, "", "user and password in pip.conf"),
    ("PythonDependenciesFailed", "NewConnectionError: Temporary failure in name resolution", {"python": PIP}, "", "spec.python.indexUrl"),
    ("PythonDependenciesFailed", "ERROR: ResolutionImpossible", {"python": PIP}, "", "exclude each other"),
    ("PythonDependenciesFailed", "ERROR: Could not open requirements file", {"python": PIP}, "", "spec.python.requirementsPath"),
    ("PythonDependenciesFailed", "THESE PACKAGES DO NOT MATCH THE HASHES", {"python": PIP}, "", "spec.python.requireHashes"),
    ("PythonDependenciesFailed", "OSError: No space left on device", {"python": PIP}, "", "ephemeral-storage"),
    ("ImagePullFailed", "a/b:1: pull access denied", PRIVATE, "", "Correct the registry's user and password in login"),
    ("ImagePullFailed", "nowhere/b:1: dial tcp: lookup nowhere: no such host", {"server": {"image": "nowhere/b:1"}},
     "", "Correct the registry's host in spec.server.image"),
    ("ImagePullFailed", "ours:1: not found", {}, "", "chart value defaults.runtimeImage"),
    ("ImagePullFailed", "ours:1: not found", {"gpu": {"count": 1}}, "", "chart value defaults.runtimeGpuImage"),
    ("ImagePullFailed", "ours:1: not found", {"server": {"image": "a/b:1"}}, "", "chart value defaults.syncImage"),
    ("ContainerCannotStart", 'exec: "/run.sh": permission denied', {}, "", "/run.sh is not executable"),
    ("CrashLoop", "tritonserver: invalid value for --http-port: no number", {}, "", "Correct --http-port in spec.server.args."),
    ("CrashLoop", "unrecognized option '--a'", {"server": {"command": ["x", "--a"]}}, "", "Take --a out of spec.server.command"),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "words", "spec", "better", "remedy"), CASES)
def test_a_remedy_by_the_words_of_the_cause(reason, words, spec, better, remedy):
    found, text = advice(a_service(**spec), reason, words)

    assert found == (better or reason)
    assert remedy in text


@pytest.mark.parametrize("reason", TROUBLES)
def test_a_cause_of_which_nothing_is_known_gets_the_remedy_of_its_reason(reason):
    assert advice(a_service(), reason, "no words that anybody knows") == (reason, remedy_of(reason))


def test_a_reason_of_the_clusters_own():
    assert advice(a_service(), "Evicted", "low on disk") == ("Evicted", "")


def test_words_of_the_api_server():
    reason, text = refused(a_service(), "exceeded quota: gpus, requested: 1")

    assert reason == Reason.QUOTA_EXCEEDED
    assert text.startswith("exceeded quota: gpus, requested: 1. Raise ResourceQuota gpus")


def test_sentences():
    assert sentences("a", "", "b.", "c:") == "a. b. c:"
