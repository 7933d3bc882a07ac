"""Options that several commands read in the same way."""

from sagpool.bench.experiment import parse_value
from sagpool.errors import SagpoolError
from sagpool.models import Value


def several(options: list[str] | None) -> tuple[str, ...]:
    """Of an option that may be repeated, and may have commas."""
    return tuple(name for option in options or () for name in option.split(",") if name)


def parse_settings(options: list[str] | None) -> dict[str, tuple[Value, ...]]:
    """``--set lr=0.005``, and ``--set lr=0.01,0.001`` or the option twice for several values."""
    settings: dict[str, tuple[Value, ...]] = {}
    for option in options or ():
        name, sign, values = option.partition("=")
        if not sign or not name:
            raise SagpoolError(f"--set takes NAME=VALUE, not '{option}'.")
        given = tuple(parse_value(value.strip()) for value in values.split(","))
        settings[name.strip()] = settings.get(name.strip(), ()) + given
    return settings
