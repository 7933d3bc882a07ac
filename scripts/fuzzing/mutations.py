"""Seeded damage to bytes, texts and JSON values."""

from random import Random
from typing import Any

ODD_TEXTS = (
    *("", " ", "0", "-1", "1", "2", "1.0", "+1", "-0", "1_0", "0x10", "1e3", "1e999", ".5", "1."),
    *("nan", "inf", "-inf", "true", "null", "None", "9" * 19, "9" * 30, "9" * 5000, "٣", "１"),
    *("\x00", "\t", "é", "\u2028", "a,b", '"', "'", "[", "{", "[/red]", "\\", "..", "/", "~x", "C"),
    *("2019-05-14", "!!int x", "&a", "*a", "<<", "-", "#", "=1+1", "%s", "{0}", "C:\\data\\new"),
)
ODD_NUMBERS = (
    *(0, 1, -1, 2, 3, 7, 64, 255, 2**15, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63),
    *(10**30, -(10**30), 10**310, 0.5, -0.5, 1.0, 1e-320, 1e308, 1e39, float("nan"), float("inf")),
)


def odd_value(random: Random, depth: int = 2) -> Any:
    """A JSON value that is rarely the expected one."""
    kind = random.randrange(8 if depth else 5)
    if kind == 0:
        return random.choice((None, True, False))
    if kind in (1, 2):
        return random.choice(ODD_NUMBERS)
    if kind in (3, 4):
        return random.choice(ODD_TEXTS)
    if kind == 5:
        return [odd_value(random, depth - 1) for _ in range(random.randrange(4))]
    if kind == 6:
        return {
            random.choice(ODD_TEXTS): odd_value(random, depth - 1)
            for _ in range(random.randrange(3))
        }
    deep: Any = []
    for _ in range(random.choice((3, 60, 500))):
        deep = [deep]
    return deep


def mutate_json(random: Random, value: Any) -> Any:
    """The value with one entry replaced, removed, added or repeated, at any depth."""
    if isinstance(value, dict) and value and random.random() < 0.85:
        key = random.choice(list(value))
        changed = dict(value)
        action = random.randrange(10)
        if action == 0:
            del changed[key]
        elif action == 1:
            changed[random.choice(ODD_TEXTS)] = odd_value(random)
        elif action == 2:
            changed[random.choice(ODD_TEXTS)] = changed.pop(key)
        else:
            changed[key] = mutate_json(random, value[key])
        return changed
    if isinstance(value, list) and value and random.random() < 0.85:
        place = random.randrange(len(value))
        changed_list = list(value)
        action = random.randrange(10)
        if action == 0:
            del changed_list[place]
        elif action == 1:
            changed_list.insert(place, odd_value(random))
        elif action == 2:
            changed_list *= random.choice((0, 2, 3))
        else:
            changed_list[place] = mutate_json(random, value[place])
        return changed_list
    return odd_value(random)


def mutate_bytes(random: Random, content: bytes) -> bytes:
    """A few bytes changed, removed, added, repeated or cut off."""
    data = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 4, 16))):
        place = random.randrange(len(data) + 1)
        action = random.randrange(6)
        if action == 0 and data:
            data[min(place, len(data) - 1)] ^= 1 << random.randrange(8)
        elif action == 1 and data:
            data[min(place, len(data) - 1)] = random.randrange(256)
        elif action == 2:
            del data[place : place + random.choice((1, 2, 8, 64))]
        elif action == 3:
            data[place:place] = random.choice(ODD_TEXTS)[:40].encode()
        elif action == 4:
            data[place:place] = data[place : place + random.choice((1, 4, 32))]
        elif random.random() < 0.3:
            del data[place:]
    return bytes(data)


def mutate_lines(random: Random, lines: list[str], separator: str = ",") -> list[str]:
    """A field replaced, or a line removed, repeated, moved or added."""
    lines = list(lines)
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        place = random.randrange(len(lines)) if lines else 0
        action = random.randrange(8)
        if not lines or action == 0:
            lines.insert(place, random.choice(ODD_TEXTS))
        elif action == 1:
            del lines[place]
        elif action == 2:
            lines.insert(place, lines[place])
        elif action == 3:
            lines.append(lines.pop(place))
        else:
            fields = lines[place].split(separator)
            column = random.randrange(len(fields))
            if action == 4:
                fields.insert(column, random.choice(ODD_TEXTS))
            elif action == 5:
                del fields[column]
            else:
                fields[column] = random.choice(ODD_TEXTS)
            lines[place] = separator.join(fields)
    return lines
