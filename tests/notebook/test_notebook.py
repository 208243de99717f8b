"""The widget in a real notebook: JupyterLab, its kernel, and a browser."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

SECRET = "a-secret-of-this-test"
CELLS = (
    "import identiformer as idf\n"
    "view = idf.show(idf.load('minilm').trace('The minister wrote back to the islanders.'), layer=2, head=3)\n"
    "view",
    "print('selected:', view.view['query'])",
)


@pytest.fixture
def notebook(tmp_path):
    """The address of a notebook with these cells."""
    pytest.importorskip("jupyterlab", reason="needs JupyterLab: pip install jupyterlab")
    cells = [
        {"cell_type": "code", "id": f"c{index}", "metadata": {}, "source": cell, "outputs": [], "execution_count": None}
        for index, cell in enumerate(CELLS)
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    content = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "look.ipynb").write_text(json.dumps(content), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [f"--port={port}", "--ip=127.0.0.1", "--no-browser", "--allow-root", f"--IdentityProvider.token={SECRET}"]
    settings = {"HOME": str(tmp_path), "JUPYTER_PREFER_ENV_PATH": "1", "IPYTHONDIR": str(tmp_path / "ipython")}
    with (tmp_path / "log").open("w") as log:
        command = [sys.executable, "-m", "jupyterlab", *options]
        server = subprocess.Popen(command, cwd=tmp_path, env={**os.environ, **settings}, stdout=log, stderr=log)
        try:
            _wait_for(f"http://127.0.0.1:{port}/api?token={SECRET}", tmp_path / "log")
            yield f"http://127.0.0.1:{port}/lab/tree/look.ipynb?token={SECRET}"
        finally:
            server.terminate()
            server.wait(timeout=30)


def _wait_for(address, log):
    for _ in range(300):
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise AssertionError(log.read_text())


def _run(cell):
    """Run a cell; keys pressed before JupyterLab is ready are lost, so repeat until it shows that the cell runs."""
    from playwright.sync_api import TimeoutError as TooLateError

    for _ in range(20):
        cell.locator(".cm-content").click()
        cell.page.keyboard.press("Shift+Enter")
        try:
            cell.locator(".jp-InputPrompt", has_text=re.compile(r"\[(\*|\d+)\]")).wait_for(timeout=5_000)
        except TooLateError:
            continue
        return
    raise AssertionError("the cell does not start")


def _accept(dialog):
    """On a busy machine JupyterLab may open a dialog, for example to ask which kernel to run."""
    print("JupyterLab asked:", dialog.inner_text())
    dialog.locator(".jp-mod-accept").click()


@pytest.mark.slow
def test_a_cell_shows_the_page_and_the_next_one_knows_the_selection(browser, notebook):
    page = browser.new_page(viewport={"width": 1440, "height": 1000})
    page.set_default_timeout(120_000)
    page.add_locator_handler(page.locator("dialog.jp-Dialog"), _accept)
    page.goto(notebook)
    _run(page.locator(".jp-CodeCell").first)
    frame = page.frame_locator(".jp-OutputArea iframe")
    frame.locator(".selected-head", has_text="Layer 2, head 3").wait_for()
    frame.locator(".token").nth(4).click()
    frame.locator(".row-table caption", has_text="at 4").wait_for()
    selected = page.locator(".jp-OutputArea-output", has_text="selected: 4")
    for _ in range(20):  # the page notifies the kernel a moment later
        _run(page.locator(".jp-CodeCell").nth(1))
        page.locator(".jp-OutputArea-output", has_text="selected:").wait_for()
        if selected.count():
            break
        page.wait_for_timeout(200)
    selected.wait_for()
    page.close()
