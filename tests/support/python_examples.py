"""Models of each kind that Triton's documentation shows, written for tests: `write_examples(repository)`."""

from pathlib import Path

_HEAD = """
import asyncio, json, threading
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.config = json.loads(args["model_config"])
        self.args = args
"""
_SUM_AND_DIFFERENCE = """
    def execute(self, requests):
        responses = []
        for request in requests:
            a = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            b = pb_utils.get_input_tensor_by_name(request, "INPUT1").as_numpy()
            responses.append(pb_utils.InferenceResponse(output_tensors=[
                pb_utils.Tensor("OUTPUT0", (a + b).astype(self.type_of("OUTPUT0"))),
                pb_utils.Tensor("OUTPUT1", (a - b).astype(self.type_of("OUTPUT1"))),
            ]))
        return responses

    def type_of(self, name):
        return pb_utils.triton_string_to_numpy(pb_utils.get_output_config_by_name(self.config, name)["data_type"])
"""
_PAIR = """
backend: "python"
{more}
input [{{ name: "INPUT0" data_type: TYPE_FP32 dims: [ 4 ] }}, {{ name: "INPUT1" data_type: TYPE_FP32 dims: [ 4 ] }}]
output [{{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 4 ] }}, {{ name: "OUTPUT1" data_type: TYPE_FP32 dims: [ 4 ] }}]
"""
_SINGLE = """
backend: "python"
{more}
input [{{ name: "IN" data_type: TYPE_INT32 dims: [ {dims} ] }}]
output [{{ name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }}]
"""
_DECOUPLED = "model_transaction_policy { decoupled: true }"

_REPEAT = """
    def execute(self, requests):
        for request in requests:
            values = request.inputs()[0].as_numpy().copy()
            threading.Thread(target=self.answer, args=(request.get_response_sender(), values)).start()

    def answer(self, sender, values):
        for value in values:
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([value], np.int32))]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
_SQUARE = """
    async def execute(self, requests):
        for request in requests:
            number = int(request.inputs()[0].as_numpy()[0])
            sender = request.get_response_sender()
            for left in reversed(range(number)):
                await asyncio.sleep(0)
                last = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL if left == 0 else 0
                out = pb_utils.Tensor("OUT", np.array([number], np.int32))
                sender.send(pb_utils.InferenceResponse([out]), flags=last)
            if number == 0:
                sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
_CALL_BY_NAME = """
    def execute(self, requests):
        responses = []
        for request in requests:
            model = pb_utils.get_input_tensor_by_name(request, "MODEL_NAME").as_numpy()[0]
            called = pb_utils.InferenceRequest(
                model_name=model,
                requested_output_names=["OUTPUT0", "OUTPUT1"],
                inputs=[pb_utils.get_input_tensor_by_name(request, name) for name in ("INPUT0", "INPUT1")],
            ).exec()
            if called.has_error():
                raise pb_utils.TritonModelException(called.error().message())
            responses.append(pb_utils.InferenceResponse(output_tensors=called.output_tensors()))
        return responses
"""
_CALL_TWO = """
    async def execute(self, requests):
        responses = []
        for request in requests:
            inputs = [pb_utils.get_input_tensor_by_name(request, name) for name in ("INPUT0", "INPUT1")]
            added, completed = await asyncio.gather(*(
                pb_utils.InferenceRequest(
                    model_name=model, requested_output_names=["OUTPUT0", "OUTPUT1"], inputs=inputs
                ).async_exec()
                for model in ("add_sub", "unbatched")
            ))
            responses.append(pb_utils.InferenceResponse([
                pb_utils.get_output_tensor_by_name(added, "OUTPUT0"),
                pb_utils.get_output_tensor_by_name(completed, "OUTPUT1"),
            ]))
        return responses
"""
_SUM_SYNC = """
    def execute(self, requests):
        return [self.answer(request.inputs()[0]) for request in requests]

    def answer(self, number):
        call = pb_utils.InferenceRequest(model_name="square", inputs=[number], requested_output_names=["OUT"])
        return self.sum_of([call.exec(decoupled=True)])

    def sum_of(self, calls):
        total = np.array([0], np.int32)
        for responses in calls:
            for response in responses:
                if response.has_error():
                    return pb_utils.InferenceResponse(error=response.error())
                for tensor in response.output_tensors():
                    total += tensor.as_numpy()
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", total)])
"""
_SUM_ASYNC = (
    _SUM_SYNC.replace("def execute", "async def execute")
    .replace("[self.answer(", "[await self.answer(")
    .replace("def answer", "async def answer")
    .replace(
        "self.sum_of([call.exec(decoupled=True)])",
        "self.sum_of(await asyncio.gather(*(call.async_exec(decoupled=True) for _ in range(2))))",
    )
)
_COMPLETED = (
    _SUM_AND_DIFFERENCE
    + """
    @staticmethod
    def auto_complete_config(auto_complete_model_config):
        configured = auto_complete_model_config.as_dict()
        for name in ("INPUT0", "INPUT1"):
            if name not in [tensor["name"] for tensor in configured["input"]]:
                auto_complete_model_config.add_input({"name": name, "data_type": "TYPE_FP32", "dims": [4]})
        for name in ("OUTPUT0", "OUTPUT1"):
            if name not in [tensor["name"] for tensor in configured["output"]]:
                auto_complete_model_config.add_output({"name": name, "data_type": "TYPE_FP32", "dims": [4]})
        auto_complete_model_config.set_max_batch_size(MOST)
        DYNAMIC
        return auto_complete_model_config
"""
)
_COUNTING = """
    def initialize(self, args):
        self.family = pb_utils.MetricFamily(
            name="examples_rows_total", description="Rows seen", kind=pb_utils.MetricFamily.COUNTER
        )
        self.metric = self.family.Metric(labels={"model": args["model_name"], "version": args["model_version"]})

    def execute(self, requests):
        for request in requests:
            self.metric.increment(request.inputs()[0].as_numpy().size)
        pb_utils.Logger.log_info(f"rows so far: {self.metric.value():g}")
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.ones(1, np.int32))]) for _ in requests]
"""
_ERRORS = """
    def execute(self, requests):
        responses = []
        for request in requests:
            kind = int(request.inputs()[0].as_numpy()[0])
            if kind == 0:
                responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.ones(1, np.int32))]))
            elif kind == 1:
                error = pb_utils.TritonError("not for you", pb_utils.TritonError.NOT_FOUND)
                responses.append(pb_utils.InferenceResponse(output_tensors=[], error=error))
            else:
                raise pb_utils.TritonModelException("out of order")
        return responses
"""
_KIND = """
    def execute(self, requests):
        seen = [self.args["model_instance_kind"], self.args["model_instance_device_id"], self.args["model_name"]]
        out = pb_utils.Tensor("OUT", np.array(seen, np.object_))
        return [pb_utils.InferenceResponse([out]) for _ in requests]
"""
_PREPROCESS = """
    def execute(self, requests):
        return [self.answer(request.inputs()[0].as_numpy()) for request in requests]

    def answer(self, texts):
        values = np.array([[float(word) for word in text.decode().split()] for text in texts.ravel()], np.float32)
        return pb_utils.InferenceResponse([
            pb_utils.Tensor("VALUES", values), pb_utils.Tensor("NEGATIVE", -values),
        ])
"""


