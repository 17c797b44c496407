"""Answers multiple-choice questions in llm.c's file format with the plain GPT-2 in PyTorch of check-logits.py, a row at a time
and in fp32, and compares how many are right, by the sum and by the mean of the completions' losses, with what `eval --hellaswag`
says of the same weights and file on the CPU:

    PYTHON=../venv/bin/python scripts/check-hellaswag RUN|CHECKPOINT FILE [--sequence T]

It needs what check-logits.py needs. Exit 1 if a figure differs.
"""

import argparse
import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch

scripts = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("check_logits", scripts / "check-logits.py")
check_logits = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_logits)


def read_questions(path):
    """(label, context, completions) of each question."""
    header = np.fromfile(path, dtype="<i4", count=256)
    assert header[0] == 20240522 and header[1] == 1, "not a file of multiple-choice questions"
    words = np.fromfile(path, dtype="<u2", offset=1024).astype(np.int64)
    questions, at = [], 0
    for index in range(header[2]):
        assert words[at] == 65535 and words[at + 2] == index
        label, count, end = words[at + 3], words[at + 4], at + words[at + 1] // 2
        at += 5
        runs = []
        for _ in range(count + 1):
            runs.append(words[at + 1 : at + 1 + words[at]])
            at += 1 + words[at]
        assert at == end
        questions.append((label, runs[0], runs[1:]))
    assert at == len(words)
    return questions


def completion_losses(weights, heads, context, completion, sequence):
    """Of each token of the completion. Contexts that are too long lose their beginning."""
    row = torch.from_numpy(np.concatenate([context, completion])[-(sequence + 1) :])
    logits = check_logits.gpt2(weights, heads, row[:-1])[-len(completion) :]
    return torch.nn.functional.cross_entropy(logits, row[-len(completion) :], reduction="none").double()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("checkpoint", type=Path, help="a run or a checkpoint")
    parser.add_argument("file", type=Path, help="questions in llm.c's format")
    parser.add_argument("--sequence", type=int, help="tokens the model sees (default: as the run that made it)")
    options = parser.parse_args()

    checkpoint = check_logits.newest_checkpoint(options.checkpoint)
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    sequence = options.sequence or manifest["configuration"]["sequence"]
    weights = check_logits.read_weights(checkpoint / "model.safetensors", manifest["model"])
    questions = read_questions(options.file)

    correct = correct_norm = cut = 0
    margin = float("inf")
    start = time.time()
    with torch.inference_mode():
        for label, context, completions in questions:
            losses = [completion_losses(weights, manifest["model"]["heads"], context, c, sequence) for c in completions]
            cut += sum(len(context) + len(c) > sequence + 1 for c in completions)
            for figures, is_mean in ((torch.stack([loss.sum() for loss in losses]), False),
                                     (torch.stack([loss.mean() for loss in losses]), True)):  # fmt: skip
                least, second = figures.sort().values[:2].tolist()
                margin = min(margin, second - least)
                right = int(figures.argmin()) == label
                correct, correct_norm = correct + (right and not is_mean), correct_norm + (right and is_mean)
    theirs = {"correct": int(correct), "correctNorm": int(correct_norm), "questions": len(questions), "cut": cut}
    print(f"PyTorch: {theirs}, {time.time() - start:.0f} s, closest decision {margin:.1e}")

    command = ["node", "--import", "tsx", "src/cli.ts", "eval", "--model", str(checkpoint.resolve()), "--device", "cpu"]
    command += ["--hellaswag", str(options.file.resolve()), "--seq", str(sequence), "--json"]
    output = subprocess.run(command, cwd=scripts.parent, stdout=subprocess.PIPE, text=True, check=True).stdout
    ours = json.loads(output)
    print(f"eval:    { {name: ours[name] for name in theirs} }, {ours['seconds']:.0f} s")
    same = all(ours[name] == value for name, value in theirs.items())
    print(f"acc {ours['acc']:.4f}, acc_norm {ours['accNorm']:.4f}: {'the same' if same else 'NOT the same'}")
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
