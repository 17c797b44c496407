"""Reads the event files of a run (train --tensorboard) with TensorBoard's EventAccumulator, and compares every scalar with the
run's log: the same steps, each once, and the same values in single precision.

    python3 -m venv ../venv && ../venv/bin/pip install tensorboard==2.21.0
    PYTHON=../venv/bin/python scripts/check-tensorboard RUN [DIR]

DIR is what --tensorboard was given, if anything. Prints a line for each tag; exit 1 if one differs.
"""

import json
import sys
from pathlib import Path

import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

FIELDS = {
    "train/loss": ("train", "loss"),
    "norm": ("train", "norm"),
    "lr": ("train", "lr"),
    "tokens_per_second": ("train", "tokensPerSecond"),
    "val/loss": ("val", "loss"),
    "hellaswag/acc": ("hellaswag", "acc"),
    "hellaswag/acc_norm": ("hellaswag", "accNorm"),
}


def logged(run, event, field):
    """Value by step. A resumed run's log was cut where it went on: no step is in it twice."""
    events = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return {one["step"]: np.float32(one[field]) for one in events if one["event"] == event}


def main():
    run = Path(sys.argv[1])
    reader = EventAccumulator(sys.argv[2] if len(sys.argv) > 2 else str(run), size_guidance={"scalars": 0})
    reader.Reload()
    failed = False
    for tag, (event, field) in FIELDS.items():
        wanted = logged(run, event, field)
        read = reader.Scalars(tag) if tag in reader.Tags()["scalars"] else []
        steps = [one.step for one in read]
        values = {one.step: np.float32(one.value) for one in read}
        same = steps == sorted(wanted) and all(
            np.array_equal(values[step], wanted[step], equal_nan=True) for step in steps
        )
        failed |= not same
        print(f"{tag}: {len(read)} read, {len(wanted)} in the log, {'the same' if same else 'NOT the same'}")
    sys.exit(failed)


main()
