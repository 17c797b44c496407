"""Times PyTorch's ops, and adds the times, medians of 20 runs, to a JSON file that another script has written. For a file of
scripts/bench-course.ts --best it times the ops at the file's sizes, with the L2 cache overwritten before each run. For a file of
scripts/bench-attention.ts it times compiled FlexAttention, forward and backward, with the file's masks.

    python3 scripts/bench-pytorch-ops.py benchmarks/h100/course-best.json
"""
import json
import statistics
import sys

import torch
from torch.nn import functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

ELEMENT = torch.bfloat16
TOKENS, CHANNELS = 65536, 768  # as in bench-attention.ts


def timed(run, before=lambda: None):
    """Returns the median milliseconds of 20 calls of `run` on the GPU, each after a call of `before`."""
    times = []
    for _ in range(23):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        before()
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times[3:])


def random(*shape, dtype=ELEMENT):
    return torch.randn(*shape, device="cuda", dtype=dtype)


def layernorm(op, N, C, residual):
    x, weight, bias = random(N, C), random(C), random(C)
    if "forward" in op:
        return lambda: F.layer_norm(x, [C], weight, bias)
    _, mean, rstd = torch.native_layer_norm(x, [C], weight, bias, 1e-5)
    dout, dresidual = random(N, C), random(N, C)

    def backward():
        din, _, _ = torch.ops.aten.native_layer_norm_backward(dout, x, [C], mean, rstd, weight, bias, [True] * 3)
        if residual:
            din.add_(dresidual)

    return backward


def attention(op, B, T, C, NH):
    q, k, v, dout = (random(B, NH, T, C // NH).requires_grad_() for _ in range(4))
    forward = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)
    if op == "attention_forward":
        return forward
    out = forward()
    return lambda: torch.autograd.grad(out, (q, k, v), dout, retain_graph=True)


def matmul(op, N, C, O, bias):
    x, weight, dout, b = random(N, C), random(O, C), random(N, O), random(O)
    if op.startswith("matmul_forward"):
        return lambda: F.linear(x, weight, b if bias else None)
    if op.startswith("matmul_backward_input"):
        return lambda: torch.mm(dout, weight)

    def backward():
        torch.mm(dout.T, x)
        if bias:
            dout.sum(0)

    return backward


def cross_entropy(N, V, Vp):
    logits = random(N, Vp)[:, :V].detach().requires_grad_()
    targets = torch.randint(V, (N,), device="cuda")
    return lambda: torch.autograd.grad(F.cross_entropy(logits, targets), logits)


def embedding(op, B, T, C, V):
    tokens, wte, wpe, dout = torch.randint(V, (B, T), device="cuda"), random(V, C), random(T, C), random(B, T, C)
    if op == "embedding_forward":
        return lambda: F.embedding(tokens, wte) + wpe
    def backward():
        torch.ops.aten.embedding_dense_backward(dout, tokens, V, -1, False)
        dout.sum(0)
    return backward


def adamw(count):
    weight = random(count, dtype=torch.float32).requires_grad_()
    weight.grad = random(count, dtype=torch.float32)
    return torch.optim.AdamW([weight], weight_decay=0.1, fused=True).step


def gelu(op, count):
    x, dout = random(count), random(count)
    if op == "gelu_forward":
        return lambda: F.gelu(x, approximate="tanh")
    return lambda: torch.ops.aten.gelu_backward(dout, x, approximate="tanh")


def call(op, sizes, variant):
    if "layernorm" in op:
        return layernorm(op, **sizes, residual="without dresidual" not in variant)
    if op.startswith("attention"):
        return attention(op, **sizes)
    if op.startswith("matmul"):
        return matmul(op, **sizes, bias="without" not in variant)
    if op.startswith("embedding"):
        return embedding(op, **sizes)
    if op.startswith("gelu"):
        return gelu(op, **sizes)
    if op == "cross_entropy":
        return cross_entropy(**sizes)
    if op == "adamw":
        return adamw(sizes["count"])
    if op == "residual_forward":
        a, b = random(sizes["count"]), random(sizes["count"])
        return lambda: torch.add(a, b)
    if op == "loss_sum":
        losses = random(sizes["N"], dtype=torch.float32)
        return lambda: losses.sum()
    if op == "global_norm":
        gradient = random(sizes["matrixCount"])
        return lambda: torch.linalg.vector_norm(gradient)
    raise ValueError(f"PyTorch's op for {op} is not known")


def time_ops(results):
    cache = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    # Eight fills keep the GPU busy while the host enqueues the op, so that the time excludes the host's work.
    fill = lambda: [cache.zero_() for _ in range(8)]
    for result in results:
        parts = [part.split() for part in result["sizes"].split(", ")]
        sizes = {name: int(value) for name, value in parts if name not in ("without", "firstScalar", "vectorCount")}
        result["pytorch"] = timed(call(result["op"], sizes, result["sizes"]), fill)
        torch.cuda.empty_cache()
        print(f"{result['op']:<24} {result['sizes']:<48} rung {result['own']['cold']:8.4f} ours {result['ours']['cold']:8.4f} "
              f"PyTorch {result['pytorch']:8.4f}", flush=True)


def first_of(T, window, documents):
    first, start, end, index = [], 0, 0, 0
    for t in (at % T for at in range(TOKENS)):
        if t == 0 or t == end:
            index += documents > 0
            start, end = t, t + 1 + index * 7919 % documents if documents > 0 else T
        first.append(max(start, t - window + 1 if window > 0 else 0))
    return torch.tensor(first, dtype=torch.int32, device="cuda").view(-1, T)


def time_masks(rows):
    torch._dynamo.config.recompile_limit = 64
    flex = torch.compile(flex_attention, dynamic=False)
    for row in rows:
        T, heads = row["T"], row["heads"]
        first = first_of(T, row["window"], row["documents"])
        mask = create_block_mask(lambda b, h, q, k: (k <= q) & (k >= first[b, q]), TOKENS // T, None, T, T, device="cuda")
        q, k, v, dout = (random(TOKENS // T, heads, T, CHANNELS // heads).requires_grad_() for _ in range(4))
        out = flex(q, k, v, block_mask=mask)
        forward = timed(lambda: flex(q, k, v, block_mask=mask))
        backward = timed(lambda: torch.autograd.grad(out, (q, k, v), dout, retain_graph=True))
        ratio = (forward + backward) / (row["forward"] + row["backward"])
        row["flex"] = {"forward": forward, "backward": backward, "ratio": ratio}
        times = f"{forward:.3f}  {backward:.3f} ms, {ratio:.2f} of ours"
        print(f"heads of {CHANNELS // heads}, T {T}, {row['mask']}: FlexAttention {times}", flush=True)


(path,) = sys.argv[1:]
with open(path) as file:
    bench = json.load(file) | {"pytorch": torch.__version__}
if "rows" in bench:
    time_masks(row for row in bench["rows"] if row["mask"] != "full")
else:
    time_ops(bench["results"])
with open(path, "w") as file:
    json.dump(bench, file, indent=1)
    file.write("\n")
