//! Inputs on which some library once went wrong, each with the right value; issues are numbered as in its tracker.
//! Our own faults are at the end.

mod common;

use common::assert_bits_eq;
use torchlean::{Buffer, Error, Result, Tape, spec};

const INF: f32 = f32::INFINITY;
const NAN: f32 = f32::NAN;

fn buffer(values: &[f32]) -> Buffer {
    Buffer::from_slice(values, &[values.len()]).unwrap()
}

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

/// A row as it stands, and repeated to 40 elements, where vector bodies run.
fn lengths(x: &[f32]) -> [Vec<f32>; 2] {
    [x.to_vec(), x.iter().copied().cycle().take(40).collect()]
}

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

#[test]
fn gathers() {
    common::in_every_form_on_the_device(gathers_here);
}

fn gathers_here() -> Result<()> {
    type Row = (&'static str, &'static [f32], &'static [f32], &'static [f32]);
    let rows: [Row; 4] = [
        (
            "pytorch 151510",
            &[10.0, 20.0, 30.0, 40.0, 50.0],
            &[f32::MAX, f32::MIN, 9.223372e18],
            &[50.0, 10.0, 50.0],
        ),
        (
            "pytorch 6472",
            &[1.0, 2.0, 3.0],
            &[-1.0, -0.5, -0.0, 0.99, 1.99, 2.99],
            &[1.0, 1.0, 1.0, 1.0, 2.0, 3.0],
        ),
        ("scipy 6624", &[10.0, 20.0, 30.0], &[NAN], &[10.0]),
        (
            "the last entry, by vector bodies",
            &[1.0, 2.0, 3.0],
            &[INF],
            &[3.0],
        ),
    ];
    for (met_in, table, positions, value) in rows {
        for (p, want) in lengths(positions).iter().zip(&lengths(value)) {
            assert_bits_eq(met_in, &spec::gather_at(table, p)?, want);
            assert_bits_eq(
                met_in,
                &buffer(table).gather_at(&buffer(p))?.to_vec()?,
                want,
            );
        }
    }
    // pytorch 180159, 154724: the result has the positions' shape.
    let p = Buffer::zeros(&[2, 1, 2])?;
    assert_eq!(buffer(&[1.0, 2.0]).gather_at(&p)?.shape(), [2, 1, 2]);
    assert_eq!(buffer(&[1.0, 2.0]).table_lookup(&p)?.shape(), [2, 1, 2]);
    Ok(())
}

/// The order of the additions is the host's; the sums here are exact but for the first two.
#[test]
fn scatters() {
    common::in_every_form_on_the_device(scatters_here);
}

fn scatters_here() -> Result<()> {
    let device = need_device_or_ok!();
    type Row = (
        &'static str,
        usize,
        &'static [f32],
        &'static [f32],
        &'static [f32],
    );
    let rows: [Row; 4] = [
        (
            "pytorch 3644",
            3,
            &[0.0, 0.0, 0.0, 2.0],
            &[1e8, 1.0, -1e8, 5.0],
            &[0.0, 0.0, 5.0],
        ),
        ("pytorch 75240", 1, &[0.0; 3], &[1e8, -1e8, 1.0], &[1.0]),
        (
            "pytorch 87556",
            3,
            &[NAN, NAN],
            &[1.0, 2.0],
            &[3.0, 0.0, 0.0],
        ),
        (
            "pytorch PR 182675",
            4,
            &[3.0; 8],
            &[1.0; 8],
            &[0.0, 0.0, 0.0, 8.0],
        ),
    ];
    for (k, (met_in, size, positions, values, want)) in rows.into_iter().enumerate() {
        assert_bits_eq(
            met_in,
            &spec::scatter_add_at(size, positions, values)?,
            want,
        );
        if k < 2 && device != torchlean::DeviceKind::Host {
            continue;
        }
        for _ in 0..100 {
            let got = Buffer::scatter_add_at(size, &buffer(positions), &buffer(values))?;
            assert_bits_eq(met_in, &got.to_vec()?, want);
        }
    }
    Ok(())
}

/// Above 2^24 a float clamp to size - 1 rounds up, one past the end, or down, so that the last is never read.
#[test]
fn tables_above_two_to_the_24() {
    common::in_every_form_on_the_device(tables_above_two_to_the_24_here);
}

