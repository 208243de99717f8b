"""Snapshots of results: what is saved of a result, and which differences are found."""

import numpy as np
import pytest
import torch
import xarray as xr

from identiformer.errors import InputError
from identiformer.page.html import json_element
from studies import snapshot, snapshot_results


def save(monkeypatch, out, **results):
    def computed(folder):
        for name, value in results.items():
            yield f"group/{name}", lambda value=value: value(folder) if callable(value) else value

    monkeypatch.setattr(snapshot_results, "results", computed)
    snapshot.save(out)
    return out


def dataset(weight, **attributes):
    return xr.Dataset({"weight": (("query", "key"), weight)}, {"key_token": ("key", ["a", "b"])}, attributes)


WEIGHT = np.array([[0.25, 0.75], [np.nan, 1.0]])


def test_equal_results_have_no_differences(monkeypatch, tmp_path):
    """Whatever the version, the time and the temporary folder; also NaN and results that are errors."""

    def rejected(_):
        raise InputError("expected a text, got none.")

    first, second = (
        save(
            monkeypatch,
            tmp_path / name,
            dataset=dataset(WEIGHT, torch_version=name, settings='{"seed": 0}'),
            states=lambda folder, name=name: {"hidden": torch.randn(3), "seconds": name, "path": f"{folder}/a", "empty": None},
            error=rejected,
        )
        for name in ("first", "second")
    )
    assert snapshot.main(["--compare", str(first), str(second)]) == 0
    assert snapshot.load(first / "group/error.json") == {"": "InputError: expected a text, got none."}
    assert snapshot.load(first / "group/dataset.json")[".attributes.settings.seed"] == 0


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"dataset": dataset(WEIGHT + 1e-9)}, "group/dataset.weight: max |difference| 1e-09"),
        ({"dataset": dataset(np.nan_to_num(WEIGHT))}, "group/dataset.weight: max |difference| 0, 1 of them NaN on one side"),
        ({"dataset": dataset(WEIGHT.astype("float32"))}, "group/dataset.weight: (dtype('float64'), (2, 2))"),
        ({"sentences": ["One.", "Three."]}, "group/sentences: 2 lines\n    -Two.\n    +Three."),
        ({"number": 2}, "group/number: max |difference| 1"),
        ({"more": "x"}, "group/more.json: only in "),
    ],
)
def test_a_difference_is_listed_with_its_place_and_size(monkeypatch, tmp_path, capsys, change, found):
    results = {"dataset": dataset(WEIGHT), "sentences": ["One.", "Two."], "number": 1}
    first, second = save(monkeypatch, tmp_path / "first", **results), save(monkeypatch, tmp_path / "second", **results | change)
    capsys.readouterr()
    assert snapshot.main(["--compare", str(first), str(second)]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith(found)
    assert printed.endswith("\n1 differences\n")


def test_the_data_of_a_page_are_read_from_its_elements():
    layer = '<script type="text/plain" id="identiformer-layer-1">AAEC</script>'
    data = f"{json_element('summary', {'text': '</script>'})}{layer}"
    page = f"<p>{data}<script>code()</script><dt>torch_version</dt><dd>2</dd>Text</p>"
    assert snapshot.page_data(page) == {"data": {"summary": {"text": "</script>"}, "layer-1": b"\0\1\2"}, "text": "<p>Text</p>"}
