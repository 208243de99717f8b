"""Save every public result of five models, and compare two such folders to the bit: the oracle of a change of structure.

`GLUE_DATA=GLUE python -m studies snapshot --out FOLDER`, then `python -m studies snapshot --compare FOLDER OTHER`. Each result is
a pair of files: arrays in .npz, and texts and single numbers in .json, by their place in the result. Versions, paths, times and
random identifiers are left out.
"""

import argparse
import base64
import dataclasses
import difflib
import inspect
import json
import os
import re
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr

from identiformer.errors import IdentiformerError

VOLATILE = re.compile(r".*_version|versions|python|machine|id|job|.*seconds|times|ending")
"""Names of values that differ between two runs of the same code, or between two installations."""
ELEMENT = re.compile(r'<script type="(?:application/json|text/plain)" id="identiformer-([a-z0-9-]+)">([^<]*)</script>')
OMITTED = re.compile(r"<(script|style)\b.*?</\1>|<dt>\w+_version</dt><dd>.*?</dd>", re.DOTALL)
LONGEST = 3
"""Lines of a difference between texts that are shown."""


def leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The arrays, texts and numbers of a result, each with its place in it."""
    if isinstance(value, xr.Dataset):
        dims = {str(key): " ".join(map(str, variable.dims)) for key, variable in value.variables.items()}
        value = {"attributes": value.attrs, "dims": dims, **{key: variable.values for key, variable in value.variables.items()}}
    elif isinstance(value, torch.Tensor):
        value = value.detach().to(torch.float32 if value.dtype == torch.bfloat16 else value.dtype).numpy()
    elif isinstance(value, bytes):
        value = np.frombuffer(value, np.uint8)
    elif isinstance(value, np.generic):
        value = value.item()
    elif dataclasses.is_dataclass(value):
        value = _parts(value)
    elif isinstance(value, str) and value[:1] in ("{", "["):
        with suppress(ValueError):
            value = json.loads(value)
    if isinstance(value, list | tuple | range) and value and all(type(each) in (int, float, bool) for each in value):
        value = np.array(value)
    if isinstance(value, np.ndarray) and value.dtype.kind not in "iufb":
        value = value.tolist()
    if isinstance(value, list | tuple) and value and all(isinstance(each, str) for each in value):
        value = "\n".join(value)
    if isinstance(value, Mapping):
        value = {str(key): each for key, each in value.items() if not VOLATILE.fullmatch(str(key))}
    elif isinstance(value, list | tuple):
        value = {str(index): each for index, each in enumerate(value)}
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from leaves(f"{name}.{key}", each)
    elif isinstance(value, np.ndarray | str | int | float | None):
        yield name, value


def _parts(value: Any) -> dict[str, Any]:
    """Of a reading: its Dataset, its JSON and its sentences; of anything else, its fields."""
    spoken = {}
    for method in ("as_json", "sentences", "sentence"):
        function = getattr(value, method, None)
        if function is not None and not inspect.signature(function).parameters:
            spoken[method] = function()
    fields = ["result"] if hasattr(value, "result") else [field.name for field in dataclasses.fields(value)]
    return {**spoken, **{name: getattr(value, name) for name in fields}}


def page_data(html: str) -> dict[str, Any]:
    """The data in a page, and its text and pictures without scripts, styles and versions."""
    data = {
        name: base64.b64decode(content) if name.startswith("layer") else json.loads(content)
        for name, content in ELEMENT.findall(html)
    }
    return {"data": data, "text": OMITTED.sub("", html)}


def save(out: Path) -> None:
    """Compute and save every result; errors of the toolkit are results too, other errors are printed."""
    from studies.snapshot_results import results

    with tempfile.TemporaryDirectory() as temporary:
        for name, compute in results(Path(temporary)):
            torch.manual_seed(0)
            start = time.process_time()
            try:
                value = compute()
            except IdentiformerError as error:
                value = f"{type(error).__name__}: {error}"
            except Exception as error:
                traceback.print_exc()
                value = f"unexpected {type(error).__name__}"
            found = dict(leaves("", value))
            arrays = {place: each for place, each in found.items() if isinstance(each, np.ndarray)}
            path = out / f"{name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            texts = json.dumps({place: each for place, each in found.items() if place not in arrays}, indent=0)
            path.write_text(texts.replace(temporary, "TEMPORARY").replace(version("identiformer"), "VERSION"))
            np.savez(path.with_suffix(".npz"), **arrays)
            print(f"{time.process_time() - start:6.1f} s  {name}", flush=True)


def load(path: Path) -> dict[str, Any]:
    """The leaves of a saved result."""
    with np.load(path.with_suffix(".npz")) as arrays:
        return {**json.loads(path.read_text()), **arrays}


def differences(first: Path, second: Path) -> Iterator[str]:
    """One line per value that is not the same to the bit."""
    names = [{str(path.relative_to(folder)) for path in folder.rglob("*.json")} for folder in (first, second)]
    for name in sorted(names[0] | names[1]):
        if name not in names[0] & names[1]:
            yield f"{name}: only in {first if name in names[0] else second}"
            continue
        one, other = load(first / name), load(second / name)
        for place in sorted({*one, *other}):
            where = f"{name.removesuffix('.json')}{place}"
            if place not in one or place not in other:
                yield f"{where}: only in {first if place in one else second}"
            elif (change := difference(one[place], other[place])) is not None:
                yield f"{where}: {change}"


def difference(one: Any, other: Any) -> str | None:
    """How two values differ; None if they are the same to the bit."""
    if isinstance(one, str) and isinstance(other, str):
        lines = difflib.unified_diff(one.splitlines(), other.splitlines(), n=0, lineterm="")
        changed = [line[:200] for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]
        return None if one == other else "\n    ".join([f"{len(changed)} lines", *changed[:LONGEST]])
    first, second = np.asarray(one), np.asarray(other)
    kinds = [(array.dtype, array.shape) for array in (first, second)]
    if kinds[0] != kinds[1] or first.dtype.kind not in "iufb":
        return None if one is other else f"{kinds[0]} {str(one)[:60]} became {kinds[1]} {str(other)[:60]}"
    if first.tobytes() == second.tobytes():
        return None
    gap = np.abs(first.astype(float) - second.astype(float))
    undefined = int((np.isnan(first.astype(float)) != np.isnan(second.astype(float))).sum())
    return f"max |difference| {np.nanmax(gap, initial=0):.3g}" + (f", {undefined} of them NaN on one side" if undefined else "")


def main(arguments: list[str]) -> int:
    """Save a snapshot, or compare two."""
    parser = argparse.ArgumentParser(prog="python -m studies snapshot", description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--out", type=Path, help="folder to write")
    action.add_argument("--compare", type=Path, nargs=2, metavar="FOLDER", help="two folders to compare")
    options = parser.parse_args(arguments)
    if options.out is not None:
        os.environ |= {"OMP_NUM_THREADS": "1", "COLUMNS": "120", "HF_HUB_OFFLINE": "1"}
        torch.set_num_threads(1)
        save(options.out)
        return 0
    found = list(differences(*options.compare))
    print("\n".join([*found, f"{len(found)} differences"]))
    return int(bool(found))
