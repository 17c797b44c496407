"""Measures our kernels and the best library calls in turn, in one process on one GPU: each matmul of d12's training step against
cublasLt's product of that shape (torch.mm, without the bias, GELU, residual or bias gradient that ours includes) and, if cublasLt
has the same epilogue, against that too ("both"); attention against cuDNN's. Prints one line per shape and writes JSON. For
development only: the library links neither.

    python3 scripts/bench-peers.py --out benchmarks/h100/peers.json
"""
import argparse
import ctypes
import json
import statistics
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

GPT2_BF16 = 2


class Library:
    """Calls build/libgpt2-cuda.so by its C interface, with the addresses of torch's tensors."""

    def __init__(self, path):
        self.native = ctypes.CDLL(path)
        self.native.gpt2_last_error.restype = ctypes.c_char_p
        self.context = ctypes.c_void_p()
        self.native.gpt2_context_create(ctypes.byref(self.context), 0, GPT2_BF16, 0, 0)
        self.workspace = None

    def __call__(self, name, *arguments):
        native = [ctypes.c_void_p(a.data_ptr()) if isinstance(a, torch.Tensor) else a for a in arguments]
        if getattr(self.native, name)(self.context, *native) != 0:
            raise RuntimeError(self.native.gpt2_last_error(self.context).decode())

    def reserve(self, name, *sizes):
        needed = ctypes.c_int64()
        self(name, ctypes.byref(needed), *sizes)
        if self.workspace is None or self.workspace.numel() < needed.value:
            torch.cuda.synchronize()
            self.workspace = torch.empty(needed.value, dtype=torch.uint8, device="cuda")
            torch.cuda.synchronize()
            self("gpt2_set_workspace", self.workspace, ctypes.c_int64(needed.value))


def milliseconds(run, seconds):
    """Returns the mean time of calls that take `seconds`, by the host's clock, with calls always queued on the GPU."""
    calls = 0
    torch.cuda.synchronize()
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for _ in range(20):
            run()
        calls += 20
        torch.cuda.synchronize()
    return (time.perf_counter() - begin) * 1000 / calls


def compare(name, ours, theirs, options):
    """Measures both in turn, so that neither has the cooler GPU."""
    torch.cuda.synchronize()
    pairs = []
    for _ in range(options.rounds + 1):
        pairs.append((milliseconds(ours, options.seconds), milliseconds(theirs, options.seconds)))
    mine, other = (statistics.median(column) for column in zip(*pairs[1:]))
    ratio = statistics.median(a / b for a, b in pairs[1:])
    print(f"{name:<28} ours {mine:7.4f} ms   peer {other:7.4f} ms   ratio {ratio:.3f}", flush=True)
    return {"name": name, "oursMs": mine, "peerMs": other, "ratio": ratio}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default="build/libgpt2-cuda.so")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=0.15, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5, help="after one to warm up")
    parser.add_argument("--out")
    options = parser.parse_args()
    library = Library(options.library)
    torch.manual_seed(0)
    B, T, NH, C = options.batch, 1024, 12, 768
    N = B * T

    def random(*shape):
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)

    results = []

    def product(name, ours, left, right):
        out = torch.empty(left.shape[0], right.shape[1], device="cuda", dtype=torch.bfloat16)
        results.append(compare(name, ours, lambda: torch.mm(left, right, out=out), options))

    for name, C_in, C_out, kind in [
        ("qkv", C, 3 * C, "bias"),
        ("attproj", C, C, "residual"),
        ("fc", C, 4 * C, "gelu"),
        ("fcproj", 4 * C, C, "residual"),
    ]:
        x, w, dy = random(N, C_in), random(C_out, C_in), random(N, C_out)
        bias, other, y, dx = random(C_out), random(N, C_out), torch.empty_like(dy), torch.empty_like(x)
        dw, db = torch.empty_like(w), torch.empty(C_out, device="cuda")
        library.reserve("gpt2_matmul_scratch", N, C_in, C_out)
        out = torch.empty_like(dy)
        if kind == "bias":
            forward = lambda: library("gpt2_matmul_forward", y, x, w, bias, N, C_in, C_out)
            fused = lambda: torch.addmm(bias, x, w.t(), out=out)
        elif kind == "gelu":
            forward = lambda: library("gpt2_matmul_gelu_forward", y, other, x, w, bias, N, C_in, C_out)
            # It does not store the GELU's input.
            fused = lambda: torch._addmm_activation(bias, x, w.t(), use_gelu=True)
        else:
            forward = lambda: library("gpt2_matmul_residual_forward", y, x, w, bias, other, N, C_in, C_out)
            fused = lambda: torch.addmm(other, x, w.t(), out=out)
        product(f"{name} forward, {kind}", forward, x, w.t())
        results.append(compare(f"{name} forward, both {kind}", forward, fused, options))
        if name == "fcproj":
            pre = random(N, C_in)
            backward = lambda: library("gpt2_matmul_gelu_backward_input", dx, dy, w, pre, N, C_in, C_out)
            product(f"{name} backward input, gelu", backward, dy, w)
        else:
            product(f"{name} backward input",
                    lambda: library("gpt2_matmul_backward_input", dx, dy, w, N, C_in, C_out), dy, w)
        for suffix, gradient in [("", None), (", bias", db)]:
            product(f"{name} backward weight{suffix}",
                    lambda: library("gpt2_matmul_backward_weight", dw, gradient, dy, x, N, C_in, C_out, 0), dy.t(), x)

    # Our op does the head's three products, and cross-entropy too.
    rows, V, Vp = min(N, 32768), 50257, 50304
    x, w = random(rows, C), random(Vp, C) * 0.02
    logits, dx, dw = random(rows, Vp), torch.empty_like(x), torch.empty_like(w)
    losses, targets = torch.empty(rows, device="cuda"), torch.randint(V, (rows,), device="cuda", dtype=torch.int32)
    library.reserve("gpt2_classifier_scratch", rows, C, Vp)

    def three_products():
        torch.mm(x, w.t(), out=logits)
        torch.mm(logits, w, out=dx)
        torch.mm(logits.t(), x, out=dw)

    results.append(compare(
        "head with loss, 32768 rows",
        lambda: library("gpt2_classifier", losses, dx, dw, None, logits, x, w, None, targets, rows, C, V, Vp,
                        ctypes.c_float(1 / rows), ctypes.c_float(0), 0),
        three_products, options))

    qkv, out, dout = random(B, T, 3 * C), random(B, T, C), random(B, T, C)
    dqkv, lse = torch.empty_like(qkv), torch.empty(B, NH, T, device="cuda")
    library.reserve("gpt2_attention_scratch", B, T, C, NH)
    q, k, v = (part.view(B, T, NH, 64).transpose(1, 2).contiguous().requires_grad_() for part in qkv.split(C, dim=2))
    dy = random(B, NH, T, 64)
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        attend = lambda: scaled_dot_product_attention(q, k, v, is_causal=True)
        results.append(compare("attention forward", lambda: library("gpt2_attention_forward", out, lse, qkv, B, T, C, NH),
                               attend, options))
        y = attend()
        results.append(compare(
            "attention backward",
            lambda: library("gpt2_attention_backward", dqkv, dout, out, qkv, lse, B, T, C, NH),
            lambda: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True), options))
    if options.out:
        versions = {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
        with open(options.out, "w") as file:
            json.dump({"gpu": torch.cuda.get_device_name(), **versions, "batch": B, "results": results}, file, indent=2)
            file.write("\n")


if __name__ == "__main__":
    main()
