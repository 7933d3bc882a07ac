"""Trained models as files that run without torch and without this package: ONNX or NumPy."""

from sagpool.export.check import Agreement
from sagpool.export.write import Exported, export

__all__ = ["Agreement", "Exported", "export"]
