"""Image files as a vision model reads them."""

import numpy as np
import pytest
import torch
from PIL import Image

import identiformer as idf
from identiformer.errors import InputError
from identiformer.models.pictures import FORMATS, patch_grid
from tests.models.tiny_vit import save_picture, save_tiny_vit


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return idf.load(save_tiny_vit(tmp_path_factory.mktemp("vit")))


@pytest.fixture
def path(tmp_path):
    return save_picture(tmp_path / "ball.png")


def test_a_picture_is_what_the_model_sees(model, path):
    picture = idf.open_picture(model, path)
    with Image.open(path) as image:
        exact = model.tokenizer(images=image.convert("RGB"), return_tensors="pt")["pixel_values"][0]
    assert torch.equal(picture.pixels, exact)
    assert picture.colors.shape == (32, 32, 3)
    np.testing.assert_array_equal(picture.colors[0, 0], 255)  # white
    np.testing.assert_allclose(picture.colors[16, 16], [200, 0, 0], atol=2)
    trace = model.trace(picture.pixels)
    assert patch_grid(trace.stack().queries) == (4, 4, 1)
    assert trace.source["text"] == model.trace(picture.pixels).source["text"]


def test_a_photo_is_rotated_by_its_exif_orientation(model, tmp_path):
    image = Image.new("RGB", (64, 32), "black")
    image.paste("white", (0, 0, 32, 32))
    exif = Image.Exif()
    exif[0x0112] = 6  # turn right
    image.save(tmp_path / "turned.jpg", exif=exif, quality=95)
    colors = idf.open_picture(model, tmp_path / "turned.jpg").colors
    assert colors[:12].mean() > 240
    assert colors[20:].mean() < 15


def test_files_that_are_no_images(model, path, tmp_path):
    (tmp_path / "text.png").write_text("=1+1", encoding="utf-8")
    (tmp_path / "cut.png").write_bytes(path.read_bytes()[:100])
    for name, reason in [("text.png", "which is something else"), ("cut.png", "cut.png"), ("none.png", "check the path")]:
        with pytest.raises(InputError, match=f"expected an image.*{reason}"):
            idf.open_picture(model, tmp_path / name)
    with pytest.raises(InputError, match="it is a folder"):
        idf.open_picture(model, tmp_path)


def test_a_model_without_its_processor(model, path, tmp_path):
    with pytest.raises(InputError, match="expected the image processor of"):
        idf.open_picture(idf.load(model.network), path)


@pytest.mark.parametrize("format", FORMATS)
def test_the_formats_that_are_read(model, path, tmp_path, format):
    with Image.open(path) as image:
        image.convert("RGB").save(tmp_path / "picture", format)
    assert idf.open_picture(model, tmp_path / "picture").colors.shape == (32, 32, 3)


@pytest.mark.parametrize("format", ["EPS", "PPM", "ICO", "TGA", "PCX", "PDF"])
def test_other_formats_are_rejected_whatever_the_file_is_called(model, path, tmp_path, monkeypatch, format):
    def start(*command, **options):
        raise AssertionError(f"{command} was started")

    for call in ("subprocess.Popen", "subprocess.check_call", "subprocess.call", "os.system"):  # as Pillow starts Ghostscript
        monkeypatch.setattr(call, start)
    with Image.open(path) as image:
        image.convert("RGB").save(tmp_path / "cat.png", format)
    with pytest.raises(InputError, match=r"expected an image in PNG, JPEG, WEBP, GIF, BMP or TIFF, got cat\.png, .*; convert it"):
        idf.open_picture(model, tmp_path / "cat.png")


@pytest.mark.parametrize("format", FORMATS)
def test_a_damaged_image_is_one_sentence(model, path, tmp_path, format):
    chance = np.random.default_rng(0)
    with Image.open(path) as image:
        image.convert("RGB").save(tmp_path / "whole", format)
    whole = (tmp_path / "whole").read_bytes()
    for _ in range(40):
        damaged = bytearray(whole)
        for position in chance.integers(0, min(len(whole), 300), 3):
            damaged[position] = chance.integers(256)
        (tmp_path / "damaged").write_bytes(damaged)
        try:
            idf.open_picture(model, tmp_path / "damaged")
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017


def test_a_huge_image_is_rejected_before_it_is_decoded(model, path, monkeypatch):
    monkeypatch.setattr(Image.Image, "load", lambda image: pytest.fail("the image was decoded"))
    for limit in (Image.MAX_IMAGE_PIXELS, None, 50):  # which other code may set
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        monkeypatch.setattr("identiformer.models.pictures.MOST_PIXELS", 100)
        with pytest.raises(InputError, match=r"at most 100 pixels, got more in ball\.png"):
            idf.open_picture(model, path)
