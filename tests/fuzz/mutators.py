"""Small damage to files and folders, drawn from a seeded source of chance; each mutator says what it did."""

import json
import os
import shutil

HUGE = 10**30
NUMBERS = (0, -1, 1, 7, HUGE, -HUGE, 2**31, 2**63, 1.5, 1e308, float("nan"), float("inf"))
ABSURD = (*NUMBERS, "", "4", "x" * 3000, "\ud800", None, True, [], {}, [1], {"a": 1})
DEEP = "[" * 40_000 + "]" * 40_000


def files_in(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


# What can happen to any file.


def truncate(chance, path):
    content = path.read_bytes()
    keep = chance.randrange(len(content)) if content else 0
    path.write_bytes(content[:keep])
    return f"cut to {keep} of {len(content)} bytes"


def flip(chance, path, first=0, last=None):
    content = bytearray(path.read_bytes())
    last = len(content) if last is None else last
    if first >= last:
        return "nothing to flip"
    places = [chance.randrange(first, last) for _ in range(chance.choice((1, 1, 3, 20)))]
    for position in places:
        content[position] ^= chance.randrange(1, 256)
    path.write_bytes(bytes(content))
    return f"bytes flipped at {sorted(places)[:5]}"


def insert(chance, path):
    content = path.read_bytes()
    position = chance.randrange(len(content) + 1)
    added = chance.choice((b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"{", b'"', b"\n" * 50, bytes(chance.randbytes(9))))
    path.write_bytes(content[:position] + added + content[position:])
    return f"{added[:8]!r} inserted at {position}"


def double(_, path):
    content = path.read_bytes()
    path.write_bytes(content + content)
    return "written twice"


def empty(_, path):
    path.write_bytes(b"")
    return "emptied"


def zero(_, path):
    path.write_bytes(bytes(path.stat().st_size))
    return "zeroed"


def nested(_, path):
    path.write_text(DEEP, encoding="utf-8")
    return "replaced by deeply nested lists"


def remove(_, path):
    path.unlink()
    return "removed"


def grow(_, path):
    os.truncate(path, 6 * 2**30)  # without taking room on the disk
    return "grown to 6 GiB"


def make_folder(_, path):
    path.unlink()
    path.mkdir()
    return "replaced by a folder"


def make_link(chance, path):
    path.unlink()
    target = chance.choice((path, path.with_name("nowhere"), path.parent, "/dev/zero", "/proc/self/mem"))
    path.symlink_to(target)
    return f"replaced by a link to {os.path.basename(target) or target}"


def make_pipe(_, path):
    path.unlink()
    os.mkfifo(path)
    return "replaced by a pipe"


BYTES = (truncate, truncate, flip, flip, flip, insert, insert, double, empty, zero, nested, grow)
KINDS = (remove, make_folder, make_link, make_pipe)


def damage_file(chance, path):
    """Anything that can happen to a file."""
    return f"{path.name} {chance.choice((*BYTES, *BYTES, *KINDS))(chance, path)}"


# What can happen to the values of a JSON file.


def damage_json(chance, path):
    """Change one place of a JSON file, so that it mostly stays JSON."""
    document = json.loads(path.read_text(encoding="utf-8"))
    places = list(_places(document))
    where, holder, key = chance.choice(places)
    name = f"{path.name}: {where}"
    action = chance.choice(("delete", "absurd", "absurd", "absurd", "rename", "nest", "double"))
    if action == "delete":
        del holder[key]
    elif action == "rename" and isinstance(holder, dict):
        holder[f"{key}_"] = holder.pop(key)
    elif action == "nest":
        holder[key] = "NESTED"
    elif action == "double" and isinstance(holder, list):
        holder.append(holder[key])
    else:
        holder[key] = chance.choice(ABSURD)
        action = f"is {ascii(holder[key])[:30]}"
    path.write_text(json.dumps(document).replace('"NESTED"', DEEP), encoding="utf-8")
    return f"{name} {action}"


def _places(document, where=""):
    pairs = document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    for key, value in list(pairs):
        here = f"{where}/{key}"[-80:]
        yield here, document, key
        if isinstance(value, dict | list) and len(here) < 80:
            yield from list(_places(value, here))[:400]


# What can happen to the header of a safetensors file.


def damage_safetensors(chance, path):
    """Change the header of a safetensors file; its tensors are then others, or elsewhere, or none."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    name = chance.choice([name for name in header if name != "__metadata__"])
    action = chance.choice(("drop", "rename", "shape", "dtype", "offsets", "length", "absurd", "stray", "flip"))
    if action == "drop":
        del header[name]
    elif action == "rename":
        header[chance.choice((f"{name}x", name.upper(), "", "a" * 500))] = header.pop(name)
    elif action == "shape":
        header[name]["shape"] = chance.choice(
            (header[name]["shape"][::-1], [1, *header[name]["shape"]], [HUGE], [-1], [], "x", [0])
        )
    elif action == "dtype":
        header[name]["dtype"] = chance.choice(("F64", "I64", "BOOL", "F16", "X9", "", 3, None, "F8_E4M3"))
    elif action == "offsets":
        header[name]["data_offsets"] = chance.choice(([0, HUGE], [4, 0], [-4, 4], [0], [], "x", [0, len(data)], None))
    elif action == "absurd":
        header[name] = chance.choice(ABSURD)
    elif action == "stray":
        header["stray.weight"] = {"dtype": "F32", "shape": [1], "data_offsets": [len(data), len(data) + 4]}
        data += bytes(4)
    written = json.dumps(header).encode()
    length = len(written)
    if action == "length":
        length = chance.choice((0, 1, length - 1, length + 9, 2**31, 2**62, 2**64 - 1))
    path.write_bytes(length.to_bytes(8, "little") + written + data)
    if action == "flip":
        flip(chance, path, 8, 8 + length)
    return f"{path.name}: header {action} {name}"


def swap_files(chance, folder, names):
    """Let two files trade places."""
    first, second = chance.sample(names, 2)
    shutil.move(folder / first, folder / "traded")
    shutil.move(folder / second, folder / first)
    shutil.move(folder / "traded", folder / second)
    return f"{first} and {second} traded places"


def replace_by_copy(chance, folder, names):
    """Replace a file by a copy of another."""
    first, second = chance.sample(names, 2)
    shutil.copyfile(folder / second, folder / first)
    return f"{first} is a copy of {second}"
