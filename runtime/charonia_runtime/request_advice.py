"""Advice that the log of requests adds to refusals whose text clients know from Triton, letter by letter."""

from charonia_runtime.core.advice import AdviceTable

_ADVICE = (
    (r"version \d+ is not found", "leave the version out for the newest; POST /v2/repository/index lists the others"),
    (
        r"Request for unknown model",
        "POST /v2/repository/index lists every model with its state",
    ),
    (r"but missing required input", "send each input that GET /v2/models/NAME lists"),
    (r"unexpected inference input", "GET /v2/models/NAME lists the names; case matters"),
    (
        r"data-type is '\w+', but model '[^']*' expects",
        "convert it, as in array.astype(np.float32) for FP32; GET /v2/models/NAME lists the types",
    ),
    (
        r"invalid datatype for input",
        "types on the wire are BOOL, UINT8 to UINT64, INT8 to INT64, FP16, FP32, FP64, BF16 and BYTES",
    ),
    (
        r"unexpected shape for input",
        "-1 stands for any size; where max_batch_size is above 0, the first dimension is the batch, 1 for a single row",
    ),
    (
        r"inference request batch-size must be <=",
        "send parts of at most max_batch_size, or raise it in config.pbtxt",
    ),
    (r"[Ss]hape does not match true shape", "send as many elements as the product of the shape"),
    (r"attempt to access JSON non-number as", "send numbers; text needs the type BYTES"),
    (r"Unable to parse 'shape': attempt to access non-existing", 'add "shape": [1, 4] or the like to the input'),
    (
        r"unexpected inference output",
        "GET /v2/models/NAME lists the outputs; leave outputs out for all of them",
    ),
    (r"Missing a name for object member", "JSON is made by json.dumps(...), not by str(...)"),
    (
        r"failed to parse the request JSON buffer",
        "send JSON, or binary tensors with the header Inference-Header-Content-Length",
    ),
    (
        r"input byte size mismatch for input 'raw_input'",
        "with curl the body is -d @request.json; a request without one counts as a raw tensor",
    ),
    (r"^Method Not Allowed$", "inference is POST, documents about models are GET"),
    (
        r"^Not Found$",
        (
            "inference is POST /v2/models/NAME/infer or /v2/models/NAME/versions/NUMBER/infer; paths of TensorFlow "
            "Serving are not served"
        ),
    ),
    (
        r"Unable to find (?:system |cuda )?shared memory region",
        "register it first: POST /v2/systemsharedmemory/region/NAME/register",
    ),
    (
        r"explicit model load / unload is not allowed",
        "start the server with --model-control-mode=explicit",
    ),
)  # fmt: skip

advise_on_request = AdviceTable(_ADVICE).advise
"""What to do about the error of a request, in brackets with a space before; empty where its text says enough."""
