"""Short texts with names of methods, which a report shows in its own way."""

from collections.abc import Iterable, Sequence

from sagpool.statistics import Difference


class Method(str):
    """The registered name of a method inside a phrase."""


Phrase = tuple[str, ...]  # to be joined; some parts are a `Method`


def with_methods(text: str) -> Phrase:
    """Split a text with methods in backticks: "`sagpool-h` is ahead of `gpool-h`"."""
    parts = text.split("`")
    return tuple(Method(part) if number % 2 else part for number, part in enumerate(parts) if part)


def signed(value: float) -> str:
    return f"{value:+z.2f}".replace("-", "−")


def interval(difference: Difference) -> str:
    """The difference with its 95 % interval: +0.80 (−0.57 to +2.17)."""
    ends = difference.interval()
    shown = "interval unknown" if ends is None else " to ".join(map(signed, ends))
    return f"{signed(difference.mean)} ({shown})"


def p_text(p: float) -> str:
    if p < 0.001:
        return "< 0.001"
    return f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def listed(methods: Sequence[str]) -> Phrase:
    """Text for one method, or for the mean of several."""
    names = joined(((Method(method),) for method in methods), ", ")
    return names if len(methods) == 1 else ("mean (", *names, ")")


def joined(phrases: Iterable[Phrase], between: str) -> Phrase:
    parts: list[str] = []
    for number, phrase in enumerate(phrases):
        parts += [between] * bool(number) + list(phrase)
    return tuple(parts)
