"""Characters as LaTeX commands that pdflatex knows in any font encoding."""

import unicodedata
from unicodedata import combining

_MATHS = {
    "±": r"\pm",
    "−": "-",
    "×": r"\times",
    "÷": r"\div",
    "·": r"\cdot",
    "†": r"^\dagger",
    "°": r"^\circ",
    "≤": r"\leq",
    "≥": r"\geq",
    "≠": r"\neq",
    "≈": r"\approx",
    "∞": r"\infty",
    "→": r"\to",
    "←": r"\leftarrow",
    **{digit: f"^{number}" for number, digit in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
    **{digit: f"_{number}" for number, digit in enumerate("₀₁₂₃₄₅₆₇₈₉")},
}
_COMMANDS = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    # Without braces they would become an argument of a preceding line break or rule.
    "[": "{[}",
    "*": "{*}",
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "…": r"\ldots{}",
    "⁄": "/",
    **{character: f"${command}$" for character, command in _MATHS.items()},
}
_KNOWN = "ßæœøåÆŒØÅłŁ§¶©£¡¿‘’“”–—"
_ACCENTS = {unicodedata.lookup(f"COMBINING {name}") for name in (
    "GRAVE ACCENT", "ACUTE ACCENT", "CIRCUMFLEX ACCENT", "TILDE", "DIAERESIS", "CARON",
    "CEDILLA", "RING ABOVE", "MACRON", "BREVE", "DOT ABOVE", "DOUBLE ACUTE ACCENT",
)}  # fmt: skip
_GREEK = (
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa",
    "lambda", "mu", "nu", "xi", "omicron", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi",
    "psi", "omega",
)  # fmt: skip
# Greek letters that look like Latin ones have no command.
_LATIN = dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΧο", "ABEZHIKMNOPTXo", strict=True))


def _greek_letters() -> dict[str, str]:
    letters = {"ς": r"$\varsigma$"}
    for name in _GREEK:
        spelled = name.replace("lambda", "lamda").upper()
        letters[unicodedata.lookup(f"GREEK SMALL LETTER {spelled}")] = f"$\\{name}$"
        capital = unicodedata.lookup(f"GREEK CAPITAL LETTER {spelled}")
        letters[capital] = f"$\\{name.capitalize()}$"
    return letters | _LATIN


_COMMANDS |= _greek_letters()


class _Table(dict[int, str]):
    """A table for ``str.translate`` that looks up each character at its first use."""

    def __missing__(self, number: int) -> str:
        self[number] = _in_tex(chr(number))
        return self[number]


TEX = _Table()


def _in_tex(character: str) -> str:
    if character in _COMMANDS:
        return _COMMANDS[character]
    if character.isascii() or character in _KNOWN:
        return character if character.isprintable() else " "
    decomposed = unicodedata.normalize("NFD", character)
    letter, marks = decomposed[0], decomposed[1:]
    if letter.isascii() and marks and all(mark in _ACCENTS for mark in marks):
        return character
    if character.isspace():
        return " "
    # Removes accents of Greek letters, and splits ligatures into letters.
    parts = [one for one in unicodedata.normalize("NFKD", character) if not combining(one)]
    if all(one.isascii() or one in _COMMANDS for one in parts):
        return "".join(map(_in_tex, parts))
    return f"{{[}}U+{ord(character):04X}]"
