//! Every one of the 2^32 float32 bit patterns: `floor`, positions, and the lookups of fixed tables, each form against
//! the reference. An hour or two; `make exhaustive` runs it. TORCHLEAN_EXHAUSTIVE_SHARE=n runs every n-th block only.
//!
//! The values of every pattern, the gradients of every eighth block of patterns: the reference takes long for them.

mod common;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use common::{assert_bits_eq, in_every_form};
use torchlean::{Buffer, Result, Tape, Var, spec};

const BLOCK: u64 = 1 << 18;
const BLOCKS: u64 = (1 << 32) / BLOCK;

/// Runs a check on every block of bit patterns, on all processors; with true where gradients are wanted.
fn every_pattern(what: &str, check: impl Fn(&[f32], bool) -> Result<()> + Sync) {
    let share = std::env::var("TORCHLEAN_EXHAUSTIVE_SHARE")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(1_u64);
    let next = AtomicU64::new(0);
    let run = || {
        loop {
            let block = next.fetch_add(share, Relaxed);
            if block >= BLOCKS {
                break;
            }
            let first = (block * BLOCK) as u32;
            let x: Vec<f32> = (0..BLOCK as u32)
                .map(|k| f32::from_bits(first + k))
                .collect();
            check(&x, (block / share).is_multiple_of(8))
                .unwrap_or_else(|error| panic!("{what}, block {block}: {error}"));
            if (block / share).is_multiple_of(1024) {
                eprintln!("{what}: {:.1} %", block as f64 / BLOCKS as f64 * 100.0);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(run);
        }
    });
    println!(
        "{what}: {} bit patterns agree",
        BLOCKS.div_ceil(share) * BLOCK
    );
}

fn buffer(values: &[f32]) -> Result<Buffer> {
    Buffer::from_slice(values, &[values.len()])
}

/// Compares what every form makes of a block with what the reference makes of it.
fn compare(want: &[Vec<f32>], got: impl Fn() -> Result<Vec<Vec<f32>>>) {
    in_every_form(|form| {
        let got = got().unwrap_or_else(|error| panic!("{form}: {error}"));
        for (k, (got, want)) in got.iter().zip(want).enumerate() {
            assert_bits_eq(&format!("{form}, result {k}"), got, want);
        }
    });
}

#[test]
#[ignore = "hours: make exhaustive"]
fn floor() {
    need_device!();
    every_pattern("floor", |x, _| {
        let on_device = buffer(x)?;
        compare(&[spec::floor(x)], || Ok(vec![on_device.floor()?.to_vec()?]));
        Ok(())
    });
}

/// An entry's bits are its index, so the value read is the position.
#[test]
#[ignore = "hours: make exhaustive"]
fn positions() {
    need_device!();
    for size in [1_u32, 5, 16_777_218, 16_777_220] {
        let table: Vec<f32> = (0..size).map(f32::from_bits).collect();
        let on_device = buffer(&table).unwrap();
        every_pattern(&format!("position in {size}"), |x, _| {
            let index = buffer(x)?;
            compare(&[spec::gather_at(&table, x)?], || {
                Ok(vec![on_device.gather_at(&index)?.to_vec()?])
            });
            Ok(())
        });
    }
}

/// One block: the value of every form, and where they are wanted the gradients of the table and the coordinates.
///
/// `want` makes what the reference says, the value alone or all three; `record` records the lookup.
fn lookup_block(
    table: &Buffer,
    coords: &[f32],
    gradients: bool,
    want: impl Fn(Option<&[f32]>) -> Result<Vec<Vec<f32>>>,
    record: impl Fn(&Tape, Var, Var) -> Result<Var>,
) -> Result<()> {
    let g: Vec<f32> = (0..coords.len())
        .map(|k| 0.5 + (k % 7) as f32 * 0.3)
        .collect();
    let want = want(gradients.then_some(&g))?;
    let (coords, g) = (buffer(coords)?, buffer(&g)?);
    compare(&want, || {
        let tape = Tape::new();
        let (t, u) = (tape.leaf(table.clone())?, tape.leaf(coords.clone())?);
        let value = record(&tape, t, u)?;
        let mut results = vec![tape.value(value)?.to_vec()?];
        if gradients {
            let mut gradients = tape.backward(value, Some(&g))?;
            for leaf in [t, u] {
                results.push(gradients.take(leaf)?.expect("a gradient").to_vec()?);
            }
        }
        Ok(results)
    });
    Ok(())
}

fn lookup(what: &str, table: &[f32]) {
    let on_device = buffer(table).unwrap();
    every_pattern(what, |x, gradients| {
        let want = |g: Option<&[f32]>| {
            let mut want = vec![spec::table_lookup(table, x)?];
            if let Some(g) = g {
                want.extend(<[_; 2]>::from(spec::table_lookup_vjp(table, x, g)?));
            }
            Ok(want)
        };
        lookup_block(&on_device, x, gradients, want, |tape, t, u| {
            tape.table_lookup(t, u)
        })
    });
}

#[test]
#[ignore = "hours: make exhaustive"]
fn lookup_in_five_entries() {
    need_device!();
    lookup("W = 5", &[0.1, -3.7, 1e-40, 2.5e30, -0.0]);
}

#[test]
#[ignore = "hours: make exhaustive"]
fn lookup_in_a_thousand_entries() {
    need_device!();
    let table: Vec<f32> = (0..1000).map(|k| (k as f32 * 0.1).sin() * 3.0).collect();
    lookup("W = 1000", &table);
}

/// The coordinates are the patterns, the layers a fixed pattern; and the other way round.
#[test]
#[ignore = "hours: make exhaustive"]
fn layered_lookup() {
    need_device!();
    let (layers, width) = (3, 7);
    let table: Vec<f32> = (0..layers * width)
        .map(|k| (k as f32 * 0.7).cos())
        .collect();
    let on_device = Buffer::from_slice(&table, &[layers, width]).unwrap();
    every_pattern("layered", |x, gradients| {
        let selectors: Vec<f32> = (0..x.len())
            .map(|k| [0.0, 1.9, 2.0, -1.0, f32::NAN, 7.5][k % 6])
            .collect();
        let places: Vec<f32> = (0..x.len()).map(|k| (k % 50) as f32 * 0.17 - 1.0).collect();
        for (u, layer) in [(x, &selectors[..]), (&places, x)] {
            let want = |g: Option<&[f32]>| {
                let mut want = vec![spec::layered_table_lookup(&table, width, u, layer)?];
                if let Some(g) = g {
                    let gradients = spec::layered_table_lookup_vjp(&table, width, u, layer, g)?;
                    want.extend(<[_; 2]>::from(gradients));
                }
                Ok(want)
            };
            let on_device_layer = buffer(layer)?;
            lookup_block(&on_device, u, gradients, want, |tape, t, u| {
                tape.layered_table_lookup(t, u, tape.constant(on_device_layer.clone())?)
            })?;
        }
        Ok(())
    });
}
