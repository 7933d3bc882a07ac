"""The forward pass of an exported model over a small set of array operations.

These files import only NumPy and each other. `--to numpy` copies them into one file; ONNX nodes are
made by the same functions, called with `sagpool.export.onnx_arrays` in place of `NumpyArrays`. So
every layer is described only once.
"""
