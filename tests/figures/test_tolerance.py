import numpy as np
import xarray as xr

from identiformer.figures import draw_tolerance


def test_curves_bands_and_rounding_show_the_result():
    dims = ("dtype", "tolerance", "quantile")
    arrays = {name: (dims, np.sort(np.random.default_rng(0).random((2, 3, 3)))) for name in ("certified", "change", "rounding")}
    coordinates = {"dtype": ["float32", "bfloat16"], "tolerance": [1e-4, 1e-3, 1e-2], "quantile": [0.25, 0.5, 0.75]}
    result = xr.Dataset(arrays, coordinates, {"model": "folder/minilm", "output": "1 - cos"})
    share, change = draw_tolerance(result)
    assert share.get_title() == "minilm"
    for ax, name in ((share, "certified"), (change, "change")):
        curves = [line for line in ax.lines if line.get_label() in ("float32", "bfloat16")]
        for line, dtype in zip(curves, ("float32", "bfloat16"), strict=True):
            np.testing.assert_allclose(line.get_ydata(), result[name].sel(dtype=dtype, quantile=0.5))
        assert len(ax.collections) == 2  # the bands
    assert [text.get_text() for text in change.get_legend().get_texts()] == ["rounding of float32", "rounding of bfloat16"]
