"""Our lookups and those of other libraries, on the same data, in turn, in one process: `make bench-peers`.

Each size is run in rounds; in a round every peer is called for some milliseconds, ours first. The ratio of a round is
the peer's time by ours, and the table has the median over the rounds, so that a machine whose speed drifts disturbs it
little. Above 1 the peer is slower. Results: compare.csv and compare.png in the output folder, and the table.

"value": coordinates in, values out. "all": the value and both gradients, for a cotangent that is known beforehand, as
it is to numba's loop and to what JAX compiles. Ours is the kernel on slices, in the contract's order; for 100 elements
the public API (a new buffer, or a tape). "kernel twice" is what a tape has to do: first the value, then the gradients.
"""

import argparse
import csv
import ctypes
import os
import statistics
import sys
import time
import warnings

parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
parser.add_argument("library", help="the cdylib of benches/peers")
parser.add_argument("--out", default=".", help="folder for csv and plot")
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--rounds", type=int, default=9, help="a third of them from 4,000,000 elements on, one for a slow peer")
parser.add_argument("--milliseconds", type=float, default=20, help="per peer and round")
parser.add_argument("--sizes", type=int, nargs="+", default=[100, 10_000, 1_000_000, 16_000_000])
parser.add_argument("--widths", type=int, nargs="+", default=[256, 4096, 1_000_000])
parser.add_argument("--only", nargs="+", help="peers whose name has one of these in it; ours stay")
parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out: it takes a minute to start")
args = parser.parse_args()
SLOW = 0.3  # seconds: a call that takes longer is timed in one round only

# Before the libraries start their pools.
cores = sorted(os.sched_getaffinity(0))[: args.threads]
os.sched_setaffinity(0, cores)
for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = str(args.threads)
os.environ["TORCHLEAN_LIBTORCH_DEVICE"] = "cpu"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numba
import numpy as np
import scipy.ndimage

try:
    import torch  # before our library, which then finds its libtorch loaded
except ImportError as missing:
    torch = None
    print(f"torch left out: {missing}", file=sys.stderr)
else:
    torch.set_num_threads(args.threads)
warnings.filterwarnings("ignore")

ours = ctypes.CDLL(os.path.abspath(args.library))
floats = ctypes.POINTER(ctypes.c_float)
ours.peers_new.restype = ctypes.c_void_p
ours.peers_new.argtypes = [floats, floats, ctypes.c_size_t, floats, floats, floats, floats, ctypes.c_size_t]
ours.peers_run.restype = ctypes.c_double
ours.peers_run.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32]
ours.peers_free.argtypes = [ctypes.c_void_p]
ours.peers_set_threads(args.threads)


# ---- the peers ---------------------------------------------------------------------------------------------------


def numba_value(table, u, out):
    last = np.float32(table.size - 1)
    for k in numba.prange(u.size):
        c = min(max(u[k], np.float32(0)), last)
        i = np.floor(c)
        w = c - i
        j = min(i + np.float32(1), last)
        v0 = table[int(i)]
        out[k] = v0 + (table[int(j)] - v0) * w


def numba_all(table, u, g, out, d_coords, lower, upper):
    last = np.float32(table.size - 1)
    lower[:] = 0
    upper[:] = 0
    for k in range(u.size):
        c = min(max(u[k], np.float32(0)), last)
        f = np.floor(c)
        w = c - f
        i, j = int(f), int(min(f + np.float32(1), last))
        v0 = table[i]
        d = table[j] - v0
        out[k] = v0 + d * w
        d_coords[k] = g[k] * d if u[k] > 0 and u[k] < last else np.float32(0)
        gm = g[k] * w
        lower[i] += g[k] - gm
        upper[j] += gm
    for k in range(table.size):
        lower[k] += upper[k]


numba_value = numba.njit(parallel=args.threads > 1)(numba_value)
numba_all = numba.njit(numba_all)


def torch_value(table, u):
    last = table.numel() - 1
    c = u.clamp(0, last)
    i = c.floor()
    w = c - i
    j = (i + 1).clamp(0, last)
    v0 = table.index_select(0, i.long())
    v1 = table.index_select(0, j.long())
    return v0 + (v1 - v0) * w


def torch_all(value):
    def run(table, u, g):
        table.grad = u.grad = None
        out = value(table, u)
        out.backward(g)
        return out.detach(), u.grad, table.grad

    return run


def torch_grid_sample(table, u):
    x = u * (2 / (table.numel() - 1)) - 1
    grid = torch.stack([x, torch.zeros_like(x)], -1).view(1, 1, -1, 2)
    sample = torch.nn.functional.grid_sample
    return sample(table.view(1, 1, 1, -1), grid, padding_mode="border", align_corners=True).view(-1)


def jax_value(table, u):
    last = table.size - 1
    c = jnp.clip(u, 0, last)
    i = jnp.floor(c)
    w = c - i
    lower = i.astype(jnp.int32)
    v0 = table[lower]
    v1 = table[jnp.minimum(lower + 1, last)]
    return v0 + (v1 - v0) * w


