"""The inputs of ``scripts/fuzz.py``: how they are made, and how accepted ones are checked."""
