//! Values and gradients of lookups.

use torchlean::{Buffer, Result, Tape, spec};

use crate::common::{self, assert_bits_eq};
use crate::{INF, NAN, buffer, lengths};

struct Lookup {
    met_in: &'static str,
    table: &'static [f32],
    coords: &'static [f32],
    value: &'static [f32],
    /// d_coords and d_table for a cotangent (ones where empty).
    gradients: Option<(&'static [f32], &'static [f32])>,
    cotangent: &'static [f32],
}

const fn lookup(
    met_in: &'static str,
    table: &'static [f32],
    coords: &'static [f32],
    value: &'static [f32],
) -> Lookup {
    Lookup {
        met_in,
        table,
        coords,
        value,
        gradients: None,
        cotangent: &[],
    }
}

impl Lookup {
    const fn gradients(self, d_coords: &'static [f32], d_table: &'static [f32]) -> Lookup {
        Lookup {
            gradients: Some((d_coords, d_table)),
            ..self
        }
    }
}

const LOOKUPS: &[Lookup] = &[
    lookup(
        "pytorch 42616",
        &[1.0, 2.0, 3.0],
        &[2.5e38, -2.5e38],
        &[3.0, 1.0],
    )
    .gradients(&[0.0, 0.0], &[1.0, 0.0, 1.0]),
    lookup(
        "pytorch 51911",
        &[1.0; 5],
        &[2.9839e38, -3.2406e38],
        &[1.0, 1.0],
    )
    .gradients(&[0.0, 0.0], &[1.0, 0.0, 0.0, 0.0, 1.0]),
    lookup(
        "numpy 605",
        &[2.0],
        &[NAN, -3.0, 0.5, INF],
        &[NAN, 2.0, 2.0, 2.0],
    ),
    lookup(
        "jax 5687",
        &[5.0, 1.0, 6.0],
        &[2.0, 3.0, 2.9, 1.5],
        &[6.0, 6.0, 6.0, 3.5],
    )
    .gradients(&[0.0, 0.0, 0.0, 5.0], &[0.0, 0.5, 3.5]),
    lookup("ninterp 8", &[3.0, 4.0], &[1.0001389], &[4.0]).gradients(&[0.0], &[0.0, 1.0]),
    lookup("pytorch 15386", &[1.0], &[30.0], &[1.0]).gradients(&[0.0], &[1.0]),
    lookup(
        "pytorch 1552",
        &[0.0, 1.0, 4.0, 9.0, 16.0],
        &[3.0, 2.5],
        &[9.0, 6.5],
    )
    .gradients(&[7.0, 5.0], &[0.0, 0.0, 0.5, 1.5, 0.0]),
    lookup(
        "numba 3800",
        &[1.0, 2.0, 3.5, 4.0],
        &[0.0, 1.0, 2.0, 3.0],
        &[1.0, 2.0, 3.5, 4.0],
    ),
    lookup("pytorch 2625", &[0.0, 10.0], &[1.25, -0.25], &[10.0, 0.0])
        .gradients(&[0.0, 0.0], &[1.0, 1.0]),
    // The formula, unguarded: NaN at the knot before a NaN, and at a knot beside an infinity.
    lookup(
        "scipy 4060",
        &[3.0, 5.0, NAN],
        &[0.0, 1.0, 1.5],
        &[3.0, NAN, NAN],
    ),
    lookup(
        "numpy 12951",
        &[-INF, 0.1, 0.9, INF],
        &[0.0, 0.2, 1.0, 2.5, 3.0],
        &[NAN, NAN, 0.1, INF, NAN],
    ),
    // The difference overflows.
    lookup(
        "wavefnd 556",
        &[-3e38, 3e38],
        &[0.0, 0.5, 1.0],
        &[NAN, INF, 3e38],
    ),
    // Other formulas for the same line give ..28 and ..29.
    lookup(
        "tt-metal 53279",
        &[1.0, 0.1],
        &[0.8],
        &[f32::from_bits(0x3e8f_5c2a)],
    ),
    lookup(
        "tt-metal 53279",
        &[10.0, 0.1],
        &[0.75],
        &[f32::from_bits(0x4024_ccce)],
    ),
    lookup(
        "rust 86269",
        &[0.1, 0.1],
        &[0.3],
        &[f32::from_bits(0x3dcc_cccd)],
    ),
    lookup(
        "scipy 21459",
        &[0.028584518, 0.0, 0.013626526],
        &[1.0],
        &[0.0],
    ),
    // Subnormals are not flushed.
    lookup("pytorch 19652", &[0.0, 4e-45], &[0.5], &[f32::from_bits(2)]),
    lookup(
        "pytorch 19652",
        &[1e-40, 3e-40],
        &[0.5],
        &[f32::from_bits(0x0002_2d84)],
    ),
    lookup("pytorch 19652", &[0.0, 1e-45], &[0.5], &[0.0]),
    lookup(
        "numpy 11214",
        &[0.1, 0.2],
        &[0.5],
        &[f32::from_bits(0x3e19_999a)],
    ),
    lookup(
        "numpy 11214",
        &[0.1, 0.3],
        &[0.7],
        &[f32::from_bits(0x3e75_c290)],
    ),
    lookup("pytorch 10729", &[5.0, 6.0, 7.0], &[INF], &[7.0]).gradients(&[0.0], &[0.0, 0.0, 1.0]),
    Lookup {
        cotangent: &[0.0, 1.0],
        ..lookup("pytorch 94700", &[0.0, INF, 1.0], &[0.5, 2.0], &[INF, 1.0])
            .gradients(&[NAN, 0.0], &[0.0, 0.0, 1.0])
    },
    lookup("torchinterp1d 23", &[0.0, 10.0, 30.0], &[0.5], &[5.0])
        .gradients(&[10.0], &[0.5, 0.5, 0.0]),
    lookup("no coordinates", &[1.0, 2.0], &[], &[]).gradients(&[], &[0.0, 0.0]),
];

