"""Adds PyTorch's compiled FlexAttention to each masked row that scripts/bench-attention.ts wrote: forward and backward in ms, the
median of 20 runs, with the same mask.

    python3 scripts/bench-attention.py FILE.json
"""
import json
import statistics
import sys

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

TOKENS, CHANNELS = 65536, 768
torch._dynamo.config.recompile_limit = 64
attention = torch.compile(flex_attention, dynamic=False)


def first_of(T, window, documents):
    first, start, end, index = [], 0, 0, 0
    for t in (at % T for at in range(TOKENS)):
        if t == 0 or t == end:
            index += documents > 0
            start, end = t, t + 1 + index * 7919 % documents if documents > 0 else T
        first.append(max(start, t - window + 1 if window > 0 else 0))
    return torch.tensor(first, dtype=torch.int32, device="cuda").view(-1, T)


def timed(run):
    times = []
    for _ in range(23):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times[3:])


with open(sys.argv[1]) as file:
    measured = json.load(file) | {"pytorch": torch.__version__}
for row in measured["rows"]:
    if row["mask"] == "full":
        continue
    T, heads = row["T"], row["heads"]
    first = first_of(T, row["window"], row["documents"])
    mask = create_block_mask(lambda b, h, q, k: (k <= q) & (k >= first[b, q]), TOKENS // T, None, T, T, device="cuda")
    q, k, v, dout = (torch.randn(TOKENS // T, heads, T, CHANNELS // heads, device="cuda", dtype=torch.bfloat16)
                     .requires_grad_() for _ in range(4))
    out = attention(q, k, v, block_mask=mask)
    forward = timed(lambda: attention(q, k, v, block_mask=mask))
    backward = timed(lambda: torch.autograd.grad(out, (q, k, v), dout, retain_graph=True))
    ratio = (forward + backward) / (row["forward"] + row["backward"])
    row["flex"] = {"forward": forward, "backward": backward, "ratio": ratio}
    times = f"{forward:.3f}  {backward:.3f} ms, {ratio:.2f} of ours"
    print(f"heads of {CHANNELS // heads}, T {T}, {row['mask']}: FlexAttention {times}", flush=True)
with open(sys.argv[1], "w") as file:
    json.dump(measured, file, indent=1)
