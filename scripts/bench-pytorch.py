"""Measures PyTorch on the same GPU as `npm run bench`: GPT-2's training step, compiled, with cuDNN's attention, bf16 autocast over
fp32 weights, fused AdamW and gradient clipping, on the same token shards. Prints one line per shape and writes JSON.
Energy is the GPU's count (package nvidia-ml-py). With --serve it measures on a CPU what lines of standard input ask for, for
scripts/bench-cpu-pytorch.ts.

    python3 scripts/bench-pytorch.py --shapes 64x1024 16x1024 4x1024 128x512 256x256 --out benchmarks/h100/pytorch.json
"""
import argparse
import glob
import json
import math
import statistics
import sys
import time

import numpy
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

LAYERS, CHANNELS, HEADS = 12, 768, 12  # d12
STEPS = 50
VOCABULARY = 50304  # padded, as in ours


class Block(nn.Module):
    def __init__(self, channels, heads):
        super().__init__()
        self.heads = heads
        self.ln1 = nn.LayerNorm(channels)
        self.qkv = nn.Linear(channels, 3 * channels)
        self.attproj = nn.Linear(channels, channels)
        self.ln2 = nn.LayerNorm(channels)
        self.fc = nn.Linear(channels, 4 * channels)
        self.fcproj = nn.Linear(4 * channels, channels)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (part.view(B, T, self.heads, -1).transpose(1, 2) for part in self.qkv(self.ln1(x)).split(C, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attproj(y.transpose(1, 2).reshape(B, T, C))
        return x + self.fcproj(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, layers, channels, heads, context, vocabulary=VOCABULARY):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, channels)
        self.wpe = nn.Embedding(context, channels)
        self.blocks = nn.ModuleList(Block(channels, heads) for _ in range(layers))
        self.lnf = nn.LayerNorm(channels)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, 0, 0.02 / math.sqrt(2 * layers) if "proj" in name else 0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.lnf(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def read_tokens():
    shard = sorted(glob.glob("data/tinyshakespeare/*train*.bin"))[0]
    return torch.from_numpy(numpy.fromfile(shard, dtype=numpy.uint16, offset=1024).astype(numpy.int64))


def joules():
    """What the first GPU has used since its driver was loaded."""
    import pynvml
    pynvml.nvmlInit()
    return pynvml.nvmlDeviceGetTotalEnergyConsumption(pynvml.nvmlDeviceGetHandleByIndex(0)) / 1000


def adamw(model):
    decayed = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), fused=True)


def measure(batch, sequence, tokens, warmup_seconds):
    torch.manual_seed(42)
    torch._dynamo.reset()
    model = GPT2(LAYERS, CHANNELS, HEADS, max(sequence, 1024)).cuda()
    optimizer = adamw(model)
    compiled = torch.compile(model, dynamic=False)
    size = batch * sequence
    at = 0

    def step():
        nonlocal at
        if at + size + 1 > tokens.numel():
            at = 0
        window = tokens[at : at + size + 1].pin_memory().cuda(non_blocking=True)
        at += size
        with torch.autocast("cuda", torch.bfloat16), sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            loss = compiled(window[:-1].view(batch, sequence), window[1:].view(batch, sequence))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    for _ in range(3):
        step()
    torch.cuda.synchronize()
    warm_until = time.monotonic() + warmup_seconds
    while time.monotonic() < warm_until:
        step()
        torch.cuda.synchronize()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(STEPS + 1)]
    torch.cuda.synchronize()
    used = joules()
    events[0].record()
    for event in events[1:]:
        step()
        event.record()
    torch.cuda.synchronize()
    used = joules() - used
    times = [before.elapsed_time(after) for before, after in zip(events, events[1:])]
    median = statistics.median(times)
    return {
        "model": "d12",
        "batch": batch,
        "sequence": sequence,
        "tokensPerSecond": size / median * 1000,
        "medianMs": median,
        "steps": STEPS,
        "joulesPerStep": used / STEPS,
        "memoryBytes": torch.cuda.max_memory_allocated(),
    }


def cpu_step(mode, layers, channels, heads, vocabulary, batch, sequence):
    """A training step of random tokens, which takes the dtype."""
    torch._dynamo.reset()
    model = GPT2(layers, channels, heads, 1024, vocabulary)
    optimizer = adamw(model)
    loss_of = torch.compile(model, dynamic=False) if mode == "compiled" else model

    def step(dtype):
        tokens, targets = torch.randint(0, vocabulary, (2, batch, sequence))
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bf16"):
            loss = loss_of(tokens, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def cpu_matmul(direction, dtype, rows, channels, outputs):
    kind = torch.bfloat16 if dtype == "bf16" else torch.float32
    sizes = (rows, channels), (outputs, channels), (rows, outputs)
    inputs, weight, out = (torch.randn(size).to(kind) for size in sizes)
    return {"forward": lambda: inputs @ weight.t(), "input": lambda: out @ weight, "weight": lambda: out.t() @ inputs}[direction]


def serve(threads):
    """Answers lines "REPEATS step MODE DTYPE SIZES" and "REPEATS matmul DIRECTION DTYPE SIZES" with milliseconds of one."""
    torch.set_num_threads(threads)
    sizes_of, steps = None, {}
    for line in sys.stdin:
        repeats, what, which, dtype, *sizes = line.split()
        sizes = [int(size) for size in sizes]
        if sizes != sizes_of:
            sizes_of, steps = sizes, {}
        if what == "step":
            if which not in steps:
                steps[which] = cpu_step(which, *sizes)
            run = lambda: steps[which](dtype)
        else:
            if (which, dtype) not in steps:
                steps[which, dtype] = cpu_matmul(which, dtype, *sizes)
            run = steps[which, dtype]
        begin = time.perf_counter()
        for _ in range(int(repeats)):
            run()
        print(1000 * (time.perf_counter() - begin) / int(repeats), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", nargs="+", default=["64x1024"], help="batch x tokens")
    parser.add_argument("--warmup-seconds", type=float, default=10)
    parser.add_argument("--out")
    parser.add_argument("--serve", type=int, metavar="THREADS")
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve)
    torch.set_float32_matmul_precision("high")
    tokens = read_tokens()
    results = []
    for shape in options.shapes:
        batch, sequence = map(int, shape.split("x"))
        result = measure(batch, sequence, tokens, options.warmup_seconds)
        results.append(result)
        print(f"PyTorch {torch.__version__} d12 {shape}: {result['tokensPerSecond']:,.0f} tokens/s, "
              f"{result['medianMs']:.2f} ms, {batch * sequence / result['joulesPerStep']:.1f} tokens/J", flush=True)
        torch.cuda.empty_cache()
    if options.out:
        versions = {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
        gpu = torch.cuda.get_device_name()
        with open(options.out, "w") as file:
            json.dump({"gpu": gpu, **versions, "results": results}, file, indent=2)


if __name__ == "__main__":
    main()
