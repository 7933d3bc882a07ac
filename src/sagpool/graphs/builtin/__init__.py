"""Data that ships with the package: ``MUTAG.npz``, packed by ``pack_mutag.py``."""

BUILT_IN = ("MUTAG", "motifs")
