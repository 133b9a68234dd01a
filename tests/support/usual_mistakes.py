"""The usual mistakes of those who write a model repository, and of their clients: the rows of `runtime/docs/mistakes.md`."""

import json
from collections.abc import Mapping
from pathlib import Path

IO = 'input { name: "X" data_type: TYPE_FP32 dims: 4 }\noutput { name: "Y" data_type: TYPE_FP32 dims: 4 }\n'
CONFIG = f'backend: "python"\nmax_batch_size: 8\n{IO}'
STEP = 'ensemble_scheduling { step { model_name: "%s" model_version: -1 input_map { key: "%s" value: "X" } '
STEP += 'output_map { key: "Y" value: "Y" } } }'


def code(
    *,
    head: str = "import triton_python_backend_utils as pb_utils",
    name: str = "TritonPythonModel",
    initialize: str = "pass",
    given: str = "X",
    answer: str = 'pb_utils.InferenceResponse([pb_utils.Tensor("Y", x * 2)])',
    end: str = "return answers",
) -> str:
    """A `model.py` that doubles X, with one of its parts replaced."""
    return (
        f"{head}\nimport numpy as np\n\nclass {name}:\n    def initialize(self, args):\n        {initialize}\n\n"
        "    def execute(self, requests):\n        answers = []\n        for request in requests:\n"
        f'            x = pb_utils.get_input_tensor_by_name(request, "{given}").as_numpy()\n'
        f"            answers.append({answer})\n        {end}\n"
    )


def a_response(tensor: str) -> str:
    return f"pb_utils.InferenceResponse([pb_utils.Tensor({tensor})])"


GOOD = {"config.pbtxt": CONFIG, "1/model.py": code()}


def with_config(config: str) -> dict[str, str]:
    return {**GOOD, "config.pbtxt": config}


def with_code(**parts: str) -> dict[str, str]:
    return {**GOOD, "1/model.py": code(**parts)}


MODELS: Mapping[str, Mapping[str, str]] = {
    "`name` is not the folder's": with_config(f'name: "other"\n{CONFIG}'),
    "no version folder": {"config.pbtxt": CONFIG, "model.py": code()},
    "version folder `v1`": {"config.pbtxt": CONFIG, "v1/model.py": code()},
    "no configuration, file misnamed": {"1/net.onnx": "x"},
    "configuration in the version folder": {"1/weights.bin": "x", "1/config.pbtxt": CONFIG},
    "a field that is none": with_config(CONFIG.replace("max_batch_size", "max_batchsize")),
    "`data_type: FP32`": with_config(CONFIG.replace("TYPE_FP32", "FP32", 1)),
    "`data_type: TYPE_FLOAT32`": with_config(CONFIG.replace("TYPE_FP32", "TYPE_FLOAT32", 1)),
    "a bracket that is not closed": with_config('backend: "python"\ninput [ { name: "X" dims: [ 4 ] ]\n'),
    "JSON in `config.pbtxt`": with_config('{"name": "m", "backend": "python"}'),
    "`config.yaml`": {"config.yaml": "name: m", "1/model.py": code()},
    "`dims` left out": with_config(CONFIG.replace(" dims: 4", "", 1)),
    "a backend that is none": with_config(CONFIG.replace('"python"', '"pytohn"')),
    "`model.py` misnamed": {"config.pbtxt": CONFIG, "1/mymodel.py": code()},
    "`KIND_GPU` without a GPU": with_config(f"{CONFIG}instance_group {{ kind: KIND_GPU }}"),
    "a package that is not installed": with_code(head="import sklearnx"),
    "a package that `initialize` lacks": with_code(initialize="import torch_nonexistent"),
    "`import pb_utils`": with_code(head="import pb_utils"),
    "a syntax error": {**GOOD, "1/model.py": code().replace("requests):", "requests)")},
    "another class": with_code(name="MyModel"),
    "an exception in `initialize`": with_code(initialize='self.k = args["nokey"]'),
    "the process ends in `initialize`": with_code(initialize="import os; os._exit(3)"),
    "an ensemble of a model that is not there": {
        "config.pbtxt": f'platform: "ensemble"\n{IO}{STEP % ("nope", "X")}',
        "1/.keep": "",
    },
    "an ensemble with a wrong key": {
        "config.pbtxt": f'platform: "ensemble"\nmax_batch_size: 8\n{IO}{STEP % ("sound", "x")}',
        "1/.keep": "",
    },
    "a Git LFS pointer": {"1/model.onnx": "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"},
    "a pickle": {"1/model.pkl": "\x80\x04x"},
    "an answer with another name": with_code(answer=a_response('"Z", x * 2')),
    "an answer of another type": with_code(answer=a_response('"Y", (x * 2).astype(np.float64)')),
    "an answer without the batch dimension": with_code(answer=a_response('"Y", (x * 2)[0]')),
    "an exception in `execute`": with_code(answer="1 / 0"),
    "`execute` returns nothing": with_code(end="pass"),
    "`execute` returns too few answers": with_code(end="return []"),
    "a list in a tensor": with_code(answer=a_response('"Y", ["a"]')),
    "an array in the place of a response": with_code(answer="x * 2"),
    "the process is killed in `execute`": with_code(end="import os; os.kill(os.getpid(), 9)"),
    "the name of an input misspelt": with_code(given="x"),
}
"""Row → the files of its model, each under its path in the model's folder."""

