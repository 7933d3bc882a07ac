"""Input from outside: limits, and the decoding and checking of JSON, YAML, arrays and zips.

A function of this package either returns a value of its declared type, or raises a
`SagpoolError` with a sentence. Nothing in a file is ever executed or unpickled.
"""
