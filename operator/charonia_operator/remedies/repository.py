"""Buckets that do not answer, are not trusted, or refuse the credentials."""

from re import Match

from charonia_operator.reasons import Reason
from charonia_operator.remedies.rule import Rule, rule
from charonia_operator.spec.service import InferenceServiceSpec

_ENDPOINT = "spec.modelRepository.endpoint"
_ASKED = {Reason.REPOSITORY_DENIED, Reason.REPOSITORY_UNREACHABLE, Reason.REPOSITORY_INVALID, Reason.SYNC_FAILED}


def _secret_of(service: InferenceServiceSpec) -> str:
    repository = service.spec.model_repository
    secret = repository.credentials.secret_ref if repository else None
    return f"Secret {secret.name}" if secret else "the credentials"


def _no_tls(service: InferenceServiceSpec, found: Match[str]) -> str:  # noqa: ARG001
    repository = service.spec.model_repository
    host = (repository.endpoint if repository else "").rpartition("://")[2]
    return f"The port speaks no TLS: write http://{host} in {_ENDPOINT}, or name the port that does."


def _untrusted(service: InferenceServiceSpec, found: Match[str]) -> str:  # noqa: ARG001
    repository = service.spec.model_repository
    bundle = repository.ca_bundle_ref if repository else None
    if bundle:
        text = f"Put the authority of the store's certificate into key {bundle.key} of ConfigMap {bundle.name}"
        return f"{text} (spec.modelRepository.caBundleRef), as PEM."
    return "Name a ConfigMap with the authority of the store's certificate in spec.modelRepository.caBundleRef."


def _wrong_secret(service: InferenceServiceSpec, found: Match[str]) -> str:  # noqa: ARG001
    return f"Correct the access key's secret in {_secret_of(service)} (spec.modelRepository.credentials)."


def _wrong_id(service: InferenceServiceSpec, found: Match[str]) -> str:  # noqa: ARG001
    return f"Correct the access key's id in {_secret_of(service)} (spec.modelRepository.credentials)."


def _not_signed(service: InferenceServiceSpec, found: Match[str]) -> str:  # noqa: ARG001
    return "Name a Secret with an access key in spec.modelRepository.credentials.secretRef: the bucket is not public."


RULES: tuple[Rule, ...] = (
    rule(_ASKED, r"WRONG_VERSION_NUMBER|record layer failure|packet length too long|first record does not look like",
         _no_tls, Reason.REPOSITORY_INVALID),
    rule(_ASKED, r"HTTP request (was sent )?to an? HTTPS (server|port)",
         f"The port speaks TLS: write https:// in {_ENDPOINT}.", Reason.REPOSITORY_INVALID),
    rule(_ASKED, r"certificate is not trusted|CERTIFICATE_VERIFY_FAILED|no certificate or crl found",
         _untrusted, Reason.REPOSITORY_NOT_TRUSTED),
    rule({Reason.REPOSITORY_DENIED}, r"SignatureDoesNotMatch", _wrong_secret),
    rule({Reason.REPOSITORY_DENIED}, r"InvalidAccessKeyId", _wrong_id),
    rule({Reason.REPOSITORY_DENIED}, r"key none, the request was not signed", _not_signed),
    rule({Reason.REPOSITORY_UNREACHABLE},
         r"name or service not known|name resolution|failed to resolve|nodename nor servname|no address associated",
         f"No DNS knows the host: correct {_ENDPOINT}."),
    rule({Reason.REPOSITORY_UNREACHABLE}, r"connection refused",
         f"Nobody listens there: correct host and port of {_ENDPOINT}."),
    rule({Reason.REPOSITORY_UNREACHABLE}, r"could not connect to the endpoint|no answer from",
         f"Correct host and port of {_ENDPOINT}, or let the network and its policies through."),
)  # fmt: skip