#[test]
fn the_reference_gives_the_required_values() -> Result<()> {
    for case in LOOKUPS {
        assert_bits_eq(
            case.met_in,
            &spec::table_lookup(case.table, case.coords)?,
            case.value,
        );
        if let Some((d_coords, d_table)) = case.gradients {
            let g = if case.cotangent.is_empty() {
                vec![1.0; case.coords.len()]
            } else {
                case.cotangent.to_vec()
            };
            let (dt, du) = spec::table_lookup_vjp(case.table, case.coords, &g)?;
            assert_bits_eq(case.met_in, &du, d_coords);
            assert_bits_eq(case.met_in, &dt, d_table);
        }
    }
    Ok(())
}

#[test]
fn lookups() {
    common::in_every_form_on_the_device(lookups_here);
}

fn lookups_here() -> Result<()> {
    for case in LOOKUPS {
        let ones = vec![1.0; case.coords.len()];
        let cotangent = if case.cotangent.is_empty() {
            &ones
        } else {
            case.cotangent
        };
        for (u, g) in lengths(case.coords).iter().zip(&lengths(cotangent)) {
            let (want_table, want_coords) = spec::table_lookup_vjp(case.table, u, g)?;
            let want = spec::table_lookup(case.table, u)?;
            let tape = Tape::new();
            let (t, x) = (tape.leaf(buffer(case.table))?, tape.leaf(buffer(u))?);
            let value = tape.table_lookup(t, x)?;
            assert_bits_eq(case.met_in, &tape.value(value)?.to_vec()?, &want);
            let gradients = tape.backward(value, Some(&buffer(g)))?;
            assert_bits_eq(
                case.met_in,
                &gradients.get(x)?.unwrap().to_vec()?,
                &want_coords,
            );
            assert_bits_eq(
                case.met_in,
                &gradients.get(t)?.unwrap().to_vec()?,
                &want_table,
            );

            // The same with a table that needs no gradient, and as the second of two layers.
            let tape = Tape::new();
            let (t, x) = (tape.constant(buffer(case.table))?, tape.leaf(buffer(u))?);
            let gradients = tape.backward(tape.table_lookup(t, x)?, Some(&buffer(g)))?;
            assert_bits_eq(
                case.met_in,
                &gradients.get(x)?.unwrap().to_vec()?,
                &want_coords,
            );
            let width = case.table.len();
            let layered =
                Buffer::from_slice(&[&vec![-77.0; width], case.table].concat(), &[2, width])?;
            let ones = Buffer::full(&[u.len()], 1.0)?;
            assert_bits_eq(
                case.met_in,
                &layered.layered_table_lookup(&buffer(u), &ones)?.to_vec()?,
                &want,
            );
        }
    }
    Ok(())
}

/// `min(v0, v1) <= v <= max(v0, v1)` for finite tables.
#[test]
fn a_value_lies_between_its_neighbours() {
    common::in_every_form_on_the_device(a_value_lies_between_its_neighbours_here);
}

fn a_value_lies_between_its_neighbours_here() -> Result<()> {
    let mut random = fastrand::Rng::with_seed(3);
    let table: Vec<f32> = (0..1000).map(|_| (random.f32() - 0.5) * 1e6).collect();
    let u: Vec<f32> = (0..100_000).map(|_| random.f32() * 999.0).collect();
    for (&u, v) in u
        .iter()
        .zip(buffer(&table).table_lookup(&buffer(&u))?.to_vec()?)
    {
        let (v0, v1) = (table[u as usize], table[(u as usize + 1).min(999)]);
        assert!(
            v0.min(v1) <= v && v <= v0.max(v1),
            "{u}: {v} outside {v0}, {v1}"
        );
    }
    Ok(())
}
