//! Reading and adding at places: clamped, far beyond the table, above 2^24.

use torchlean::{Buffer, DeviceKind, Error, Result, spec};

use crate::common::{self, assert_bits_eq};
use crate::{INF, NAN, buffer, lengths, need_device_or_ok};

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
        if k < 2 && device != DeviceKind::Host {
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
