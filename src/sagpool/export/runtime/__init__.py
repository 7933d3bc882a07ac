"""The forward pass of an exported model over a small set of array operations.

These files import NumPy and each other, nothing else. `--to numpy` copies them into one file; ONNX
nodes are made by the same functions, called with `sagpool.export.onnx_arrays` in place of
`NumpyArrays`. So there is one description of every layer.
"""
