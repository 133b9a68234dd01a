"""
Fetches the three ONNX models of the example repository `text_reader`, which reads the text in a picture.

    python runtime/examples/fetch_text_models.py
    charonia serve --model-repository=runtime/examples/text_reader     # and then runtime/examples/read_text.py

They are PaddleOCR's, in a wheel of the package index (Apache-2.0, 15 MB), of which nothing else is used or installed.
"""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import onnxruntime

REPOSITORY = Path(__file__).with_name("text_reader")
WHEEL = "rapidocr-onnxruntime==1.4.4"
SHA256 = "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf"
MEMBERS = {
    "text_detection": "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
    "text_direction": "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "text_recognition": "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
}


def download(folder: Path) -> Path:
    """The wheel, in `folder`."""
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{WHEEL} --hash=sha256:{SHA256}\n")
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--python-version=3.11"]
    command = [*pip, "--require-hashes", f"--requirement={requirements}", f"--dest={folder}"]
    subprocess.run(command, check=True)  # noqa: S603 - nothing in it comes from outside
    (wheel,) = folder.glob("*.whl")
    return wheel


def unpack(wheel: Path, repository: Path) -> None:
    """Put the models into their folders, and the characters that the last one knows beside the step that names them."""
    with zipfile.ZipFile(wheel) as archive:
        for name, member in MEMBERS.items():
            (repository / name / "1").mkdir(parents=True, exist_ok=True)
            (repository / name / "1" / "model.onnx").write_bytes(archive.read(member))
    session = onnxruntime.InferenceSession(repository / "text_recognition/1/model.onnx")
    characters = session.get_modelmeta().custom_metadata_map["character"]
    (repository / "text_letters/1/characters.txt").write_text(characters, "utf-8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        unpack(download(Path(temporary)), REPOSITORY)
