//! Every one of the 2^32 float32 bit patterns: `floor`, positions, and the lookups of fixed tables, against the
//! reference. An hour or two; `make exhaustive` runs it. TORCHLEAN_EXHAUSTIVE_SHARE=n runs every n-th block only.

mod common;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use common::assert_bits_eq;
use torchlean::{Buffer, Result, Tape, spec};

const BLOCK: u64 = 1 << 18;
const BLOCKS: u64 = (1 << 32) / BLOCK;

/// Runs a check on every block of bit patterns, on all processors.
fn every_pattern(what: &str, check: impl Fn(&[f32]) -> Result<()> + Sync) {
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
            check(&x).unwrap_or_else(|error| panic!("{what}, block {block}: {error}"));
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

#[test]
#[ignore = "hours: make exhaustive"]
fn floor() {
    need_device!();
    every_pattern("floor", |x| {
        assert_bits_eq("floor", &buffer(x)?.floor()?.to_vec()?, &spec::floor(x));
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
        every_pattern(&format!("position in {size}"), |x| {
            assert_bits_eq(
                "position",
                &on_device.gather_at(&buffer(x)?)?.to_vec()?,
                &spec::gather_at(&table, x)?,
            );
            Ok(())
        });
    }
}

/// Value and coordinate gradient; sums over so many elements are not comparable block by block.
fn lookup(what: &str, table: &[f32]) {
    let on_device = buffer(table).unwrap();
    every_pattern(what, |x| {
        let tape = Tape::new();
        let u = tape.leaf(buffer(x)?)?;
        let value = tape.table_lookup(tape.constant(on_device.clone())?, u)?;
        assert_bits_eq(
            what,
            &tape.value(value)?.to_vec()?,
            &spec::table_lookup(table, x)?,
        );
        let g: Vec<f32> = (0..x.len()).map(|k| 0.5 + (k % 7) as f32 * 0.3).collect();
        let d_coords = tape
            .backward(value, Some(&buffer(&g)?))?
            .take(u)?
            .unwrap()
            .to_vec()?;
        // The reference's table gradient is not wanted: a table of the same slopes is enough for the coordinates.
        let (_, want) = spec::table_lookup_vjp(table, x, &g)?;
        assert_bits_eq(what, &d_coords, &want);
        Ok(())
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
    every_pattern("layered", |x| {
        let selectors: Vec<f32> = (0..x.len())
            .map(|k| [0.0, 1.9, 2.0, -1.0, f32::NAN, 7.5][k % 6])
            .collect();
        let places: Vec<f32> = (0..x.len()).map(|k| (k % 50) as f32 * 0.17 - 1.0).collect();
        for (u, layer) in [(x, &selectors[..]), (&places, x)] {
            let got = on_device
                .layered_table_lookup(&buffer(u)?, &buffer(layer)?)?
                .to_vec()?;
            assert_bits_eq(
                "layered",
                &got,
                &spec::layered_table_lookup(&table, width, u, layer)?,
            );
        }
        Ok(())
    });
}
