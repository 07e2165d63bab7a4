//! Display calibration, film scans, transfer functions: layered tables on planes of pixels.

use super::*;
use sha2::{Digest, Sha256};

/// Three curves of 256 entries each, uint16.
fn display(checks: &Checks) -> Vec<Vec<f64>> {
    read::columns(&checks.path("color_luts/display_vcgt_rgb.csv"))[1..].to_vec()
}

#[test]
fn display_calibration() {
    let Some(mut checks) = Checks::begin("display_calibration", 9) else {
        return;
    };
    let tables: Vec<Vec<f32>> = display(&checks).iter().map(|t| floats(t)).collect();
    // Integers below 2^24 and a half: exact.
    let values = layered(
        &tables,
        &[127.5, 127.5, 127.5, 0.0, 0.0, 0.0],
        &[0.0, 1.0, 2.0, 0.0, 1.0, 2.0],
    );
    checks.equal(
        "levels in the middle",
        &values[..3],
        &[38635.0, 38791.0, 37795.0],
    );
    checks.equal("raised blacks", &values[3..], &[11654.0, 11547.0, 4286.0]);
    checks.equal(
        "a level past the end, layers past the end",
        layered(&tables, &[1e9, 1e9], &[-3.0, 7.5]),
        vec![f64::from(tables[0][255]), f64::from(tables[2][255])],
    );
    for (channel, want) in [102.7119, 102.5295, 104.6410].into_iter().enumerate() {
        let grid = Grid::new(0.0, 1.0, 256).unwrap();
        let found = inverse(grid, &tables[channel])
            .unwrap()
            .solve(&[0.5 * 65535.0], 0.5)
            .unwrap();
        // Four decimals, and one ulp of a value of 32767.5 (2e-3) over a slope of 200.
        checks.close(
            "half way up",
            found[0].map_or(f64::NAN, |tip| tip.0),
            want,
            6e-5 + 1e-5,
        );
        checks.equal("targets missed", misses(&tables[channel]), 0);
    }
    checks.end();
}

/// Pseudo-random coordinates in `[0, end)`, computed in float64 and rounded once.
fn scattered(n: u64, end: f64) -> Vec<f32> {
    (0..n)
        .map(|k| ((k * 2654435761 % (1 << 32)) as f64 / (1u64 << 32) as f64 * end) as f32)
        .collect()
}

/// The sum in float64, and the first eight bytes of the SHA-256 of the little-endian values.
fn fingerprint(values: &Buffer) -> (f64, String) {
    let values = values.to_vec().unwrap();
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let hash = Sha256::digest(bytes);
    (
        values.into_iter().map(f64::from).sum(),
        hash.iter().take(8).map(|b| format!("{b:02x}")).collect(),
    )
}

/// One plane of 3840 x 2160 pixels a channel, to the bit.
#[test]
fn display_calibration_of_a_whole_frame() {
    let Some(mut checks) = Checks::begin("display_calibration_of_a_whole_frame", 6) else {
        return;
    };
    let table: Vec<f32> = display(&checks)
        .concat()
        .iter()
        .map(|v| (v / 65535.0) as f32)
        .collect();
    let table = Buffer::from_slice(&table, &[3, 256]).unwrap();
    let shape = [2160, 3840];
    let coords = Buffer::from_slice(&scattered(3840 * 2160, 255.0), &shape).unwrap();
    let want = [
        (4807979.68, "ab34cb83169eb1b8"),
        (4843822.98, "294e23bccc518c98"),
        (4663998.30, "aa7cca87e27b7ba7"),
    ];
    for (layer, (sum, hash)) in [0.0, 1.0, 2.0].into_iter().zip(want) {
        let layers = Buffer::full(&shape, layer).unwrap();
        let have = fingerprint(&table.layered_table_lookup(&coords, &layers).unwrap());
        // Two decimals.
        checks.close("sum", have.0, sum, 0.005);
        checks.equal("bits", &*have.1, hash);
    }
    checks.end();
}

/// Ten million readings of a type K table, to the bit.
#[test]
fn ten_million_thermocouple_voltages() {
    let Some(mut checks) = Checks::begin("ten_million_thermocouple_voltages", 2) else {
        return;
    };
    let (_, table) = read::nist(&checks.path("thermocouple_nist/type_k.tab"));
    let table = buffer(&floats(&table));
    let have = fingerprint(
        &table
            .table_lookup(&buffer(&scattered(10_000_000, 1642.0)))
            .unwrap(),
    );
    // Printed to the unit.
    checks.close("sum", have.0, 228467426.0, 0.5);
    checks.equal("bits", &*have.1, "bc4230a715df2013");
    checks.end();
}