REPOSITORIES: Mapping[str, Mapping[str, str]] = {
    "an empty repository": {},
    "a loose model file": {"m/config.pbtxt": CONFIG, "m/1/model.py": code(), "net.onnx": "x"},
    "the repository is a model's folder": GOOD,
}
"""Row → the files of the whole repository."""


def _infer(**changes: object) -> str:
    tensor = {"name": "X", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4], **changes}
    return json.dumps({"inputs": [{name: value for name, value in tensor.items() if value is not None}]})


INFER = "/v2/models/m/infer"
REQUESTS: Mapping[str, tuple[str, str, str | None]] = {
    "a model that is not there": ("POST", "/v2/models/nope/infer", _infer()),
    "a version that is not there": ("POST", "/v2/models/m/versions/7/infer", _infer()),
    "a version that is no number": ("POST", "/v2/models/m/versions/latest/infer", _infer()),
    "no inputs": ("POST", INFER, '{"inputs": []}'),
    "an input with another name": ("POST", INFER, _infer(name="Z")),
    "an input of another type": ("POST", INFER, _infer(datatype="INT32")),
    "a type that is none": ("POST", INFER, _infer(datatype="FLOAT32")),
    "the batch dimension left out": ("POST", INFER, _infer(shape=[4])),
    "another shape": ("POST", INFER, _infer(shape=[1, 3], data=[1, 2, 3])),
    "too large a batch": ("POST", INFER, _infer(shape=[9, 4], data=[1] * 36)),
    "fewer elements than the shape says": ("POST", INFER, _infer(data=[1, 2, 3])),
    "text where numbers are expected": ("POST", INFER, _infer(data=["a", 2, 3, 4])),
    "no shape": ("POST", INFER, _infer(shape=None)),
    "an output that is not there": ("POST", INFER, _infer()[:-1] + ', "outputs": [{"name": "Q"}]}'),
    "a body that is no JSON": ("POST", INFER, "hello"),
    "a Python dict in the place of JSON": ("POST", INFER, "{'inputs': []}"),
    "an empty body": ("POST", INFER, ""),
    "GET in the place of POST": ("GET", INFER, None),
    "the path of another protocol": ("POST", "/v1/models/m:predict", _infer()),
    "shared memory that is not registered": (
        "POST",
        INFER,
        _infer(data=None, parameters={"shared_memory_region": "r", "shared_memory_byte_size": 16}),
    ),
    "load without `--model-control-mode=explicit`": ("POST", "/v2/repository/models/m/load", "{}"),
}
"""Row → method, path and body."""


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Put the files of a model, or of a repository, into `folder`."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode("latin-1"))
