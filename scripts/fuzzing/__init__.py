"""The inputs of ``scripts/fuzz.py``: what they are made of, and how accepted ones are checked."""
