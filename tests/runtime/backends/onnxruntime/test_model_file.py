"""Where the model is looked for."""

from pathlib import Path

import numpy as np

from tests.support import onnx_models
from tests.support.onnx_loading import Loaded, blank


class TestFiles:
    def test_a_folder_holds_the_model_and_its_external_data(self, tmp_path: Path) -> None:
        weights = np.arange(6, dtype=np.float32).reshape(3, 2)
        folder = tmp_path / "1" / "model.onnx"
        folder.mkdir(parents=True)
        onnx_models.with_external_data(folder, weights)
        assert (folder / "weights.bin").stat().st_size == weights.nbytes
        loaded = Loaded(tmp_path, b"", blank()).load()
        sent = np.ones((2, 3), np.float32)
        np.testing.assert_array_equal(loaded.run({"INPUT": sent}).arrays_of(0)["OUTPUT"], sent @ weights)

    def test_external_data_may_lie_beside_the_file(self, tmp_path: Path) -> None:
        (tmp_path / "1").mkdir()
        onnx_models.with_external_data(tmp_path / "1", np.eye(3, dtype=np.float32))
        sent = np.ones((1, 3), np.float32)
        loaded = Loaded(tmp_path, b"", blank()).load()
        np.testing.assert_array_equal(loaded.run({"INPUT": sent}).arrays_of(0)["OUTPUT"], sent)

    def test_the_configuration_may_name_the_file(self, tmp_path: Path) -> None:
        (tmp_path / "1").mkdir()
        (tmp_path / "1" / "other.onnx").write_bytes(onnx_models.identity())
        config = Loaded(tmp_path, b"", blank(default_model_filename="other.onnx")).config
        assert [spec.name for spec in config.inputs] == ["INPUT"]
