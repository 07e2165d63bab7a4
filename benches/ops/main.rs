//! `make bench`: every form of the lookups, of `gather_at` and `scatter_add_at`, and of their gradients, timed against
//! copying.
//!
//! Before anything is timed all forms must agree bit for bit, with each other and, on the first thousand elements, with
//! `spec`; else this ends in a panic. The table at the end shows multiples of the time that copying takes: 4 bytes read
//! and 4 written per element, measured in the same run just before. It and a plot go to bench/ in the target folder.
//!
//! | variable | |
//! |---|---|
//! | `QUICK=1` | seconds: fewer sizes, short measurements |
//! | `TORCHLEAN_BENCH_LARGE=1` | 16,000,000 elements too |
//! | `TORCHLEAN_BENCH_THREADS=n` | libtorch's threads, 1 by default |

mod summary;

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion};
use torchlean::host::{self, InstructionSet, VjpOutputs};
use torchlean::runtime::{self, Path};
use torchlean::{Buffer, DeviceKind, Result, Tape, spec};

/// What is timed; the gradients without the value, but for `ValueAndBoth`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Lookup,
    Layered,
    Gather,
    Scatter,
    DCoords,
    DTable,
    DBoth,
    ValueAndBoth,
}

impl Op {
    const ALL: [Op; 8] = [
        Op::Lookup,
        Op::Layered,
        Op::Gather,
        Op::Scatter,
        Op::DCoords,
        Op::DTable,
        Op::DBoth,
        Op::ValueAndBoth,
    ];

    fn name(self) -> &'static str {
        match self {
            Op::Lookup => "table_lookup",
            Op::Layered => "layered_table_lookup",
            Op::Gather => "gather_at",
            Op::Scatter => "scatter_add_at",
            Op::DCoords => "d_coords",
            Op::DTable => "d_table",
            Op::DBoth => "d_coords and d_table",
            Op::ValueAndBoth => "value and both",
        }
    }

    /// Whether it runs on buffers alone; the other gradients only come with a tape and the value.
    fn is_timed_on_buffers(self) -> bool {
        !matches!(self, Op::DCoords | Op::DTable | Op::DBoth)
    }
}

/// The inputs: random coordinates, some outside, as in use.
struct Data {
    table: Vec<f32>,
    coords: Vec<f32>,
    layers: Vec<f32>,
    g: Vec<f32>,
}

/// Layers of the layered table, which has as many entries in all as the plain one.
const LAYERS: usize = 4;

impl Data {
    fn new(width: usize, n: usize) -> Data {
        let mut random = fastrand::Rng::with_seed((width + n) as u64);
        let mut draw = |n: usize, from: f32, to: f32| -> Vec<f32> {
            (0..n).map(|_| from + random.f32() * (to - from)).collect()
        };
        let (below, above) = (-0.01 * width as f32, 1.01 * width as f32);
        Data {
            table: draw(width, -1.0, 1.0),
            coords: draw(n, below, above),
            layers: draw(n, -0.1, LAYERS as f32),
            g: draw(n, -1.0, 1.0),
        }
    }

    fn width(&self) -> usize {
        self.table.len() / LAYERS
    }

    fn first(&self, n: usize) -> Data {
        let first = |values: &[f32]| values[..n.min(values.len())].to_vec();
        Data {
            table: self.table.clone(),
            coords: first(&self.coords),
            layers: first(&self.layers),
            g: first(&self.g),
        }
    }
}

/// Where the results go; what an operation does not write stays zero.
#[derive(Clone, PartialEq)]
struct Results {
    values: Vec<f32>,
    d_coords: Vec<f32>,
    d_table: Vec<f32>,
}

impl Results {
    fn of(data: &Data) -> Results {
        Results {
            values: vec![0.0; data.coords.len()],
            d_coords: vec![0.0; data.coords.len()],
            d_table: vec![0.0; data.table.len()],
        }
    }

    fn assert_same(&self, other: &Results, what: &str) {
        let all = |r: &Results| [r.values.clone(), r.d_coords.clone(), r.d_table.clone()].concat();
        for (k, (a, b)) in all(self).iter().zip(all(other)).enumerate() {
            let same = a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
            assert!(same, "{what}: element {k}: {a:e} and {b:e}; not timed");
        }
    }
}

