"""Token identifiability: Adam here with the plain loop, and the closed form with Adam, on a layer of gte-small over MRPC."""

import time

import torch
from torch import nn

import identiformer as idf
from benchmarks.harness import SHARED, report, side_by_side
from identiformer.measures.identifiability.experiment import recovery_task
from identiformer.models.hidden_states.recording import hidden_states
from identiformer.probes import ClosedForm, Method, split_examples
from identiformer.probes.maps import untrained_map

LAYER, EPOCHS = 12, 3
METHODS = (("linear", "cosine", 1.3), ("linear", "l2", 1.3), ("mlp", "cosine", 1.15), ("mlp", "l2", 1.15))


def run() -> None:
    if not SHARED.is_dir():
        print("          —  identifiability needs gte-small and MRPC beside the checkout", flush=True)
        return
    model = idf.load(str(SHARED / "models" / "gte-small"))
    with hidden_states(model, idf.read_corpus(SHARED / "data" / "MRPC" / "dev.tsv"), None) as states:
        task, split = recovery_task(states, LAYER), split_examples(states.examples, 0)
    for kind, loss, bound in METHODS:
        against_plain_loop(task, split, Method(kind, loss, "adam"), bound)
    for loss in ("cosine", "l2"):
        against_adam(task, split, loss)


def plain_loop(task, split, method: Method, most_epochs: int) -> nn.Module:
    """What a user would write: autograd through the loss, the optimizer as it comes."""
    generator = torch.Generator().manual_seed(method.seed)
    network = untrained_map(method.kind, task.hidden.shape[1], task.candidates.shape[1], method.inner_width, 0.0, generator)
    optimizer = torch.optim.Adam(network.parameters(), lr=method.learning_rate)
    rows, held_out = task.rows(split.training), task.rows(split.validation)

    def distance(predicted, inputs):
        if method.loss == "cosine":
            return (1 - torch.nn.functional.cosine_similarity(predicted, inputs)).mean()
        return (predicted - inputs).square().sum(-1).mean()

    best, best_loss, waited, epoch = network.state_dict(), float("inf"), 0, 0
    while waited < 20 and epoch < most_epochs:
        for chosen in rows[torch.randperm(len(rows), generator=generator)].split(256):
            loss = distance(network(task.hidden[chosen]), task.inputs[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            loss = float(distance(network(task.hidden[held_out]), task.inputs[held_out]))
        epoch, waited = epoch + 1, waited + 1
        if loss < best_loss:
            best, best_loss, waited = {name: tensor.clone() for name, tensor in network.state_dict().items()}, loss, 0
    network.load_state_dict(best)
    return network


def rate(task, split, network: nn.Module, method: Method) -> float:
    rows = task.rows(split.test)
    with torch.no_grad():
        return float(task.recover(network(task.hidden[rows]), rows, method.metric).strict.double().mean())


def against_plain_loop(task, split, method: Method, bound: float) -> None:
    found = {}

    def ours():
        found["ours"] = method.fit_map(task, split, most_epochs=EPOCHS)

    def theirs():
        found["theirs"] = plain_loop(task, split, method, EPOCHS)

    seconds = side_by_side({"ours": ours, "theirs": theirs}, rounds=3)
    apart = 100 * abs(rate(task, split, found["ours"], method) - rate(task, split, found["theirs"], method))
    detail = f"{seconds['ours'] / EPOCHS:.2f} s an epoch"
    report(f"{method.name}: times as fast as the plain loop", seconds["theirs"] / seconds["ours"], bound, False, detail)
    report(f"{method.name}: points between their rates after {EPOCHS} epochs, same seeds", apart, 0.3, True)


def against_adam(task, split, loss: str) -> None:
    """One fit by Adam until it stops; the closed form as often as it takes to be timed."""
    method, closed = Method("linear", loss, "adam"), ClosedForm(task, "cosine" if loss == "cosine" else "l2")
    start = time.perf_counter()
    trained = method.fit_map(task, split)
    until_it_stops = time.perf_counter() - start
    found = {}
    closed.ridge(split)  # what all splits share is computed once

    def fit():
        found["closed"] = closed.ridge(split)

    seconds = side_by_side({"closed": fit}, rounds=3)["closed"]
    ours, theirs = (100 * rate(task, split, network, method) for network in (found["closed"], trained))
    report(
        f"linear {loss}, layer {LAYER}: closed form, times as fast as Adam",
        until_it_stops / seconds,
        80,
        False,
        f"{seconds:.2f} s",
    )
    report(
        f"linear {loss}, layer {LAYER}: points that it lies below Adam", theirs - ours, 1, True, f"{ours:.1f} and {theirs:.1f}%"
    )
    hours = 120 * until_it_stops / 3600
    print(f"             12 layers × 10 resplits: {120 * seconds:.0f} s, and (extrapolated) {hours:.1f} h by Adam", flush=True)