fn tables_above_two_to_the_24_here() -> Result<()> {
    for size in [16_777_220_usize, 16_777_218] {
        let mut entries = vec![0.0; size];
        for (place, value) in [
            (0, 1.0),
            (16_777_215, 2.0),
            (16_777_216, 3.0),
            (size - 1, 4.0),
        ] {
            entries[place] = value;
        }
        let positions = [
            INF,
            1e30,
            16_777_216.0,
            16_777_224.0,
            16_777_215.0,
            -INF,
            NAN,
            -1e30,
            9.223372e18,
        ];
        let want = [4.0, 4.0, 3.0, 4.0, 2.0, 1.0, 1.0, 1.0, 4.0];
        let table = Buffer::from_slice(&entries, &[size])?;
        for (p, want) in lengths(&positions).iter().zip(&lengths(&want)) {
            assert_bits_eq("gather_at", &table.gather_at(&buffer(p))?.to_vec()?, want);
            let ones = Buffer::full(&[p.len()], 1.0)?;
            let counts = Buffer::scatter_add_at(size, &buffer(p), &ones)?.to_vec()?;
            let hits = |value| want.iter().filter(|&&w| w == value).count() as f32;
            assert_bits_eq(
                "scatter_add_at",
                &[counts[0], counts[16_777_216], counts[size - 1]],
                &[hits(1.0), hits(3.0), hits(4.0)],
            );
        }
        // A lookup refuses what its coordinates cannot address.
        let refused = table.table_lookup(&buffer(&[0.0]));
        assert!(matches!(refused, Err(Error::TableTooLarge { size: found, .. }) if found == size));
    }
    // The longest table that it takes.
    let width = 1 << 24;
    let mut entries = vec![0.0; width];
    entries[width - 2..].copy_from_slice(&[5.0, 7.0]);
    let table = Buffer::from_slice(&entries, &[width])?;
    let u = [
        16_777_214.0,
        16_777_215.0,
        16_777_216.0,
        INF,
        16_777_213.0,
        0.5,
    ];
    assert_bits_eq(
        "W = 2^24",
        &table.table_lookup(&buffer(&u))?.to_vec()?,
        &[5.0, 7.0, 7.0, 7.0, 0.0, 0.0],
    );
    Ok(())
}

/// onnxruntime 28107, candle 3604: flat index 16777219, which float32 arithmetic misses by one.
#[test]
fn a_layered_table_whose_flat_index_is_above_two_to_the_24() {
    common::in_every_form_on_the_device(
        a_layered_table_whose_flat_index_is_above_two_to_the_24_here,
    );
}

fn a_layered_table_whose_flat_index_is_above_two_to_the_24_here() -> Result<()> {
    let (layers, width) = (3, 8_388_609);
    let mut entries = vec![0.0; layers * width];
    entries[16_777_218..16_777_221].copy_from_slice(&[10.0, 20.0, 40.0]);
    let table = Buffer::from_slice(&entries, &[layers, width])?;
    let u = [0.0, 1.0, 1.5, 2.0, -1.0];
    for (u, want) in lengths(&u)
        .iter()
        .zip(&lengths(&[10.0, 20.0, 30.0, 40.0, 10.0]))
    {
        let layer = Buffer::full(&[u.len()], 2.0)?;
        assert_bits_eq(
            "layered",
            &table.layered_table_lookup(&buffer(u), &layer)?.to_vec()?,
            want,
        );
    }
    Ok(())
}

#[test]
fn what_is_refused_names_the_operation_and_the_next_call_works() {
    common::in_every_form_on_the_device(
        what_is_refused_names_the_operation_and_the_next_call_works_here,
    );
}

