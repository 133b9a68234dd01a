"""
Usage reports of the libraries that models are run with: off, so that nothing leaves the machine unasked.

The one place that knows the variables. Children inherit them: `model.py` of Python models, frontend processes, and
whatever they import.

    onnxruntime 1.29+   reads `ORT_DISABLE_TELEMETRY` as it is imported; else it keeps a device id and a queue of events
                        in `~/.cache/Microsoft` and sends both to mobile.events.data.microsoft.com
    huggingface_hub     `HF_HUB_DISABLE_TELEMETRY`
    mlflow 3.2+         `MLFLOW_DISABLE_TELEMETRY`
    others              `DO_NOT_TRACK`

torch, tensorflow, openvino, tensorrt, dali, treelite, grpc, boto3 and opentelemetry send no such reports of what we do
with them. openvino's `convert_model`, which we do not call, has no variable, only `opt_in_out --opt_out`.
"""

from collections.abc import Mapping, MutableMapping

ONNXRUNTIME_SWITCH = "ORT_DISABLE_TELEMETRY"
SWITCHES: Mapping[str, str] = {
    ONNXRUNTIME_SWITCH: "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
}
"""Variable → the value that turns reports off."""


def turn_off(environment: MutableMapping[str, str]) -> None:
    """Turn usage reports off in `environment`, but for the variables that the user has set to anything."""
    for name, value in SWITCHES.items():
        environment.setdefault(name, value)
