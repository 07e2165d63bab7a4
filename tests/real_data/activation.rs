//! The sigmoid of quantised inference: 256 entries of `sigmoid(i / 24)`, unsigned Q0.16.

use super::*;

#[test]
fn sigmoid() {
    let Some(mut checks) = Checks::begin("sigmoid", 5) else {
        return;
    };
    let entries =
        read::columns(&checks.path("activation/cmsis_nn_sigmoid_table_uint16.csv"))[1].clone();
    checks.equal("entries", entries.len(), 256);
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let grid = Grid::new(0.0, 1.0 / 24.0, 256).unwrap();
    let worst = entries
        .iter()
        .enumerate()
        .map(|(k, e)| (e - 65536.0 * sigmoid(k as f64 / 24.0)).abs())
        .fold(0.0, f64::max);
    // Printed to two decimals.
    checks.close("entries, in units of 2^-16", worst, 1.11, 0.005);
    // Over 2^16, exact in float32.
    let table: Vec<f32> = entries.iter().map(|e| (e / 65536.0) as f32).collect();
    let x: Vec<f64> = (0..=1_062_500).map(|k| f64::from(k) * 1e-5).collect();
    let values = lookup(&table, &grid.coords(&x));
    let (worst, at) = values
        .iter()
        .zip(&x)
        .map(|(v, &x)| ((v - sigmoid(x)).abs(), x))
        .fold((0.0, 0.0), |a, b| if b.0 > a.0 { b } else { a });
    // In float64 it is 1.6918e-5; half an ulp of a value below 1 is 3e-8, of the coordinate 2e-6 cells of 0.007.
    checks.close("error of the lookup", worst, 1.6918e-5, 3e-8 + 2e-8);
    checks.close("its place", at, 1.458, 5e-4);
    // 65535 / 65536 is exact.
    checks.equal(
        "clamped",
        lookup(&table, &grid.coords(&[20.0]))[0],
        1.0 - 1.0 / 65536.0,
    );
    checks.end();
}