/// By the kernels on slices, in the instruction set that holds.
fn on_slices(op: Op, data: &Data, out: &mut Results) -> Result<()> {
    let (t, u, g) = (&data.table, &data.coords, &data.g);
    let Results {
        values,
        d_coords,
        d_table,
    } = out;
    match op {
        Op::Lookup => host::table_lookup(t, u, values),
        Op::Layered => host::layered_table_lookup(t, data.width(), u, &data.layers, values),
        Op::Gather => host::gather_at(t, u, values),
        Op::Scatter => host::scatter_add_at(u, g, d_table),
        Op::DCoords | Op::DTable | Op::DBoth | Op::ValueAndBoth => {
            let outputs = VjpOutputs {
                value: matches!(op, Op::ValueAndBoth).then_some(values),
                d_table: (!matches!(op, Op::DCoords)).then_some(d_table),
                d_coords: (!matches!(op, Op::DTable)).then_some(d_coords),
            };
            host::table_lookup_vjp(t, u, g, outputs)
        }
    }
}

/// What it means.
fn by_reference(op: Op, data: &Data) -> Result<Results> {
    let (t, u, g) = (&data.table, &data.coords, &data.g);
    let mut out = Results::of(data);
    match op {
        Op::Lookup => out.values = spec::table_lookup(t, u)?,
        Op::Layered => out.values = spec::layered_table_lookup(t, data.width(), u, &data.layers)?,
        Op::Gather => out.values = spec::gather_at(t, u)?,
        Op::Scatter => out.d_table = spec::scatter_add_at(t.len(), u, g)?,
        Op::DCoords => out.d_coords = spec::table_lookup_vjp(t, u, g)?.1,
        Op::DTable => out.d_table = spec::table_lookup_vjp(t, u, g)?.0,
        Op::DBoth => (out.d_table, out.d_coords) = spec::table_lookup_vjp(t, u, g)?,
        Op::ValueAndBoth => {
            out.values = spec::table_lookup(t, u)?;
            (out.d_table, out.d_coords) = spec::table_lookup_vjp(t, u, g)?;
        }
    }
    Ok(out)
}

/// The inputs as buffers.
struct Buffers {
    table: Buffer,
    layered: Buffer,
    coords: Buffer,
    layers: Buffer,
    g: Buffer,
    out: Buffer,
}

impl Buffers {
    fn new(data: &Data) -> Result<Buffers> {
        let buffer = |values: &[f32]| Buffer::from_slice(values, &[values.len()]);
        let table = buffer(&data.table)?;
        Ok(Buffers {
            layered: table.reshape(&[LAYERS, data.width()])?,
            table,
            coords: buffer(&data.coords)?,
            layers: buffer(&data.layers)?,
            g: buffer(&data.g)?,
            out: Buffer::zeros(&[data.coords.len()])?,
        })
    }

    /// The value, the gradient of the coordinates and that of the table, where the operation has them.
    fn run(&self, op: Op) -> Result<[Option<Buffer>; 3]> {
        let value = match op {
            Op::Lookup => self.table.table_lookup(&self.coords)?,
            Op::Layered => self
                .layered
                .layered_table_lookup(&self.coords, &self.layers)?,
            Op::Gather => self.table.gather_at(&self.coords)?,
            Op::Scatter => {
                let sums = Buffer::scatter_add_at(self.table.len(), &self.coords, &self.g)?;
                return Ok([None, None, Some(sums)]);
            }
            _ => return self.gradients(op),
        };
        Ok([Some(value), None, None])
    }

    fn gradients(&self, op: Op) -> Result<[Option<Buffer>; 3]> {
        let tape = Tape::new();
        let var = |buffer: &Buffer, needed: bool| match needed {
            true => tape.leaf(buffer.clone()),
            false => tape.constant(buffer.clone()),
        };
        let table = var(&self.table, op != Op::DCoords)?;
        let coords = var(&self.coords, op != Op::DTable)?;
        let value = tape.table_lookup(table, coords)?;
        let mut gradients = tape.backward(value, Some(&self.g))?;
        let value = (op == Op::ValueAndBoth)
            .then(|| tape.value(value))
            .transpose()?;
        Ok([value, gradients.take(coords)?, gradients.take(table)?])
    }