fn what_is_refused_names_the_operation_and_the_next_call_works_here() -> Result<()> {
    let (empty, one, two) = (buffer(&[]), buffer(&[1.0]), buffer(&[1.0, 2.0]));
    let (scalar, matrix) = (Buffer::scalar(1.0)?, Buffer::zeros(&[2, 2])?);
    let no_width = Buffer::zeros(&[2, 0])?;
    let no_layers = Buffer::zeros(&[0, 2])?;
    let refusals: Vec<(Result<Buffer>, &str)> = vec![
        (empty.table_lookup(&one), "table_lookup: the table is empty"),
        (
            scalar.table_lookup(&one),
            "table_lookup: expected a table of rank 1",
        ),
        (
            matrix.table_lookup(&one),
            "table_lookup: expected a table of rank 1",
        ),
        (empty.gather_at(&one), "gather_at: the table is empty"),
        (
            matrix.gather_at(&one),
            "gather_at: expected a table of rank 1",
        ),
        (
            Buffer::scatter_add_at(0, &one, &one),
            "scatter_add_at: the table is empty",
        ),
        (
            Buffer::scatter_add_at(3, &one, &two),
            "scatter_add_at: expected the same shape twice, [1]",
        ),
        (
            Buffer::scatter_add_at(usize::MAX, &one, &one),
            "scatter_add_at: the shape [18446744073709551615]",
        ),
        (
            Buffer::scatter_add_at(1 << 60, &one, &one),
            "scatter_add_at: out of memory",
        ),
        (
            two.layered_table_lookup(&one, &one),
            "layered_table_lookup: expected a table of rank 2",
        ),
        (
            no_width.layered_table_lookup(&one, &one),
            "layered_table_lookup: the table is empty",
        ),
        (
            no_layers.layered_table_lookup(&one, &one),
            "layered_table_lookup: the table is empty",
        ),
        (
            matrix.layered_table_lookup(&one, &two),
            "layered_table_lookup: expected the same shape twice",
        ),
        (
            one.add(&two),
            "add: expected the same shape twice, [1] (shapes are not broadcast",
        ),
        (
            matrix.mul(&matrix.reshape(&[4])?),
            "mul: expected the same shape twice, [2, 2]",
        ),
        (
            two.index_select(&[0, 2]),
            "index_select: index 2 at place 1 is outside 0..2",
        ),
        (
            two.index_select(&[-1]),
            "index_select: index -1 at place 0 is outside 0..2",
        ),
        (
            scalar.index_select(&[0]),
            "index_select: expected rank 1 or more",
        ),
        (
            two.scatter_add(&[5], &one),
            "scatter_add: index 5 at place 0",
        ),
        (
            two.scatter_add(&[0, 1], &one),
            "scatter_add: expected values of shape [2]",
        ),
        (two.clamp(1.0, -1.0), "clamp: expected bounds lo <= hi"),
        (two.clamp(NAN, 1.0), "clamp: expected bounds lo <= hi"),
        (two.reshape(&[3]), "reshape: expected 2 elements"),
        (two.reshape(&[usize::MAX, 3]), "reshape: the shape"),
        (Buffer::zeros(&[usize::MAX]), "zeros: the shape"),
        (Buffer::full(&[1 << 40, 1 << 40], 1.0), "full: the shape"),
        (
            Buffer::from_slice(&[1.0], &[2]),
            "from_slice: expected a shape of 1 elements",
        ),
    ];
    for (result, message) in refusals {
        let text = result.unwrap_err().to_string();
        assert!(text.starts_with(message), "{text}");
        // pytorch 17425
        assert_bits_eq("the next call", &two.add(&two)?.to_vec()?, &[2.0, 4.0]);
    }
    // More memory than any machine has: an error with the size, and nothing lost.
    let asked = Buffer::zeros(&[1 << 50]).unwrap_err();
    assert!(
        matches!(asked, Error::OutOfMemory { bytes, .. } if bytes == 1 << 52),
        "{asked}"
    );
    assert_bits_eq("the next call", &two.add(&two)?.to_vec()?, &[2.0, 4.0]);
    Ok(())
}

/// splines 9, pytorch 72055, 114864: zero coordinates and coordinates of rank 0.
#[test]
fn zero_and_zero_dimensional_coordinates() {
    common::in_every_form_on_the_device(zero_and_zero_dimensional_coordinates_here);
}

