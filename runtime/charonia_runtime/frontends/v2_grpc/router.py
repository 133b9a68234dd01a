"""Which method answers which call, behind the checks that its category asks for."""

from collections.abc import Callable

from charonia_runtime.core.access import HEADER, OPEN_CATEGORY, AccessTokens
from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.restrictions import Restriction
from charonia_runtime.core.server import InferenceServer
from charonia_runtime.frontends.v2_grpc.calls import Method
from charonia_runtime.frontends.v2_grpc.control import ControlCalls, control_method
from charonia_runtime.frontends.v2_grpc.health import HealthWatch
from charonia_runtime.frontends.v2_grpc.inference import InferenceCalls
from charonia_runtime.frontends.v2_grpc.metadata import Metadata
from charonia_runtime.frontends.v2_grpc.options import Options
from charonia_runtime.frontends.v2_grpc.reflection import open_reflection
from charonia_runtime.frontends.v2_grpc.status import Status, StatusCode, status_of
from charonia_runtime.protocols.reflection.answers import VERSIONS

_SERVICE = "/inference.GRPCInferenceService"
_INFERENCE = "inference"


class Router:
    """Finds methods by path. Methods take and give bytes: parsing is theirs, and so are its errors."""

    def __init__(
        self, server: InferenceServer, inference: InferenceCalls, watch: HealthWatch, options: Options
    ) -> None:
        def refusal(category: str) -> Callable[[Metadata], Status | None] | None:
            tokens = options.access_tokens if category != OPEN_CATEGORY else None
            return _refusal(tokens, options.restrictions().get(category))

        answered = server.answers.of("grpc")
        self._methods = {
            path: Method(
                control_method(call, options.response_delay_seconds), refusal=refusal(category), answered=answered
            )
            for path, (category, call) in ControlCalls(server).table().items()
        }
        guard = refusal(_INFERENCE)
        self._methods[f"{_SERVICE}/ModelInfer"] = Method(inference.model_infer, refusal=guard, answered=answered)
        self._methods[f"{_SERVICE}/ModelStreamInfer"] = Method(inference.model_stream_infer, False, guard, answered)
        self._methods["/grpc.health.v1.Health/Watch"] = Method(watch.open, False, refusal("health"), answered)
        for version in VERSIONS:
            path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
            self._methods[path] = Method(open_reflection, False, refusal("metadata"), answered)

    def find(self, path: str) -> Method | None:
        return self._methods.get(path)


def _refusal(
    tokens: AccessTokens | None, restriction: Restriction | None
) -> Callable[[Metadata], Status | None] | None:
    """What looks at a client's metadata: for a token first, then for the key of a restriction."""
    if tokens is None and restriction is None:
        return None

    def refusal(metadata: Metadata) -> Status | None:
        if tokens is not None:
            shown = metadata.find(HEADER)
            reason = tokens.refusal(None if shown is None else shown.encode())
            if reason:
                return Status(StatusCode.UNAUTHENTICATED, reason)
        if restriction is not None:
            try:
                restriction.check(metadata.find(restriction.header))
            except InferenceError as error:
                return status_of(error)
        return None

    return refusal