#[test]
fn film_scan_to_linear() {
    let Some(mut checks) = Checks::begin("film_scan_to_linear", 7) else {
        return;
    };
    let rows = read::numbers(&checks.path("color_luts/Test_12to16fp.lut"));
    // One value a line, channel after channel: half floats, their bits as integers.
    let values: Vec<f32> = rows.iter().map(|row| read::half(row[0] as u16)).collect();
    checks.equal("entries", values.len(), 3 * 4096);
    let tables: Vec<Vec<f32>> = values.chunks(4096).map(<[f32]>::to_vec).collect();
    let coords = Grid::new(0.0, 1.0 / 4095.0, 4096)
        .unwrap()
        .coords(&[0.1, 0.5, 0.9, 0.9979, 0.9979, 0.9979]);
    let have = layered(&tables, &coords, &[0.0, 1.0, 2.0, 0.0, 1.0, 2.0]);
    // Only entry 4086 of R differs from G and B: a lookup that takes one layer for all would give the same three
    // times.
    let want = [
        0.433349609,
        1.28271484,
        4.59960938,
        6.40547371,
        6.40781498,
        6.40781498,
    ];
    for (have, want) in have.into_iter().zip(want) {
        // The coordinates are float32, 2.4e-4 apart at the end; at 0.9979 R rises by 0.0078 a cell. And one ulp of
        // 6.4.
        checks.close("level", have, want, 1.9e-6 + 5e-7);
    }
    checks.end();
}

#[test]
fn srgb_from_a_table() {
    let Some(mut checks) = Checks::begin("srgb_from_a_table", 8) else {
        return;
    };
    let rows = read::numbers(&checks.path("color_luts/sRGB_to_linear.spi1d"));
    let table: Vec<f32> = rows.iter().map(|row| row[0] as f32).collect();
    checks.equal("entries", table.len(), 4101);
    let grid = Grid::new(-0.125, 1.25 / 4100.0, 4101).unwrap();
    let inputs = [0.5, 0.18, -0.1, 1.1];
    for (have, want) in lookup(&table, &grid.coords(&inputs)).into_iter().zip([
        0.21404114,
        0.0272118,
        -0.00773994,
        1.2427703,
    ]) {
        // float32 against float64: 1.3e-7, and half a unit of the last digit printed.
        checks.close("linear", have, want, 1.3e-7 + 5e-8);
    }
    let x: Vec<f64> = (0..=100_000).map(|k| f64::from(k) / 1e5).collect();
    let iec = |v: f64| {
        if v <= 0.04045 {
            v / 12.92
        } else {
            ((v + 0.055) / 1.055).powf(2.4)
        }
    };
    let worst = lookup(&table, &grid.coords(&x))
        .iter()
        .zip(&x)
        .map(|(have, &x)| (have - iec(x)).abs())
        .fold(0.0, f64::max);
    // The lines between the knots are within 9.4e-8 of the function in float64.
    checks.close("the IEC 61966-2-1 formula", worst, 0.0, 9.4e-8 + 1.3e-7);
    let back = inverse(grid, &table)
        .unwrap()
        .solve(&[0.2140411], 0.5)
        .unwrap();
    checks.close(
        "back again",
        back[0].map_or(f64::NAN, |tip| tip.0),
        0.5,
        2e-7,
    );
    checks.equal("targets missed", misses(&table), 0);
    checks.end();
}

/// Each channel has its own grid.
#[test]
fn a_domain_per_channel() {
    let Some(mut checks) = Checks::begin("a_domain_per_channel", 12) else {
        return;
    };
    let rows: Vec<Vec<f64>> = read::numbers(&checks.path("color_luts/iridas_1d.cube"));
    let tables: Vec<Vec<f32>> = (0..3)
        .map(|c| rows.iter().map(|row| row[c] as f32).collect())
        .collect();
    let grids = [(-2.0, 1.0), (1.0, 0.25), (0.0, 0.25)]
        .map(|(origin, step)| Grid::new(origin, step, 5).unwrap());
    for (pixel, want) in [
        ([-1.0, 1.25, 0.25], [0.0, 0.1, 0.2]),
        ([0.0, 1.3, 0.6], [0.4, 0.18, 0.76]),
        ([0.7, 1.9, 0.9], [0.68, 1.62, 2.32]),
        ([5.0, 5.0, 5.0], [1.0, 2.1, 3.2]),
    ] {
        let coords: Vec<f32> = grids
            .iter()
            .zip(pixel)
            .map(|(grid, x)| grid.coords(&[x])[0])
            .collect();
        for (have, want) in layered(&tables, &coords, &[0.0, 1.0, 2.0])
            .into_iter()
            .zip(want)
        {
            // A few roundings of values up to 4.
            checks.close("channel", have, want, 5e-7);
        }
    }
    checks.end();
}
