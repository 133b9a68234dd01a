"""Advice that the log adds to errors whose text clients know from Triton, letter by letter."""

from charonia_runtime.core.advice import AdviceTable
from charonia_runtime.core.platforms import PLATFORMS_OF_BACKEND

_ADVICE = (
    (r"No module named 'pb_utils'", "write: import triton_python_backend_utils as pb_utils"),
    (
        r"(?:ModuleNotFoundError|line \d+): No module named '(?P<name>[\w.]+)'",
        (
            "install the package of '{name}' where the model runs, or name an environment that has it with the "
            "parameter EXECUTION_ENV_PATH in config.pbtxt"
        ),
    ),
    (r"has no attribute 'TritonPythonModel'", "a model.py needs a class TritonPythonModel with a method execute"),
    (
        r"Stub process '[^']*' is not healthy",
        "the process of model.py has ended: a crash, os._exit, or too little memory; the lines above may tell",
    ),
    (
        r"has kind KIND_GPU but no GPUs are available",
        "run it on a machine with a GPU, or say KIND_CPU or KIND_AUTO in instance_group",
    ),
    (
        r"must specify '(?P<field>\w+)'",
        "add {field} to it in config.pbtxt, such as {field}: [ 4 ]; -1 is a size that varies",
    ),
    (
        r"directory name must equal model name",
        "rename the folder, or leave name out of config.pbtxt: a model's name is that of its folder",
    ),
    (
        r"released a request without sending its final response",
        "execute must return a list with one InferenceResponse for each request",
    ),
    (
        r"InferenceResponse objects do not match the number of InferenceRequest",
        "execute must return a list with one InferenceResponse for each request",
    ),
    (
        r"c_python_backend_utils\.Tensor\(arg0: str, arg1: numpy\.ndarray\)",
        "a Tensor takes a name and a numpy array; text is np.array([...], dtype=object)",
    ),
    (
        r"Expected an 'InferenceResponse' object",
        "wrap what a request gets: pb_utils.InferenceResponse([pb_utils.Tensor(name, array)])",
    ),
    (
        r"'NoneType' object has no attribute 'as_numpy'",
        "get_input_tensor_by_name gives None for an input that the request has not: compare the name with config.pbtxt",
    ),
    (
        r"unexpected platform type '",
        (
            "known are ensemble, "
            + ", ".join(sorted(platform for platforms in PLATFORMS_OF_BACKEND.values() for platform in platforms))
            + "; leave platform out where backend says it"
        ),
    ),
    (r"contains models that are not available", "put its folder into a model repository, or correct model_name"),
    (r"mapping to non-existing input", "the keys of input_map are inputs of the step's model, as in its config.pbtxt"),
    (r"mapped from non-existing output", "the keys of output_map are outputs of the step's model"),
)
advise_on_error = AdviceTable(_ADVICE).advise
"""What to do about an error of a model, in brackets with a space before; empty where its text says enough."""