    /// Into a buffer that is reused; false where there is no such form.
    fn run_into(&mut self, op: Op) -> Result<bool> {
        match op {
            Op::Lookup => self.table.table_lookup_into(&self.coords, &mut self.out)?,
            Op::Layered => {
                let (u, layers) = (&self.coords, &self.layers);
                self.layered
                    .layered_table_lookup_into(u, layers, &mut self.out)?;
            }
            Op::Gather => self.table.gather_at_into(&self.coords, &mut self.out)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Every form against every other, and on the first thousand elements against the reference.
fn check(op: Op, data: &Data, on_host: bool) -> Result<()> {
    let few = data.first(1000);
    let want = by_reference(op, &few)?;
    let mut all = None;
    for (data, want) in [(&few, Some(want)), (data, None)] {
        let mut agrees = |form: String, got: &Results| {
            let what = format!("{} in {}, {form}", op.name(), data.table.len());
            match &want {
                Some(want) => want.assert_same(got, &what),
                None => all
                    .get_or_insert_with(|| got.clone())
                    .assert_same(got, &what),
            }
        };
        for &set in InstructionSet::available() {
            let mut got = Results::of(data);
            runtime::with_instruction_set(set, || on_slices(op, data, &mut got))?;
            agrees(set.to_string(), &got);
        }
        if !on_host {
            continue;
        }
        let mut buffers = Buffers::new(data)?;
        for path in [Path::Fused, Path::Composed] {
            let outcome = runtime::with_path(path, || buffers.run(op))?;
            let mut got = Results::of(data);
            let places = [&mut got.values, &mut got.d_coords, &mut got.d_table];
            for (place, outcome) in places.into_iter().zip(outcome) {
                if let Some(buffer) = outcome {
                    *place = buffer.to_vec()?;
                }
            }
            agrees(format!("{path:?}"), &got);
            if runtime::with_path(path, || buffers.run_into(op))? {
                got.values = buffers.out.to_vec()?;
                agrees(format!("{path:?} into"), &got);
            }
        }
    }
    Ok(())
}

/// Times one form under the name that the summary looks for.
fn time(criterion: &mut Criterion, group: &str, form: &str, size: &str, mut run: impl FnMut()) {
    let mut group = criterion.benchmark_group(group);
    group.bench_function(BenchmarkId::new(form, size), |b| b.iter(&mut run));
    group.finish();
}

fn bench(criterion: &mut Criterion, op: Op, data: &Data, on_host: bool) -> Result<()> {
    check(op, data, on_host)?;
    let size = summary::size(data.table.len(), data.coords.len());
    let mut out = Results::of(data);
    for &set in InstructionSet::available() {
        runtime::with_instruction_set(set, || {
            time(criterion, op.name(), &set.to_string(), &size, || {
                on_slices(op, black_box(data), &mut out).unwrap();
            });
        });
    }
    if !on_host || !op.is_timed_on_buffers() {
        return Ok(());
    }
    let mut buffers = Buffers::new(data)?;
    for (path, form) in [(Path::Fused, "buffer"), (Path::Composed, "composed")] {
        runtime::with_path(path, || {
            time(criterion, op.name(), form, &size, || {
                black_box(buffers.run(op).unwrap());
            });
        });
    }
    if buffers.run_into(op)? {
        time(criterion, op.name(), "into", &size, || {
            buffers.run_into(op).unwrap();
        });
    }
    Ok(())
}

/// Set and neither empty nor 0.
fn is_on(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|value| !value.is_empty() && value != "0")
}

fn main() -> Result<()> {
    let quick = is_on("QUICK");
    let (warm_up, measure) = if quick { (5, 25) } else { (100, 400) };
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(warm_up))
        .measurement_time(Duration::from_millis(measure))
        .sample_size(if quick { 10 } else { 30 })
        .nresamples(if quick { 100 } else { 1000 })
        .without_plots()
        .configure_from_args();
    // `cargo test --benches` and the like only want to see it run.
    if std::env::args().any(|argument| argument == "--test") {
        return Ok(());
    }
    let on_host = matches!(torchlean::device_kind(), Ok(DeviceKind::Host));
    #[cfg(feature = "libtorch")]
    if on_host {
        let threads = std::env::var("TORCHLEAN_BENCH_THREADS").ok();
        torchlean::tch::set_num_threads(threads.and_then(|n| n.parse().ok()).unwrap_or(1));
    }
    let (mut sizes, mut widths) = (vec![100, 10_000, 1_000_000], vec![256, 4096, 1_000_000]);
    if quick {
        sizes.truncate(2);
        widths.truncate(2);
    }
    if is_on("TORCHLEAN_BENCH_LARGE") {
        sizes.push(16_000_000);
    }
    summary::forget();
    for n in sizes {
        let from = vec![1.0_f32; n];
        let mut to = vec![0.0_f32; n];
        time(
            &mut criterion,
            summary::COPY,
            "memcpy",
            &summary::size(0, n),
            || {
                black_box(&mut to[..]).copy_from_slice(black_box(&from));
            },
        );
        for &width in &widths {
            let data = Data::new(width, n);
            for op in Op::ALL {
                bench(&mut criterion, op, &data, on_host)?;
            }
        }
    }
    criterion.final_summary();
    summary::print();
    Ok(())
}
