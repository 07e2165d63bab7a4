//! Lux from a spectrum: the eye's response at the wavelengths of a spectrum on another, uneven grid.

use super::*;

#[test]
fn daylight_in_lux() {
    let Some(mut checks) = Checks::begin("daylight_in_lux", 6) else {
        return;
    };
    let eye = read::columns(&checks.path("photometry/cie_v_lambda.csv"));
    let sun = read::columns(&checks.path("photometry/ASTMG173.csv"));
    checks.equal("wavelengths", (eye[0].len(), sun[0].len()), (471, 2002));
    let grid = Grid::new(360.0, 1.0, 471).unwrap();
    // On its own grid already: resampling changes nothing.
    let table = grid.resample(&eye[0], &eye[1]).unwrap();
    checks.equal("resampled", &table, &floats(&eye[1]));
    let at = lookup(&table, &grid.coords(&[555.0, 510.0, 555.5]));
    checks.equal("V(555), V(510)", &at[..2], &[1.0, f64::from(0.503f32)]);
    // Half ulps of values below 1.
    checks.close("V(555.5)", at[2], 0.9999284, 5e-8 + 6e-8);
    let v = lookup(&table, &grid.coords(&sun[0]));
    let integrate = |y: &[f64]| -> f64 {
        sun[0]
            .windows(2)
            .zip(y.windows(2))
            .map(|(x, y)| (x[1] - x[0]) * (y[0] + y[1]) / 2.0)
            .sum()
    };
    // Float64 throughout; three decimals are published.
    checks.close(
        "W/m2 of the global spectrum",
        integrate(&sun[2]),
        1000.371,
        5e-4,
    );
    let seen: Vec<f64> = sun[2].iter().zip(&v).map(|(e, v)| e * v).collect();
    // The ends clamp at 4e-6 and 1e-6, which adds 0.2 lux. One decimal, and 2^-24 of each V.
    checks.close("lux", 683.002 * integrate(&seen), 109495.4, 0.05 + 0.01);
    checks.end();
}
