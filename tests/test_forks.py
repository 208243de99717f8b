"""Processes forked after a computation with several threads compute the same numbers, and end."""

import os
import signal
import subprocess
import sys

import pytest

ON_ARRAYS = """
import multiprocessing, torch
import identiformer as idf

def share(index):
    return float(idf.equations.null_attention(weights, values).square().sum())

torch.set_num_threads(2)
weights, values = torch.rand(4, 400, 400).softmax(-1), torch.rand(4, 400, 16)
before = share(0)
with multiprocessing.get_context("fork").Pool(2) as pool:
    answers = pool.map(share, range(2))
assert all(abs(answer / before - 1) < 1e-4 for answer in answers), (before, answers)
assert torch.get_num_threads() == 2 and abs(share(0) / before - 1) < 1e-4
"""

ON_TRACES = """
import multiprocessing, sys, torch
import identiformer as idf

def null_mass(index):
    return float(idf.effective_attention(model.trace("He said that the pie was his. " * 6)).null_mass.mean())

class Texts(torch.utils.data.Dataset):
    def __len__(self):
        return 2
    def __getitem__(self, index):
        return null_mass(index)

torch.set_num_threads(2)
model = idf.load("minilm")
before = null_mass(0)
if sys.argv[1] == "loader":
    answers = list(torch.utils.data.DataLoader(Texts(), num_workers=2, batch_size=None, multiprocessing_context="fork"))
else:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        answers = pool.map(null_mass, range(2))
assert all(abs(answer - before) < 1e-6 for answer in answers), (before, answers)
"""

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")


def run(script, *arguments):
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    parent = subprocess.Popen([sys.executable, "-c", script, *arguments], env=environment, start_new_session=True)
    try:
        assert parent.wait(120) == 0
    finally:
        if parent.poll() is None:
            os.killpg(parent.pid, signal.SIGKILL)


def test_forked_processes_do_not_wait_for_threads_of_their_parent():
    run(ON_ARRAYS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pool", "loader"])
def test_traces_in_a_pool_and_in_a_data_loader(kind):
    run(ON_TRACES, kind)
