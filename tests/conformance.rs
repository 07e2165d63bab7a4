//! Every operation, value and gradients, against its reference: equal bits, or both NaN.

mod common;

use std::ops::Range;

use common::cases::{Case, cases};
use common::data::{self, Inputs, LENGTHS};
use proptest::prelude::*;
use torchlean::host::{self, VjpOutputs};
use torchlean::{DeviceKind, spec};

fn check(case: &Case, inputs: &Inputs) {
    let device = common::session();
    common::in_every_form(|form| {
        let outcomes = (case.run)(inputs);
        for outcome in outcomes.unwrap_or_else(|error| panic!("{}, {form}: {error}", case.op)) {
            // On CUDA the order of additions is the SDK's: compared where no order can matter.
            if outcome.adds && device == Some(DeviceKind::Cuda) && !inputs.dyadic {
                continue;
            }
            let n = inputs.a.len();
            let what = format!("{}, {}, {n} elements, {form}", case.op, outcome.label);
            common::assert_bits_eq(&what, &outcome.got, &outcome.want);
        }
    });
}

#[test]
fn every_operation_has_a_case() {
    let mut listed: Vec<_> = torchlean::ops::OPS.iter().map(|op| op.name).collect();
    let mut covered: Vec<_> = cases().iter().map(|case| case.op).collect();
    listed.sort_unstable();
    covered.sort_unstable();
    assert_eq!(listed, covered);
}

#[test]
fn edge_values_at_every_length() {
    need_device!();
    for case in cases() {
        for &n in LENGTHS {
            for shift in 0..data::EDGES.len() {
                check(&case, &data::edge_inputs(n.min(40), shift));
            }
            check(&case, &data::edge_inputs(n, 11));
        }
    }
}

#[test]
fn dyadic_values_at_every_length() {
    need_device!();
    for case in cases() {
        for &n in LENGTHS {
            check(&case, &data::dyadic_inputs(n as u64, n));
        }
    }
}

/// The same inputs on every machine. With TORCHLEAN_TEST_OUTPUTS set, the bits of whatever does not depend on an order of
/// additions go to that file, so that two devices can be compared (scripts/gpu-check.sh).
#[test]
fn fixed_inputs() {
    use std::fmt::Write;
    need_device!();
    let mut lines = String::new();
    let inputs = LENGTHS.iter().flat_map(|&n| {
        [
            data::edge_inputs(n, 5),
            data::dyadic_inputs(7, n),
            data::random_inputs(n as u64, n),
        ]
    });
    for inputs in inputs {
        for case in cases() {
            check(&case, &inputs);
            for outcome in (case.run)(&inputs).unwrap() {
                if outcome.adds && !inputs.dyadic {
                    continue;
                }
                write!(lines, "{} {}", case.op, outcome.label).unwrap();
                for x in outcome.got {
                    // NaNs are equal whatever their payload.
                    write!(
                        lines,
                        " {:08x}",
                        if x.is_nan() { 0x7fc0_0000 } else { x.to_bits() }
                    )
                    .unwrap();
                }
                lines.push('\n');
            }
        }
    }
    assert!(lines.lines().count() > 1000, "most outcomes are comparable");
    if let Some(file) = std::env::var_os("TORCHLEAN_TEST_OUTPUTS") {
        std::fs::write(file, lines).unwrap();
    }
}

