"""
The models whose schedulers are compared: Python models that answer with what they saw, and ensembles of them.

Each runs on the real Triton as well as here. An execution that has a negative VALUE says in the folder `gate` that it
is there, and waits until a file of that name is.
"""

from pathlib import Path

OBSERVER = """
import json
import os
import time

import numpy as np
import triton_python_backend_utils as pb_utils

CONTROLS = ("START", "END", "READY", "CORRID", "STATE", "FILED")


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.gate = config["parameters"]["gate"]["string_value"]
        self.wants_more = config["sequence_batching"].get("iterative_sequence") if "sequence_batching" in config else 0
        self.executions = 0

    def execute(self, requests):
        self.executions += 1
        seen = [describe(request) for request in requests]
        for one in seen:
            if one["value"] is not None and one["value"] < 0:
                self.wait_at(os.path.join(self.gate, str(one["value"])))
        return [self.answer(request, seen) for request in requests]

    def wait_at(self, door):
        open(door + "-reached", "w").close()
        while not os.path.exists(door):
            time.sleep(0.002)

    def answer(self, request, seen):
        value = pb_utils.get_input_tensor_by_name(request, "VALUE").as_numpy()
        if 666 in value:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("no 666"))
        if self.wants_more and self.executions < 3:
            request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
            return None
        text = json.dumps({"execution": self.executions, "seen": seen}).encode()
        shape = (len(value), 1) if value.ndim == 2 else (1,)
        return pb_utils.InferenceResponse([
            pb_utils.Tensor("OUT", value + 1),
            pb_utils.Tensor("SEEN", np.full(shape, text, np.object_)),
        ])


def describe(request):
    value = first(request, "VALUE")
    controls = {name: first(request, name) for name in CONTROLS}
    controls = {name: found for name, found in controls.items() if found is not None}
    ready = controls.get("READY", 1)
    return {
        "value": value if ready else None,
        "controls": controls,
        "flags": request.flags(),
        "sequence": request.correlation_id(),
        "outputs": sorted(request.requested_output_names()),
        "id": request.request_id(),
    }


def first(request, name):
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    if tensor is None:
        return None
    value = tensor.as_numpy().reshape(-1)[0]
    return value.decode() if isinstance(value, bytes) else value.item()
"""
REPEATER = '''
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Answers as often as VALUE says, each time with another number; 13 is an error instead."""

    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for number in range(int(pb_utils.get_input_tensor_by_name(request, "VALUE").as_numpy()[0])):
                if number == 13:
                    sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError("no 13")))
                    break
                made = pb_utils.Tensor("OUT", np.array([number], np.int32))
                sender.send(pb_utils.InferenceResponse([made]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
'''

_TENSORS = """
backend: "python"
input { name: "VALUE" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "SEEN" data_type: TYPE_STRING dims: [ 1 ] }
instance_group { kind: KIND_CPU count: 1 }
"""
_CONTROLS = """
  control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } }
  control_input { name: "END" control { kind: CONTROL_SEQUENCE_END fp32_false_true: [ 0, 1 ] } }
  control_input { name: "READY" control { kind: CONTROL_SEQUENCE_READY bool_false_true: [ false, true ] } }
  control_input { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }
"""
_IDLE = "max_sequence_idle_microseconds: 60000000"


def _sequences(more: str = "direct { }", rows: int = 2) -> str:
    return f"max_batch_size: {rows} sequence_batching {{ {_IDLE} {more} {_CONTROLS} }}"


def _batches(more: str = "", rows: int = 4) -> str:
    return f"max_batch_size: {rows} dynamic_batching {{ {more} }}"


_STATES = """
  state { input_name: "STATE" output_name: "NEXT" data_type: TYPE_INT32 dims: [ 1 ]
          initial_state { name: "zero" data_type: TYPE_INT32 dims: [ 1 ] zero_data: true } }
  state { input_name: "FILED" output_name: "NEXT_FILED" data_type: TYPE_INT32 dims: [ 1 ]
          initial_state { name: "file" data_type: TYPE_INT32 dims: [ 1 ] data_file: "seven" } }
"""
_LEVELS = """
  priority_levels: 3 default_priority_level: 2
  priority_queue_policy { key: 1 value { max_queue_size: 2 } }
"""
_REPEATING = """
backend: "python"
model_transaction_policy { decoupled: true }
input { name: "VALUE" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }
"""

