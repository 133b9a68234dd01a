"""The operator's own options: what it watches, and what services get that do not say."""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from charonia_operator import __version__


def _option(help_text: str, default: Any, **keywords: Any) -> Any:
    """A field that is a flag, too: its name with dashes."""
    metadata = {"help": help_text, **keywords}
    if isinstance(default, list):
        return field(default_factory=tuple, metadata=metadata)
    return field(default=default, metadata=metadata)


def _json_list(text: str) -> tuple[Mapping[str, Any], ...]:
    """Read a flag's JSON list of objects. Raises ArgumentTypeError."""
    found = _json(text)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise argparse.ArgumentTypeError(f"must be a JSON list of objects, not {text}")
    return tuple(found)


def _json_object(text: str) -> Mapping[str, Any]:
    """Read a flag's JSON object of objects. Raises ArgumentTypeError."""
    found = _json(text)
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise argparse.ArgumentTypeError(f"must be a JSON object of objects, not {text}")
    return found


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"is no JSON: {error}") from None


@dataclass(frozen=True, slots=True)
class Settings:
    """Each field is a flag of `charonia-operator`."""

    namespaces: tuple[str, ...] = _option("Watch this namespace; may be repeated. Default: all of them.", [])
    runtime_image: str = _option("Image of services without GPUs.", f"ghcr.io/charonia/runtime:{__version__}")
    runtime_gpu_image: str = _option("Image of services with GPUs.", f"ghcr.io/charonia/runtime:{__version__}-gpu")
    sync_image: str = _option("Image that copies models, where not --runtime-image.", "")
    image_pull_policy: str = _option("Pull policy of containers that do not say.", "IfNotPresent")
    gpu_resource: str = _option("Name of the resource that a GPU is.", "nvidia.com/gpu")
    gpu_product_label: str = _option("Label of nodes that names their GPU.", "nvidia.com/gpu.product")
    run_as_user: int = _option(
        "User and group id of pods. 0: none, the cluster gives them, as OpenShift does.", 1000, type=int
    )
    image_pull_secrets: tuple[str, ...] = _option(
        "Secret for registries that every pod gets, of its own namespace; may be repeated.", []
    )
    tolerations: Sequence[Mapping[str, Any]] = _option(
        "Tolerations that every pod gets, a JSON list.", (), type=_json_list, metavar="JSON"
    )
    resources: Mapping[str, Any] | None = _option(
        'Resources of servers that ask for none, as JSON: {"requests": {…}, "limits": {…}}.',
        None,
        type=_json_object,
        metavar="JSON",
    )
    workers: int = _option("Services that are worked on at the same time.", 8, type=int)
    resync_seconds: float = _option("Seconds between two looks at everything.", 300, type=float)
    model_poll_seconds: float = _option("Seconds between two questions for the models of a service.", 30, type=float)
    lease: str = _option(
        "Lease that of several operators the one that writes holds: NAMESPACE/NAME. Default: none.", ""
    )
    liveness_port: int = _option("Port of /healthz; 0 for none.", 8080, type=int)
    log_level: str = _option("Least level to log.", "INFO", choices=["DEBUG", "INFO", "WARNING", "ERROR"])

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> "Settings":
        """Read the command line. Exits with code 2 and a message for what cannot be read."""
        parser = argparse.ArgumentParser("charonia-operator", description="Serves InferenceServices.")
        parser.add_argument("--version", action="version", version=f"charonia-operator {__version__}")
        for each in fields(cls):
            keywords = dict(each.metadata)
            repeated = each.default is MISSING
            flag = each.name.replace("_", "-")
            if repeated:
                parser.add_argument(
                    f"--{flag.removesuffix('s')}", dest=each.name, action="append", default=[], **keywords
                )
            else:
                parser.add_argument(f"--{flag}", default=each.default, **keywords)
        values: dict[str, Any] = vars(parser.parse_args(arguments))
        settled: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
        }
        return cls(**settled)

    @property
    def own_namespace(self) -> str:
        """The operator's namespace; empty where it is not known, because the operator holds no Lease."""
        return self.lease.partition("/")[0]

    @property
    def copying_image(self) -> str:
        """The image that runs `charonia sync`."""
        return self.sync_image or self.runtime_image
