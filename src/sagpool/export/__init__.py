"""Trained models as files that run without torch and without this package: ONNX or NumPy."""
