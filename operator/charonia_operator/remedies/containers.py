"""Images that do not come, and containers that cannot start or end at once."""

from re import Match

from charonia_operator.reasons import Reason
from charonia_operator.remedies.rule import Rule, rule
from charonia_operator.spec.service import InferenceServiceSpec

_ROOT = {Reason.CONFIGURATION_MISSING, Reason.CONTAINER_CANNOT_START}
_START = {Reason.CONTAINER_CANNOT_START}


def _image_field(service: InferenceServiceSpec, image: str) -> str:
    if service.spec.server.image and image.startswith(service.spec.server.image):
        return "spec.server.image"
    if service.spec.server.image:
        return "the operator's image for copies (chart value defaults.syncImage)"
    gpus = service.spec.gpu is not None and service.spec.gpu.count > 0
    return f"the operator's default image (chart value defaults.{'runtimeGpuImage' if gpus else 'runtimeImage'})"


def _no_such_image(service: InferenceServiceSpec, found: Match[str]) -> str:
    return f"Correct {_image_field(service, found['image'])}: the registry has no such image."


def _refused_image(service: InferenceServiceSpec, found: Match[str]) -> str:  # noqa: ARG001
    if service.spec.image_pull_secrets:
        names = ", ".join(each.name for each in service.spec.image_pull_secrets)
        return f"Correct the registry's user and password in {names} (spec.imagePullSecrets)."
    return "Name a Secret with the registry's user and password in spec.imagePullSecrets."


def _unknown_registry(service: InferenceServiceSpec, found: Match[str]) -> str:
    return f"Correct the registry's host in {_image_field(service, found['image'])}, or let the nodes reach it."


def _no_such_program(service: InferenceServiceSpec, found: Match[str]) -> str:
    field = "spec.server.command[0]" if service.spec.server.command else "spec.server.command"
    return f"The image has no program {found['program']}: correct {field}, or spec.server.image."


def _unknown_flag(service: InferenceServiceSpec, found: Match[str]) -> str:
    field = "spec.server.command" if service.spec.server.command else "spec.server.args"
    return f"Take {found['flag'] or found['other']} out of {field}: the server does not know it."


RULES: tuple[Rule, ...] = (
    rule({Reason.IMAGE_PULL_FAILED}, r"^(?P<image>\S+): .*(unauthorized|authentication required|denied|no basic auth)",
         _refused_image),
    rule({Reason.IMAGE_PULL_FAILED}, r"^(?P<image>\S+): .*(no such host|connection refused|i/o timeout|dial tcp)",
         _unknown_registry),
    rule({Reason.IMAGE_PULL_FAILED}, r"^(?P<image>\S+): .*(not found|manifest unknown|InvalidImageName|invalid refer)",
         _no_such_image),
    rule(_ROOT, r"breaks non-root policy|image will run as root|cannot verify user is non-root",
         "Set runAsUser to another user than 0 in spec.podTemplate.spec.securityContext, or in the container's.",
         Reason.RUNS_AS_ROOT),
    rule(_START, r'exec: "?(?P<program>[^":]+)"?: (executable file not found|no such file|stat)', _no_such_program),
    rule(_START, r'exec: "?(?P<program>[^":]+)"?: permission denied',
         "{program} is not executable in the image: correct spec.server.command or spec.server.image."),
    rule({Reason.SANDBOX_FAILED}, r"no runtime for \"(?P<handler>[^\"]+)\" is configured",
         "The nodes have no runtime {handler}: correct spec.scheduling.runtimeClassName, or install it.",
         Reason.CONTAINER_CANNOT_START),
    rule({Reason.CRASH_LOOP}, r"unrecognized option '(?P<flag>[^']+)'|unrecognized arguments?: (?P<other>\S+)",
         _unknown_flag),
    rule({Reason.CRASH_LOOP}, r"invalid value for (?P<flag>--\S+?):", "Correct {flag} in spec.server.args."),
)  # fmt: skip