fn zero_and_zero_dimensional_coordinates_here() -> Result<()> {
    let table = buffer(&[1.0, 3.0]);
    let looked_up = table.table_lookup(&Buffer::scalar(0.5)?)?;
    assert_eq!((looked_up.shape(), looked_up.item()?), (&[][..], 2.0));
    let none = table.table_lookup(&Buffer::zeros(&[4, 0, 2])?)?;
    assert_eq!((none.shape(), none.to_vec()?.len()), (&[4, 0, 2][..], 0));
    assert_eq!(table.gather_at(&buffer(&[]))?.len(), 0);
    assert_bits_eq(
        "nothing added",
        &Buffer::scatter_add_at(2, &buffer(&[]), &buffer(&[]))?.to_vec()?,
        &[0.0, 0.0],
    );
    assert_eq!(
        Buffer::zeros(&[3, 0])?.index_select(&[2, 2])?.shape(),
        [2, 0]
    );
    assert_eq!(Buffer::zeros(&[3, 2])?.index_select(&[])?.shape(), [0, 2]);
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

/// Ours: libtorch's float32 square root on the host is not correctly rounded from 15 elements up.
#[test]
fn square_roots_are_correctly_rounded() -> Result<()> {
    need_device_or_ok!();
    let rows = [
        (0x3f7f_ffff_u32, 0x3f7f_ffff_u32), // 0.99999994; libtorch gives 1
        (0x407f_ffff, 0x3fff_ffff),
        (0x0000_0001, 0x1a35_04f3),
        (0x7f7f_ffff, 0x5f7f_ffff),
    ];
    for (bits, want) in rows {
        let x = vec![f32::from_bits(bits); 40];
        assert_bits_eq(
            "sqrt",
            &buffer(&x).sqrt()?.to_vec()?,
            &[f32::from_bits(want); 40],
        );
    }
    Ok(())
}

/// Ours: in `tch` 0.24 a call that takes a scalar panics when libtorch refuses it, here for want of memory.
#[test]
fn an_allocation_that_fails_in_a_call_with_scalars_is_an_error() -> Result<()> {
    need_device_or_ok!();
    let asked = Buffer::full(&[1 << 50], 1.0);
    assert!(matches!(asked, Err(Error::OutOfMemory { .. })), "{asked:?}");
    assert_eq!(Buffer::scalar(1.0)?.scale(2.0)?.item()?, 2.0);
    Ok(())
}

/// Ours: an empty axis beside axes whose product overflows was a shape, and panicked in the first operation on rows.
#[test]
fn an_empty_axis_does_not_excuse_axes_that_overflow() -> Result<()> {
    need_device_or_ok!();
    for shape in [
        [0, usize::MAX, 2],
        [usize::MAX, 2, 0],
        [0, 1 << 62, 1 << 62],
    ] {
        for refused in [
            Buffer::zeros(&shape),
            Buffer::full(&shape, 1.0),
            Buffer::from_slice(&[], &shape),
            Buffer::zeros(&[0])?.reshape(&shape),
        ] {
            assert!(
                matches!(refused, Err(Error::SizeOverflow { .. })),
                "{shape:?}"
            );
        }
    }
    assert_eq!(
        Buffer::zeros(&[0, 1 << 40])?.index_select(&[])?.shape(),
        [0, 1 << 40]
    );
    Ok(())
}

/// Ours: the reference panicked on sizes beyond memory.
#[test]
fn the_reference_refuses_sizes_beyond_memory() {
    for size in [usize::MAX, isize::MAX as usize, 1 << 60] {
        let refused = spec::scatter_add_at(size, &[], &[]);
        assert!(
            matches!(refused, Err(Error::OutOfMemory { .. })),
            "{size}: {refused:?}"
        );
    }
    assert!(matches!(
        spec::index_select(&[1.0], usize::MAX, &[0]),
        Err(Error::Shape { .. })
    ));
    assert!(matches!(
        spec::scatter_add(&[], usize::MAX, &[0], &[]),
        Err(Error::IndexOutOfRange { .. })
    ));
}

/// Ours: a result made while a thread ends, when its thread-local values are gone, aborted the process.
#[test]
fn results_may_be_made_while_a_thread_ends() {
    need_device!();
    struct Late(Buffer);
    impl Drop for Late {
        fn drop(&mut self) {
            assert_eq!(self.0.sqrt().unwrap().item().unwrap(), 3.0);
        }
    }
    thread_local! { static LATE: std::cell::RefCell<Option<Late>> = const { std::cell::RefCell::new(None) }; }
    let thread = std::thread::spawn(|| {
        LATE.with_borrow_mut(|late| *late = Some(Late(Buffer::scalar(9.0).unwrap())));
        Buffer::scalar(4.0).unwrap().sqrt().unwrap();
    });
    thread.join().unwrap();
}
