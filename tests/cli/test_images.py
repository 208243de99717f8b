"""Images on the command line."""

import pytest

from identiformer.cli.application import run_command
from tests.models.tiny_vit import save_picture, save_tiny_vit


@pytest.fixture
def model(tmp_path):
    return str(save_tiny_vit(tmp_path / "vit"))


def test_inspect_an_image(model, tmp_path, capsys):
    image, report = save_picture(tmp_path / "ball.png"), tmp_path / "report.html"
    assert run_command(["inspect", "--image", str(image), "--model", model, "--fast", "--certify", "--out", str(report)]) == 0
    assert "of the attention on these 17 tokens" in " ".join(capsys.readouterr().out.split())
    assert "A patched run" in report.read_text(encoding="utf-8")
    assert '"picture":"data:image/png;base64,' in report.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a text", "--image", "ball.png"], "expected a text or --image, got both"),
        (["--image", "none.png"], "none.png cannot be read"),
        (["--image", "ball.png", "--model", "minilm"], "expected a model that reads images, got minilm"),
    ],
)
def test_images_that_make_no_sense(model, tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    save_picture(tmp_path / "ball.png")
    arguments = arguments if "--model" in arguments else [*arguments, "--model", model]
    assert run_command(["inspect", *arguments]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_explore_rejects_before_it_serves(model, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    view = '{"identiformer_view": 1, "model": "m", "text": null, "pair": null, "view": {}}'
    (tmp_path / "view.json").write_text(view, encoding="utf-8")
    for arguments, message in [
        (["a text", "--view", "view.json"], "expected a text or --view, which has its own, got both"),
        (["--view", "view.json"], "expected the image that view.json is a view of; add --image FILE"),
        (["--view", "none.json"], "none.json cannot be read"),
        (["a text", "--chat"], "expected --generate together with --chat"),
        (["--image", "none.png", "--model", model], "none.png cannot be read"),
    ]:
        assert run_command(["explore", "--no-browser", *arguments]) == 2
        assert message in " ".join(capsys.readouterr().err.split())


def test_explore_opens_a_view_with_its_image(model, tmp_path, monkeypatch):
    image, shown = save_picture(tmp_path / "ball.png"), {}
    view = '{"identiformer_view": 1, "model": "%s", "text": null, "pair": null, "view": {"layer": 2}}'
    (tmp_path / "view.json").write_text(view % model.replace("\\", "/"), encoding="utf-8")

    class Server:
        address = "http://127.0.0.1:1/secret/"

        def __init__(self, texts, first, port):
            shown.update(first, summary=texts.open("", None, first["model"]).summary())

        def run(self):
            pass

    monkeypatch.setattr("identiformer.explorer.explore.LocalServer", Server)
    assert run_command(["explore", "--no-browser", "--view", str(tmp_path / "view.json"), "--image", str(image)]) == 0
    assert shown["view"] == {"layer": 2}
    assert shown["summary"]["image"]["rows"] == 4
    assert shown["summary"]["text"] == ""
