//! One billion random lookups, values and both gradients, for every instruction set: `make soak`, not part of a plain
//! `cargo test`. `TORCHLEAN_SOAK` sets another number of coordinates.
//!
//! The software floats of the reference take too long for that many, so the kernels are compared with a restatement of
//! the contract in plain `f32`, and that with the reference on a part of the same inputs.

mod common;

use torchlean::host::{self, InstructionSet, VjpOutputs};
use torchlean::{Result, runtime, spec};

/// The contract's steps, one IEEE operation each.
fn restated(table: &[f32], width: usize, u: f32, layer: f32) -> (usize, usize, f32, f32) {
    let last = (width - 1) as f32;
    let held = |x: f32| if x.is_nan() { x } else { x.clamp(0.0, last) };
    let c = held(u) + 0.0; // 1
    let i = c.floor(); // 2
    let w = c - i; // 3
    let j = held(i + 1.0); // 4
    let start = (layer as usize).min(table.len() / width - 1) * width; // NaN and negatives convert to 0
    let (lower, upper) = (start + i as usize, start + j as usize); // 5
    let d = table[upper] - table[lower]; // 6
    (lower, upper, w, d)
}

struct Restated {
    values: Vec<f32>,
    d_table: Vec<f32>,
    d_coords: Vec<f32>,
}

fn restate(table: &[f32], width: usize, inputs: &Inputs) -> Restated {
    let last = (width - 1) as f32;
    let (mut values, mut d_coords) = (Vec::new(), Vec::new());
    let (mut lowers, mut uppers) = (vec![0.0_f32; table.len()], vec![0.0_f32; table.len()]);
    for ((&u, &layer), &g) in inputs.coords.iter().zip(&inputs.layers).zip(&inputs.g) {
        let (lower, upper, w, d) = restated(table, width, u, layer);
        let m = d * w; // 7
        values.push(table[lower] + m); // 8
        d_coords.push(if u > 0.0 && u < last { g * d } else { 0.0 });
        let gm = g * w;
        lowers[lower] += g - gm;
        uppers[upper] += gm;
    }
    let d_table = lowers.iter().zip(&uppers).map(|(a, b)| a + b).collect();
    Restated {
        values,
        d_table,
        d_coords,
    }
}

#[derive(Default)]
struct Inputs {
    coords: Vec<f32>,
    layers: Vec<f32>,
    g: Vec<f32>,
}

/// In range for the most part, near the knots and ends, and any bits.
fn draw(random: &mut fastrand::Rng, size: usize) -> f32 {
    let knot = random.usize(0..=size) as f32;
    match random.u8(..8) {
        0 => f32::from_bits(random.u32(..)),
        1 => knot,
        2 => f32::from_bits(knot.to_bits().wrapping_add(random.u32(..3)).wrapping_sub(1)),
        _ => (random.f32() * 1.1 - 0.05) * size as f32,
    }
}

fn compare(set: InstructionSet, table: &[f32], width: usize, inputs: &Inputs) -> Result<()> {
    let (u, layers, g) = (&inputs.coords[..], &inputs.layers[..], &inputs.g[..]);
    let want = restate(table, width, inputs);
    let what = |name: &str| format!("{name}, {set}, {} coordinates, width {width}", u.len());
    let mut value = vec![f32::NAN; u.len()];
    runtime::with_instruction_set(set, || match width == table.len() {
        true => host::table_lookup(table, u, &mut value),
        false => host::layered_table_lookup(table, width, u, layers, &mut value),
    })?;
    common::assert_bits_eq(&what("value"), &value, &want.values);
    // Each alone, both gradients, and all three.
    for (with_value, with_table, with_coords) in [
        (false, true, false),
        (false, false, true),
        (false, true, true),
        (true, true, true),
    ] {
        let mut value = vec![f32::NAN; u.len()];
        let mut d_coords = vec![f32::NAN; u.len()];
        let mut d_table = vec![f32::NAN; table.len()];
        let outputs = VjpOutputs {
            value: with_value.then_some(&mut value[..]),
            d_table: with_table.then_some(&mut d_table[..]),
            d_coords: with_coords.then_some(&mut d_coords[..]),
        };
        runtime::with_instruction_set(set, || match width == table.len() {
            true => host::table_lookup_vjp(table, u, g, outputs),
            false => host::layered_table_lookup_vjp(table, width, u, layers, g, outputs),
        })?;
        let which = |name| {
            what(&format!(
                "{name} of {with_value}, {with_table}, {with_coords}"
            ))
        };
        if with_value {
            common::assert_bits_eq(&which("value"), &value, &want.values);
        }
        if with_table {
            common::assert_bits_eq(&which("d_table"), &d_table, &want.d_table);
        }
        if with_coords {
            common::assert_bits_eq(&which("d_coords"), &d_coords, &want.d_coords);
        }
    }
    Ok(())
}

/// The restatement against the reference, on the first of the inputs.
fn check_restatement(table: &[f32], width: usize, inputs: &Inputs) -> Result<()> {
    let n = inputs.coords.len().min(200);
    let part = Inputs {
        coords: inputs.coords[..n].to_vec(),
        layers: inputs.layers[..n].to_vec(),
        g: inputs.g[..n].to_vec(),
    };
    let Inputs { coords, layers, g } = &part;
    let got = restate(table, width, &part);
    let values = spec::layered_table_lookup(table, width, coords, layers)?;
    let (d_table, d_coords) = spec::layered_table_lookup_vjp(table, width, coords, layers, g)?;
    common::assert_bits_eq("the restated values", &got.values, &values);
    common::assert_bits_eq("the restated d_table", &got.d_table, &d_table);
    common::assert_bits_eq("the restated d_coords", &got.d_coords, &d_coords);
    Ok(())
}

#[test]
#[ignore = "a billion cases: make soak"]
fn a_billion_lookups() -> Result<()> {
    let asked = std::env::var("TORCHLEAN_SOAK").ok();
    let cases: usize = asked.and_then(|n| n.parse().ok()).unwrap_or(1_000_000_000);
    let mut random = fastrand::Rng::with_seed(0x50a4);
    let (mut done, mut round) = (0, 0_usize);
    while done < cases {
        // Mostly short, now and then long enough for threads, and once for the stores past the cache.
        let n = match round {
            40 => 9_000_001,
            _ if round % 20 == 7 => random.usize(60_000..300_000),
            _ => random.usize(0..5_000),
        };
        let count = if random.bool() { 1 } else { random.usize(1..9) };
        let width = match random.u8(..8) {
            0 => random.usize(1..4),
            1 => random.usize(20_000..60_000) / count,
            _ => random.usize(1..600),
        };
        let any_bits = round.is_multiple_of(3);
        let float = |random: &mut fastrand::Rng| {
            if any_bits {
                f32::from_bits(random.u32(..))
            } else {
                random.f32() * 2.0 - 1.0
            }
        };
        let table: Vec<f32> = (0..count * width).map(|_| float(&mut random)).collect();
        let mut inputs = Inputs::default();
        for _ in 0..n {
            inputs.coords.push(draw(&mut random, width));
            inputs.layers.push(draw(&mut random, count));
            inputs.g.push(float(&mut random));
        }
        if round % 5 == 2 {
            inputs.coords.sort_by(f32::total_cmp);
        }
        check_restatement(&table, width, &inputs)?;
        for &set in InstructionSet::available() {
            compare(set, &table, width, &inputs)?;
        }
        done += n;
        round += 1;
        if round.is_multiple_of(2000) {
            println!("{done} of {cases} coordinates agree");
        }
    }
    println!("{done} coordinates: values, both gradients, every instruction set");
    Ok(())
}