def jax_interp(table, u):
    return jnp.interp(u, jnp.arange(table.size, dtype=jnp.float32), table)


def jax_all(table, u, g):
    out, pull = jax.vjp(jax_value, table, u)
    d_table, d_coords = pull(g)
    return out, d_coords, d_table


jitted = {f: jax.jit(f) for f in (jax_value, jax_interp, jax_all)}
compiled = torch.compile(torch_value, dynamic=True) if torch and not args.no_compile else None


# ---- timing ------------------------------------------------------------------------------------------------------


def python_timer(call):
    def run(repeats):
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        return (time.perf_counter() - start) / repeats

    return run


def peers(table, u, g, case, results):
    """What is compared: (task, name, timer, results), the first of a task being ours; `case` writes into `results`."""

    def own(form):
        return lambda repeats: ours.peers_run(case, form, repeats)

    def on_one_thread(form):
        def run(repeats):
            ours.peers_set_threads(1)
            seconds = ours.peers_run(case, form, repeats)
            ours.peers_set_threads(args.threads)
            return seconds

        return run

    def own_results(*which):
        return lambda: [results[k].copy() for k in which]

    out, d_coords = np.empty_like(u), np.empty_like(u)
    lower, upper = np.empty_like(table), np.empty_like(table)
    knots = np.arange(table.size, dtype=np.float32)
    if torch:
        t_torch, u_torch, g_torch = (torch.from_numpy(x.copy()) for x in (table, u, g))
        t_leaf, u_leaf = t_torch.clone().requires_grad_(), u_torch.clone().requires_grad_()
    t_jax, u_jax, g_jax = (jnp.asarray(x) for x in (table, u, g))
    last = {}

    def kept(name, call):
        def run():
            last[name] = call()

        return python_timer(run), lambda: [np.asarray(last[name])]

    def many(name, call):
        def run():
            last[name] = call()

        return python_timer(run), lambda: [np.asarray(x) for x in last[name]]

    small = u.size < 1000
    value = [("ours, kernel", own(1), own_results(0)), ("ours, new buffer", own(2), own_results(0)),
             ("ours, into", own(3), own_results(0)), ("ours, composed", own(4), own_results(0))]
    everything = [("ours, kernel", own(12), own_results(0, 1, 2)), ("ours, tape", own(6), own_results(0, 1, 2)),
                  ("ours, kernel twice", own(5), own_results(0, 1, 2)),
                  ("ours, composed tape", own(7), own_results(0, 1, 2))]
    if small:  # through the public API, and for the kernels how much that costs
        value[0], value[1] = value[1], value[0]
        everything[0], everything[1] = everything[1], everything[0]
    if args.threads > 1:
        value.append(("ours, on one thread", on_one_thread(2 if small else 1), own_results(0)))
        everything.append(("ours, on one thread", on_one_thread(6 if small else 12), own_results(0, 1, 2)))
    # The first again: how far two measurements of one thing differ.
    value.append(("ours, again", own(2 if small else 1), own_results(0)))
    everything.append(("ours, again", own(6 if small else 12), own_results(0, 1, 2)))
    value += [
        ("memcpy", own(0), None),
        ("numba", python_timer(lambda: numba_value(table, u, out)), lambda: [out]),
        ("JAX jit", *kept("jax", lambda: jitted[jax_value](t_jax, u_jax).block_until_ready())),
        ("jnp.interp jit", *kept("jnp", lambda: jitted[jax_interp](t_jax, u_jax).block_until_ready())),
        ("np.interp", *kept("np", lambda: np.interp(u, knots, table))),
        ("scipy map_coordinates", *kept("scipy", lambda: scipy.ndimage.map_coordinates(
            table, u[None], order=1, mode="nearest", output=np.float32))),
        ("interpn (Rust)", own(8), own_results(0)),
        ("ndarray-interp (Rust)", own(9), own_results(0)),
        ("candle (Rust)", own(10), own_results(0)),
    ]
    everything += [
        ("numba", python_timer(lambda: numba_all(table, u, g, out, d_coords, lower, upper)),
         lambda: [out, d_coords, lower]),
        ("JAX jit", *many("jax all", lambda: jax.block_until_ready(jitted[jax_all](t_jax, u_jax, g_jax)))),
    ]
    everything.append(("candle (Rust)", own(11), own_results(0, 1, 2)))
    if torch:
        value += [
            ("torch clone", kept("clone", u_torch.clone)[0], None),
            ("torch eager", *kept("torch", lambda: torch_value(t_torch, u_torch))),
            ("torch grid_sample", *kept("sample", lambda: torch_grid_sample(t_torch, u_torch))),
        ]
        everything.append(
            ("torch eager", *many("torch all", lambda: torch_all(torch_value)(t_leaf, u_leaf, g_torch))))
    if compiled:
        value.append(("torch.compile", *kept("compile", lambda: compiled(t_torch, u_torch))))
        everything.append(
            ("torch.compile", *many("compile all", lambda: torch_all(compiled)(t_leaf, u_leaf, g_torch))))
    return {"value": value, "all": everything}