OBSERVERS = {
    "direct": _sequences(),
    "oldest": _sequences("oldest { max_candidate_sequences: 4 }"),
    "stateful": _sequences(f"direct {{ }} {_STATES}"),
    "iterative": _sequences("oldest { max_candidate_sequences: 2 } iterative_sequence: true"),
    "plain": "max_batch_size: 4",
    "batching": _batches(),
    "levels": _batches(_LEVELS, rows=1),
    "rejecting": _batches("default_queue_policy { default_timeout_microseconds: 100000 }", rows=1),
    "overriding": _batches(
        "default_queue_policy { allow_timeout_override: true default_timeout_microseconds: 60000000 }", rows=1
    ),
    "putting_off": _batches(
        """priority_levels: 1 default_priority_level: 1
        default_queue_policy { timeout_action: DELAY allow_timeout_override: true
                               default_timeout_microseconds: 60000000 }""",
        rows=1,
    ),
    "preferring": _batches("preferred_batch_size: [ 3 ] max_queue_delay_microseconds: 60000000"),
    "limited": _batches("default_queue_policy { max_queue_size: 3 }", rows=1),
    "cached": "max_batch_size: 4 response_cache { enable: true }",
    "single": "",
}
"""What of a configuration the models differ in."""


def _step(model: str, inputs: str, **outputs: str) -> str:
    maps = "".join(f'output_map {{ key: "{theirs}" value: "{ours}" }} ' for theirs, ours in outputs.items())
    return f'step {{ model_name: "{model}" model_version: -1 input_map {{ key: "VALUE" value: "{inputs}" }} {maps} }}'


def _ensemble(*steps: str, rows: int = 4, dims: str = "[ 1 ]") -> str:
    return f"""
    platform: "ensemble" max_batch_size: {rows}
    input {{ name: "VALUE" data_type: TYPE_INT32 dims: {dims} }}
    output {{ name: "OUT" data_type: TYPE_INT32 dims: {dims} }}
    output {{ name: "SEEN" data_type: TYPE_STRING dims: {dims} }}
    ensemble_scheduling {{ {" ".join(steps)} }}
    """


_AGAIN = _step("batching", "once", OUT="OUT", SEEN="SEEN")
ENSEMBLES = {
    "chain": _ensemble(_step("plain", "VALUE", OUT="once"), _AGAIN),
    "nested": _ensemble(_step("chain", "VALUE", OUT="once"), _AGAIN),
    "branches": _ensemble(_step("plain", "VALUE", OUT="OUT"), _step("batching", "VALUE", SEEN="SEEN")),
    "sequences": _ensemble(
        _step("plain", "VALUE", OUT="once"), _step("direct", "once", OUT="OUT", SEEN="SEEN"), rows=2
    ),
    "to_batches": _ensemble(_step("single", "VALUE", OUT="once"), _AGAIN, rows=0),
    "from_batches": _ensemble(_step("plain", "VALUE", OUT="once"), _step("single", "once", OUT="OUT", SEEN="SEEN")),
    "stream": _ensemble(
        _step("repeating", "VALUE", OUT="number"), _step("single", "number", OUT="OUT", SEEN="SEEN"), rows=0
    ),
    "cached_chain": _ensemble(_step("plain", "VALUE", OUT="once"), _AGAIN) + " response_cache { enable: true }",
}


def write_repository(folder: Path) -> Path:
    """The models in `folder`/models, their gate in `folder`/gate. Returns the repository."""
    gate, repository = folder / "gate", folder / "models"
    gate.mkdir()
    for name, config in OBSERVERS.items():
        parameters = f'parameters {{ key: "gate" value {{ string_value: "{gate}" }} }}'
        _write(repository / name, f"{_TENSORS}{config}\n{parameters}\n", OBSERVER)
    _write(repository / "repeating", _REPEATING, REPEATER)
    states = repository / "stateful" / "initial_state"
    states.mkdir()
    (states / "seven").write_bytes((7).to_bytes(4, "little"))
    for name, config in ENSEMBLES.items():
        _write(repository / name, config)
    return repository


def _write(folder: Path, config: str, code: str = "") -> None:
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(config)
    if code:
        (folder / "1" / "model.py").write_text(code)
