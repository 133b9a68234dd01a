"""Which method answers which call, behind the checks that its category asks for."""

from collections.abc import Callable
from functools import partial

from charonia_runtime.core.access import HEADER, OPEN_CATEGORY, AccessTokens
from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.restrictions import Restriction
from charonia_runtime.core.server import InferenceServer
from charonia_runtime.frontends.v2_grpc.calls import Method
from charonia_runtime.frontends.v2_grpc.control import ControlCalls, control_method
from charonia_runtime.frontends.v2_grpc.health import HealthWatch
from charonia_runtime.frontends.v2_grpc.inference import InferenceCalls
from charonia_runtime.frontends.v2_grpc.logged_call import Open, logged_opener, tell_refusal
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

        answered, log = server.answers.of("grpc"), options.request_log

        def add(path: str, listen: Open, category: str, *, is_unary: bool = True, tells_itself: bool = False) -> None:
            """With `tells_itself`, `listen` writes its lines: one for each request, at no cost where none is wanted."""
            name = _name_of(path)
            opener = listen if tells_itself else logged_opener(log, name, listen)
            tell = partial(tell_refusal, log, name)
            self._methods[path] = Method(opener, is_unary, refusal(category), answered, tell)

        self._request_log = log
        self._methods: dict[str, Method] = {}
        for path, (category, call) in ControlCalls(server).table().items():
            add(path, control_method(call, options.response_delay_seconds), category)
        add(f"{_SERVICE}/ModelInfer", inference.model_infer, _INFERENCE, tells_itself=True)
        streaming = inference.model_stream_infer
        add(f"{_SERVICE}/ModelStreamInfer", streaming, _INFERENCE, is_unary=False, tells_itself=True)
        add("/grpc.health.v1.Health/Watch", watch.open, "health", is_unary=False)
        for version in VERSIONS:
            path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
            add(path, open_reflection, "metadata", is_unary=False)

    def tell_unknown(self, path: str, status: Status, client: str) -> None:
        refusal = status._replace(text=status.text or "there is no such method")
        tell_refusal(self._request_log, _name_of(path), refusal, client)

    def find(self, path: str) -> Method | None:
        return self._methods.get(path)


def _name_of(path: str) -> str:
    """What the log calls a method; what follows `?` in the path of a stranger may be a secret."""
    return path.partition("?")[0].removeprefix(f"{_SERVICE}/").removeprefix("/")


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
