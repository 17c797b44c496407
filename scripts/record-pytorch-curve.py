"""Records a reference of data/reference with PyTorch: trains with the configuration of one of our runs, from the run's initial weights
on the run's batches. Run this script by hand, and commit its output. The second argument is the run's config.json:

    python -m venv ../venv && ../venv/bin/pip install torch==2.13.0 numpy
    ../venv/bin/python scripts/record-pytorch-curve.py NAME runs/NAME/config.json

Initial weights, batches and learning rates are computed from the run's options and shards, not read from the run. The options must be
order sequence, AdamW and GPT-2's parts. Limits are written by hand: an existing reference keeps its limits.
"""

import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from pytorch_model import MATRICES, forward, initial_deviation, part, shapes_of, shuffles

FIELDS = (
    "model layers channels heads context vocabularySize data batch sequence totalBatch steps learningRate warmup "
    "finalLearningRateFraction schedule weightDecay beta2 gradientClip seed order valEvery valTokens dtype overfitBatch"
).split()
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
EVERY_STEP, THEN_EVERY = 200, 10  # train, norm and lr are kept for every step below 200, then for every tenth and the last


def initial_weights(c):
    weights, generator = {}, torch.manual_seed(c["seed"])
    for name, shape in shapes_of(c).items():
        weights[name] = torch.full(shape, 1.0 if "ln" in name and name.endswith("w") else 0.0)
        if part(name) in MATRICES:
            weights[name].normal_(0, initial_deviation(c, name), generator=generator)
    return {name: weight.to(DEVICE).requires_grad_() for name, weight in weights.items()}


def loss_of(c, weights, tokens, targets):
    """The mean loss of rows of tokens."""
    return F.cross_entropy(forward(c, weights, tokens).flatten(0, 1), targets.flatten())


def read_shards(folder, role):
    paths = sorted(Path(folder).glob(f"*_{role}*.bin"))
    return [np.fromfile(path, "<u2", offset=1024).astype(np.int64) for path in paths]


def sequences_in(shards, T):
    """All sequences of T tokens, each with the token after it. No sequence crosses the end of a shard."""
    return [shard[at : at + T + 1] for shard in shards for at in range(0, (len(shard) - 1) // T * T, T)]


def batches(c):
    """Yields the rows of each step, in the order of `--order sequence`."""
    all_rows, rows = sequences_in(read_shards(c["data"], "train"), c["sequence"]), c["totalBatch"] // c["sequence"]
    queue, epoch = [], 0
    while True:
        while len(queue) < rows:
            queue += shuffles((c["seed"] + epoch * 0x9E3779B1) % 2**32, [len(all_rows)])[0]
            epoch += 1
        yield np.stack([all_rows[index] for index in queue[:rows]])
        del queue[:rows]


def rate(c, step):
    if step < c["warmup"]:
        return c["learningRate"] * (step + 1) / c["warmup"]
    progress, final = (step - c["warmup"]) / max(1, c["steps"] - c["warmup"]), c["finalLearningRateFraction"]
    shape = {"constant": 1.0, "linear": 1 - (1 - final) * progress}
    shape["cosine"] = final + (1 - final) * (1 + math.cos(math.pi * progress)) / 2
    return c["learningRate"] * shape[c["schedule"]]


def record(c):
    weights = initial_weights(c)
    some = lambda is_matrix: [weight for name, weight in weights.items() if (part(name) in MATRICES) == is_matrix]
    groups = [{"params": some(True), "weight_decay": c["weightDecay"]}, {"params": some(False), "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(c["beta1"], c["beta2"]), eps=c["eps"])
    held = sequences_in(read_shards(c["data"], "val"), c["sequence"])
    count = len(held) if c["valTokens"] == "all" else min(len(held), max(1, c["valTokens"] // c["sequence"]))
    held = np.stack([held[i * len(held) // count] for i in range(count)])
    series = {"train": [], "val": [], "norm": [], "lr": []}
    split = lambda rows: torch.from_numpy(np.stack([rows[:, :-1], rows[:, 1:]])).to(DEVICE)

    def validate(step):
        with torch.no_grad():
            parts = np.array_split(held, max(1, count // 128))
            mean = sum(loss_of(c, weights, *split(rows)).item() * len(rows) for rows in parts) / count
        series["val"].append([step, round(mean, 5)])
        print(step, mean, flush=True)

    for step, rows in zip(range(c["steps"]), batches(c)):
        if step % c["valEvery"] == 0:
            validate(step)
        optimizer.zero_grad()
        loss = loss_of(c, weights, *split(rows))
        loss.backward()
        norm = torch.sqrt(sum((weight.grad.double() ** 2).sum() for weight in weights.values())).item()
        for weight in weights.values():
            weight.grad *= c["gradientClip"] / norm if norm > c["gradientClip"] else 1.0
        for group in optimizer.param_groups:
            group["lr"] = rate(c, step)
        optimizer.step()
        if step < EVERY_STEP or step % THEN_EVERY == 0 or step == c["steps"] - 1:
            series["train"].append([step, round(loss.item(), 5)])
            series["norm"].append([step, round(norm, 4)])
            series["lr"].append([step, float(f"{rate(c, step):.6g}")])
    validate(c["steps"])
    return series


if __name__ == "__main__":
    name, config = sys.argv[1:]
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(DEVICE == "cpu")
    c = json.loads(Path(config).read_text())
    c["vocabulary"] = c["vocabularySize"]
    assert c["order"] == "sequence" and c["optimizer"] == "adamw" and not c["overfitBatch"], "not supported"
    path = Path(__file__).resolve().parent.parent / "data" / "reference" / f"{name}.json"
    reference = {
        "name": name,
        "source": {
            "program": "PyTorch",
            "version": torch.__version__.split("+")[0],
            "hardware": "one CPU thread" if DEVICE == "cpu" else f"one {torch.cuda.get_device_name()}",
            "precision": "fp32",
            "command": f"scripts/record-pytorch-curve.py {name} config.json",
        },
        "configuration": {field: c[field] for field in FIELDS} | {"data": Path(c["data"]).name},
        "series": record(c),
        "limits": json.loads(path.read_text())["limits"] if path.exists() else [],
    }
    text = re.sub(r"\[\s+(-?[\d.e-]+),\s+(-?[\d.e-]+)\s+\]", r"[\1, \2]", json.dumps(reference, indent=2))
    path.write_text(re.sub(r"\],\s+\[", "], [", text) + "\n")