_PREPROCESS_CONFIG = """
backend: "python" max_batch_size: 4
input [{ name: "TEXT" data_type: TYPE_STRING dims: [ 1 ] }]
output [
  { name: "VALUES" data_type: TYPE_FP32 dims: [ 4 ] },
  { name: "NEGATIVE" data_type: TYPE_FP32 dims: [ 4 ] }
]
"""


def _named_pair(more: str) -> str:
    return _PAIR.format(more=more).replace(
        "input [", 'input [{ name: "MODEL_NAME" data_type: TYPE_STRING dims: [ 1 ] }, '
    )


_MODELS = {
    "add_sub": (_SUM_AND_DIFFERENCE, _PAIR.format(more="")),
    "repeat": (_REPEAT, _SINGLE.format(more=_DECOUPLED, dims=-1)),
    "square": (_SQUARE, _SINGLE.format(more=_DECOUPLED, dims=1)),
    "bls_sync": (_CALL_BY_NAME, _named_pair("")),
    "bls_async": (_CALL_TWO, _PAIR.format(more="")),
    "bls_decoupled_sync": (_SUM_SYNC, _SINGLE.format(more="", dims=1)),
    "bls_decoupled_async": (_SUM_ASYNC, _SINGLE.format(more="", dims=1)),
    "batched": (
        _COMPLETED.replace("MOST", "4").replace("DYNAMIC", "auto_complete_model_config.set_dynamic_batching()"),
        "",
    ),
    "unbatched": (_COMPLETED.replace("MOST", "0").replace("DYNAMIC", ""), ""),
    "custom_metrics": (_COUNTING, _SINGLE.format(more="", dims=-1)),
    "errors": (_ERRORS, _SINGLE.format(more="", dims=1)),
    "kind": (
        _KIND,
        _SINGLE.format(more="instance_group [{ kind: KIND_MODEL }]", dims=1).replace(
            'name: "OUT" data_type: TYPE_INT32', 'name: "OUT" data_type: TYPE_STRING'
        ),
    ),
    "preprocess": (
        _PREPROCESS,
        _PREPROCESS_CONFIG,
    ),
}
_PIPELINE = """
platform: "ensemble" max_batch_size: 4
input [{ name: "TEXT" data_type: TYPE_STRING dims: [ 1 ] }]
output [{ name: "RESULT" data_type: TYPE_FP32 dims: [ 4 ] }]
ensemble_scheduling { step [
  { model_name: "preprocess" model_version: -1
    input_map { key: "TEXT" value: "TEXT" }
    output_map { key: "VALUES" value: "values" } output_map { key: "NEGATIVE" value: "negative" } },
  { model_name: "batched" model_version: -1
    input_map { key: "INPUT0" value: "values" } input_map { key: "INPUT1" value: "negative" }
    output_map { key: "OUTPUT1" value: "RESULT" } }
] }
"""


def write_examples(repository: Path) -> None:
    """Write all of them, and `pipeline`, an ensemble of two of them."""
    for name, (body, config) in _MODELS.items():
        folder = repository / name
        (folder / "1").mkdir(parents=True)
        (folder / "1" / "model.py").write_text(_HEAD + body)
        if config:
            (folder / "config.pbtxt").write_text(config)
    (repository / "pipeline" / "1").mkdir(parents=True)
    (repository / "pipeline" / "config.pbtxt").write_text(_PIPELINE)