/// The kernels on slices that start at odd offsets: loads and stores must not care.
#[test]
fn slices_at_every_offset() {
    let same = common::assert_bits_eq;
    for offset in 0..16 {
        for (n, shift) in [0, 1, 5, 8, 100, 255, 256, 257, 530].into_iter().zip(0..) {
            let padded = data::edge_inputs(n + offset, shift);
            let (u, g) = (&padded.coords[offset..], &padded.g[offset..]);
            let layers = &padded.layers[offset..];
            let entries = data::edge_inputs(40, shift).table;
            let (table, width) = (&entries[offset % 4..][..8], 4);
            let mut room = vec![f32::NAN; n + offset];
            let out = &mut room[offset..];
            common::in_every_form(|form| {
                let what = |op| format!("{op}, {n} elements from {offset}, {form}");
                host::table_lookup(table, u, out).unwrap();
                same(
                    &what("table_lookup"),
                    out,
                    &spec::table_lookup(table, u).unwrap(),
                );
                host::layered_table_lookup(table, width, u, layers, out).unwrap();
                let want = spec::layered_table_lookup(table, width, u, layers).unwrap();
                same(&what("layered_table_lookup"), out, &want);
                host::gather_at(table, u, out).unwrap();
                same(&what("gather_at"), out, &spec::gather_at(table, u).unwrap());
                let mut sums = [f32::NAN; 8];
                host::scatter_add_at(u, g, &mut sums).unwrap();
                let want = spec::scatter_add_at(8, u, g).unwrap();
                same(&what("scatter_add_at"), &sums, &want);
                let value = spec::table_lookup(table, u).unwrap();
                let (d_table, d_coords) = spec::table_lookup_vjp(table, u, g).unwrap();
                let want = [&value, &d_table, &d_coords];
                whatever_is_wanted(&what("vjp"), 0..8, offset, want, |outputs| {
                    host::table_lookup_vjp(table, u, g, outputs).unwrap();
                });
                let value = spec::layered_table_lookup(table, width, u, layers).unwrap();
                let (d_table, d_coords) =
                    spec::layered_table_lookup_vjp(table, width, u, layers, g).unwrap();
                let want = [&value, &d_table, &d_coords];
                whatever_is_wanted(&what("layered vjp"), 0..8, offset, want, |outputs| {
                    host::layered_table_lookup_vjp(table, width, u, layers, g, outputs).unwrap();
                });
            });
        }
    }
}

