"""
Asks a server of the example repository `text_reader` what is written in a picture, and prints it line by line.

    python runtime/examples/read_text.py [PICTURE] [--server localhost:8001]

The picture is a portable bitmap (PBM, kind P4: one bit a pixel); without one it is `text.pbm` beside this file.
"""

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tritonclient.grpc import InferenceServerClient, InferInput

PICTURE = Path(__file__).with_name("text.pbm")


def load(path: Path) -> npt.NDArray[np.uint8]:
    """The picture with three colours. Raises ValueError for a file of another kind."""
    kind, sizes, bits = path.read_bytes().split(b"\n", 2)
    if kind != b"P4":
        raise ValueError(f"{path} is no portable bitmap of kind P4")
    width, height = map(int, sizes.split())
    black = np.unpackbits(np.frombuffer(bits, np.uint8).reshape(height, -1), axis=1)[:, :width]
    return np.repeat(np.where(black, 0, 255).astype(np.uint8)[:, :, np.newaxis], 3, axis=2)


def read(server: str, picture: npt.NDArray[np.uint8]) -> list[str]:
    """The lines of text in the picture, from top to bottom."""
    tensor = InferInput("PICTURE", list(picture.shape), "UINT8")
    tensor.set_data_from_numpy(picture)
    with InferenceServerClient(server) as client:
        answer = client.infer("text_reader", [tensor])
    return [text.decode() for text in answer.as_numpy("TEXT")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", nargs="?", type=Path, default=PICTURE)
    parser.add_argument("--server", default="localhost:8001", help="address of the gRPC service")
    options = parser.parse_args()
    print("\n".join(read(options.server, load(options.picture))))


if __name__ == "__main__":
    main()
