//! The published tables of eight thermocouples.

use super::*;

fn table(checks: &Checks, kind: &str) -> (i32, Vec<f64>) {
    read::nist(&checks.path(&format!("thermocouple_nist/type_{kind}.tab")))
}

#[test]
fn type_k_as_printed() {
    let Some(mut checks) = Checks::begin("type_k_as_printed", 17) else {
        return;
    };
    let (first, millivolts) = table(&checks, "k");
    let k = floats(&millivolts);
    checks.equal("first degree and points", (first, k.len()), (-270, 1643));
    let grid = Grid::new(-270.0, 1.0, 1643).unwrap();
    let at = |t: f64| lookup(&k, &grid.coords(&[t]))[0];
    // At a knot and outside, the entry itself.
    for (t, want) in [
        (100.0, 4.096f32),
        (-270.0, -6.458),
        (1372.0, 54.886),
        (-300.0, -6.458),
        (2000.0, 54.886),
    ] {
        checks.equal("at a knot", at(t), f64::from(want));
    }
    // Half ulps of values below 8 and of u below 512, over slopes of 0.04.
    for (t, want) in [(100.5, 4.1170), (25.7, 1.0287), (-50.5, -1.9070)] {
        checks.close("between knots", at(t), want, 2e-6);
    }
    let inverse = inverse(grid, &k).unwrap();
    let junction = inverse.value(&[23.4]).unwrap()[0];
    for (mv, want, tolerance) in [
        // float32's part of each is below 2e-4: one ulp of the voltage over the slope.
        (4.096, 100.0, 1e-3),
        (12.209, 300.0, 1e-3),
        (20.644, 500.0, 1e-3),
        (41.276, 1000.0, 1e-3),
        (-6.0, -207.4615, 1e-3),
        (8.100 + junction, 222.376, 2e-2),
    ] {
        let found = inverse.solve(&[mv], 0.5).unwrap();
        checks.close(
            "inverse",
            found[0].map_or(f64::NAN, |tip| tip.0),
            want,
            tolerance,
        );
    }
    let outside = inverse.solve(&[-6.459, 54.887], 0.5).unwrap();
    checks.equal("out of range", outside, vec![None, None]);
    checks.equal("targets missed", misses(&k), 0);
    checks.end();
}

#[test]
fn type_k_from_its_coefficients() {
    let Some(mut checks) = Checks::begin("type_k_from_its_coefficients", 3) else {
        return;
    };
    let (first, printed) = table(&checks, "k");
    let last = f64::from(first) + (printed.len() - 1) as f64;
    checks.equal("range", (f64::from(first), last), type_k::RANGE);
    let computed = |k: usize| type_k::millivolts(f64::from(first) + k as f64);
    let same = printed
        .iter()
        .enumerate()
        .filter(|(k, mv)| (computed(*k) * 1e3).round() == (*mv * 1e3).round())
        .count();
    checks.equal("entries that print the same", same, printed.len());
    let columns = read::columns(&checks.path("thermocouple_nist/type_k_from_coeffs.csv"));
    let worst = columns[0]
        .iter()
        .zip(&columns[1])
        .map(|(&t, mv)| (type_k::millivolts(t) - mv).abs())
        .fold(0.0, f64::max);
    // Six decimals.
    checks.close("another evaluation", worst, 0.0, 5.1e-7);
    checks.end();
}

#[test]
fn all_eight_types() {
    let Some(mut checks) = Checks::begin("all_eight_types", 11) else {
        return;
    };
    let tables = ["b", "e", "j", "k", "n", "r", "s", "t"].map(|kind| table(&checks, kind));
    checks.equal(
        "points",
        tables.iter().map(|t| t.1.len()).sum::<usize>(),
        12_026,
    );
    let refused = |(first, millivolts): &(i32, Vec<f64>)| {
        let grid = Grid::new(f64::from(*first), 1.0, millivolts.len()).unwrap();
        inverse(grid, &floats(millivolts))
            .err()
            .map(|e| e.to_string())
    };
    // B has a minimum near 21 degC; N is level at three decimals at its cold end. Neither can be inverted as it
    // stands.
    for (kind, want) in [(0, "from 0 to 1"), (4, "from -27")] {
        let error = refused(&tables[kind]).unwrap_or_default();
        checks.that(&format!("{error:?} says {want:?}"), error.contains(want));
    }
    for (kind, name) in [(1, "e"), (2, "j"), (3, "k"), (5, "r"), (6, "s"), (7, "t")] {
        checks.equal(name, refused(&tables[kind]), None);
    }
    for (kind, name) in [(1, "e"), (2, "j")] {
        checks.equal(name, misses(&floats(&tables[kind].1)), 0);
    }
    checks.end();
}