/// The value, the table's gradient and that of the coordinates have the same bits whichever of them are asked for: in
/// a subset 1, 2 and 4 stand for them.
fn whatever_is_wanted(
    what: &str,
    subsets: Range<u32>,
    offset: usize,
    want: [&Vec<f32>; 3],
    vjp: impl Fn(VjpOutputs<'_>),
) {
    for wanted in subsets {
        let mut rooms = want.map(|want| vec![f32::NAN; want.len() + offset]);
        let [value, d_table, d_coords] = rooms.each_mut().map(|room| &mut room[offset..]);
        vjp(VjpOutputs {
            value: (wanted & 1 != 0).then_some(value),
            d_table: (wanted & 2 != 0).then_some(d_table),
            d_coords: (wanted & 4 != 0).then_some(d_coords),
        });
        for (k, (want, room)) in want.into_iter().zip(&rooms).enumerate() {
            let untouched = vec![f32::NAN; want.len()];
            let want = if wanted & (1 << k) != 0 {
                want
            } else {
                &untouched
            };
            common::assert_bits_eq(
                &format!("{what}, output {k} of {wanted}"),
                &room[offset..],
                want,
            );
        }
    }
}

/// What is cut for several threads, and stored past the cache from an odd offset on, has the bits of short pieces.
#[test]
fn long_slices() {
    let short = data::edge_inputs(1009, 3);
    let n = (8 << 20) + 77;
    let u: Vec<f32> = short.coords.iter().copied().cycle().take(n).collect();
    let (mut room, mut want) = (vec![f32::NAN; n + 1], vec![f32::NAN; n]);
    type Read = fn(&[f32], &[f32], &mut [f32]) -> torchlean::Result<()>;
    for (read, n) in [(host::gather_at as Read, 200_000), (host::table_lookup, n)] {
        let (u, out, want) = (&u[..n], &mut room[1..][..n], &mut want[..n]);
        read(&short.table, u, out).unwrap();
        for (u, want) in u.chunks(10_000).zip(want.chunks_mut(10_000)) {
            read(&short.table, u, want).unwrap();
        }
        common::assert_bits_eq("a long slice", out, want);
    }
    // Gradients and the values with them are stored past the cache where they are aligned.
    let value = want.clone();
    let g: Vec<f32> = short.g.iter().copied().cycle().take(n).collect();
    let mut d_coords = want;
    for ((u, g), want) in u
        .chunks(10_000)
        .zip(g.chunks(10_000))
        .zip(d_coords.chunks_mut(10_000))
    {
        let outputs = VjpOutputs {
            d_coords: Some(want),
            ..Default::default()
        };
        host::table_lookup_vjp(&short.table, u, g, outputs).unwrap();
    }
    let mut d_table = vec![f32::NAN; short.table.len()];
    let outputs = VjpOutputs {
        d_table: Some(&mut d_table),
        ..Default::default()
    };
    host::table_lookup_vjp(&short.table, &u, &g, outputs).unwrap();
    for offset in [0, 1, 4] {
        let want = [&value, &d_table, &d_coords];
        whatever_is_wanted("long slices", 4..8, offset, want, |outputs| {
            host::table_lookup_vjp(&short.table, &u, &g, outputs).unwrap();
        });
    }
}

/// Into a reused buffer: the same bits in every form, and nothing written where it may not be.
#[test]
fn into_a_buffer_that_is_there() {
    use torchlean::{Buffer, Error};
    need_device!();
    let inputs = data::edge_inputs(300, 3);
    let buffer = |values: &[f32]| Buffer::from_slice(values, &[values.len()]).unwrap();
    let (table, u) = (buffer(&inputs.table), buffer(&inputs.coords));
    let layers = buffer(&inputs.layers);
    let layered = table.reshape(&[2, 6]).unwrap();
    common::in_every_form(|form| {
        let mut out = buffer(&inputs.a);
        let mut same = |want: Buffer, write: &dyn Fn(&mut Buffer) -> torchlean::Result<()>| {
            write(&mut out).unwrap();
            let want = want.to_vec().unwrap();
            common::assert_bits_eq(form, &out.to_vec().unwrap(), &want);
        };
        same(table.table_lookup(&u).unwrap(), &|out| {
            table.table_lookup_into(&u, out)
        });
        same(layered.layered_table_lookup(&u, &layers).unwrap(), &|out| {
            layered.layered_table_lookup_into(&u, &layers, out)
        });
        same(table.gather_at(&u).unwrap(), &|out| {
            table.gather_at_into(&u, out)
        });

        let held = out.clone();
        let refused = table.table_lookup_into(&u, &mut out);
        assert!(
            matches!(refused, Err(Error::SharedStorage { .. })),
            "{form}"
        );
        drop(held);
        let mut own = u.clone();
        let refused = table.gather_at_into(&u, &mut own);
        assert!(
            matches!(refused, Err(Error::SharedStorage { .. })),
            "{form}"
        );
        let mut short = buffer(&inputs.a[1..]);
        let refused = table.table_lookup_into(&u, &mut short);
        assert!(matches!(refused, Err(Error::Shape { .. })), "{form}");
    });
}

/// The step of gradient descent: the product is rounded, then the sum.
#[test]
fn a_step_in_place() {
    use torchlean::{Buffer, spec};
    need_device!();
    for n in LENGTHS.iter().copied() {
        let inputs = data::random_inputs(n as u64, n);
        for a in [0.1, -3.0e5, f32::NAN, f32::INFINITY, 0.0] {
            let want = spec::add(&inputs.a, &spec::scale(&inputs.b, a)).unwrap();
            common::in_every_form(|form| {
                let [mut sum, step] =
                    [&inputs.a, &inputs.b].map(|x| Buffer::from_slice(x, &[n]).unwrap());
                sum.axpy(a, &step).unwrap();
                common::assert_bits_eq(form, &sum.to_vec().unwrap(), &want);
            });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_bit_patterns(inputs in data::inputs()) {
        if common::session().is_some() {
            for case in cases() {
                check(&case, &inputs);
            }
        }
    }
}