def difference(got, want):
    """Share of elements with equal bits, and the largest difference."""
    got, want = (np.concatenate([np.asarray(x, np.float32).ravel() for x in values]) for values in (got, want))
    same = got.view(np.uint32) == want.view(np.uint32)
    return same.mean(), float(np.max(np.abs(got.astype(np.float64) - want), initial=0.0))


def measure(task, forms, label, rows):
    budget, timers = args.milliseconds / 1000, []
    for name, run, results in forms:
        if args.only and not name.startswith("ours") and not any(part in name for part in args.only):
            continue
        try:
            run(1)  # compiles
            once = run(1)
        except Exception as error:  # a peer that cannot do this is left out, in words
            print(f"{label}: {name} left out: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        timers.append((name, run, results, max(1, int(budget / max(once, 1e-7))), []))
    rounds = args.rounds if label["n"] < 4_000_000 else max(3, args.rounds // 3)
    for k in range(rounds):
        for _, run, _, repeats, taken in timers:
            if k == 0 or taken[0] < SLOW:
                taken.append(run(repeats))
    first = timers[0]
    first[1](1)
    want = first[2]()
    for name, run, results, _, taken in timers:
        run(1)
        equal, largest = difference(results(), want) if results else (None, None)
        ratio = statistics.median(t / o for t, o in zip(taken, first[4]))
        seconds = statistics.median(taken)
        rows.append({**label, "task": task, "peer": name, "ratio": ratio, "seconds": seconds, "equal": equal,
                     "largest": largest})


def report(rows):
    columns = list(dict.fromkeys((r["width"], r["order"], r["n"]) for r in rows))
    for task in ("value", "all"):
        print(f"\n{task}, {args.threads} thread(s): multiples of ours; the last columns over all sizes")
        print(f"{'':22}" + "".join(f"{f'{w} {o[0]} {n}':>19}" for w, o, n in columns) + "   equal bits   largest diff.")
        for peer in dict.fromkeys(r["peer"] for r in rows if r["task"] == task):
            cells = {(r["width"], r["order"], r["n"]): r for r in rows if (r["task"], r["peer"]) == (task, peer)}
            line = f"{peer:22}" + "".join(f"{cells[c]['ratio']:19.2f}" if c in cells else f"{'-':>19}" for c in columns)
            equal = [r["equal"] for r in cells.values() if r["equal"] is not None]
            if equal:
                line += f"{min(equal):12.1%} {max(r['largest'] for r in cells.values()):15.2e}"
            print(line)


def plot(rows, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    width = min(r["width"] for r in rows)
    figure, axes = pyplot.subplots(1, 2, figsize=(13, 5.5), sharey=True)
    for axis, task in zip(axes, ("value", "all")):
        some = [r for r in rows if (r["task"], r["width"], r["order"]) == (task, width, "random")]
        for peer in dict.fromkeys(r["peer"] for r in some):
            points = [(r["n"], r["ratio"]) for r in some if r["peer"] == peer]
            axis.loglog(*zip(*points), marker="o", label=peer)
        axis.set(title=f"{task}, W = {width}, {args.threads} thread(s)", xlabel="elements", ylabel="multiple of ours")
        axis.legend(fontsize=7)
        axis.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path)


def main():
    rows, random = [], np.random.default_rng(5)
    for width in args.widths:
        for n in args.sizes:
            table = random.uniform(-1, 1, width).astype(np.float32)
            u = np.minimum(random.uniform(0, width - 1, n).astype(np.float32), np.float32(width - 1))
            g = random.uniform(-1, 1, n).astype(np.float32)
            for order in ("random", "sorted"):
                if order == "sorted":
                    u = np.sort(u)
                results = [np.empty_like(u), np.empty_like(u), np.empty_like(table)]
                out, d_coords, d_table = (x.ctypes.data_as(floats) for x in results)
                table_at, u_at, g_at = (x.ctypes.data_as(floats) for x in (table, u, g))
                case = ours.peers_new(table_at, d_table, width, u_at, g_at, out, d_coords, n)
                for task, forms in peers(table, u, g, case, results).items():
                    measure(task, forms, {"width": width, "order": order, "n": n}, rows)
                ours.peers_free(case)
                print(f"W = {width}, n = {n}, {order}: done", file=sys.stderr)
    report(rows)
    os.makedirs(args.out, exist_ok=True)
    stem = os.path.join(args.out, f"compare-{args.threads}")
    with open(stem + ".csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    plot(rows, stem + ".png")
    print(f"\n{stem}.csv, {stem}.png")


main()
