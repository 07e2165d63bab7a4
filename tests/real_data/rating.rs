//! River stage to discharge. The rating's rule is a straight line in (log(stage - 2), log discharge), which is the
//! user's to map.

use super::*;

/// The coordinate of `x` in a table with knots at `xs`, each one cell from the next.
fn place(xs: &[f64], x: f64) -> f32 {
    let cell = xs.partition_point(|&knot| knot <= x).clamp(1, xs.len() - 1) - 1;
    (cell as f64 + (x - xs[cell]) / (xs[cell + 1] - xs[cell])) as f32
}

#[test]
fn stage_to_discharge() {
    let Some(mut checks) = Checks::begin("stage_to_discharge", 19) else {
        return;
    };
    let (stage, discharge) = read::rdb(&checks.path("usgs_rating/USGS_01594440_base.rdb"));
    checks.equal("points", stage.len(), 11);
    let offset = |stage: f64| (stage - 2.0).ln();
    let (log_stage, log_discharge): (Vec<f64>, Vec<f64>) = stage
        .iter()
        .zip(&discharge)
        .map(|(&h, q)| (offset(h), q.ln()))
        .unzip();
    let straight = |h: f64| lookup(&floats(&discharge), &[place(&stage, h)])[0];
    let curved = |h: f64| lookup(&floats(&log_discharge), &[place(&log_stage, offset(h))])[0].exp();
    checks.equal("a knot", straight(4.0), 110.0);
    for (h, log, plain) in [
        (3.5, 64.647, 70.396),
        (8.0, 863.602, 887.500),
        (10.0, 1729.726, 1968.750),
        (20.0, 14717.353, 15182.389),
        (27.0, 28980.925, 29235.883),
    ] {
        // Three decimals; ln Q up to 10.3 is rounded three times at 2^-21 and its coordinate once, in cells of up to
        // 1.4.
        checks.close("as the rating says", curved(h), log, 5e-4 + 3e-6 * log);
        // Half ulps of values up to 2^15.
        checks.close(
            "plain, 1 to 14 % off",
            straight(h),
            plain,
            5e-4 + 1e-6 * plain,
        );
    }
    // The rule, in float64.
    let rule = |h: f64| {
        let x = offset(h);
        let k = log_stage.partition_point(|&knot| knot <= x).clamp(1, 10) - 1;
        let w = (x - log_stage[k]) / (log_stage[k + 1] - log_stage[k]);
        (log_discharge[k] + (log_discharge[k + 1] - log_discharge[k]) * w).exp()
    };
    let stages: Vec<f64> = (0..=249_100).map(|k| 2.99 + f64::from(k) * 1e-4).collect();
    for (step, count, want) in [
        (0.01, 2492, 2.0e-5),
        (0.05, 499, 1.0e-3),
        (0.1, 250, 1.8e-3),
    ] {
        let grid = Grid::new(2.99, step, count).unwrap();
        let table = grid.sample(|h| rule(h.min(27.9)));
        let values = lookup(&table, &grid.coords(&stages));
        let worst = values
            .iter()
            .zip(&stages)
            .map(|(q, &h)| (q / rule(h) - 1.0).abs())
            .fold(0.0, f64::max);
        // Printed to two digits.
        checks.close("an expanded table", worst, want, 0.1 * want);
        if count == 2492 {
            let found = inverse(grid, &table)
                .unwrap()
                .solve(&[1000.0], 0.5)
                .unwrap();
            // The expanded table is within 2e-5 of the rule: 0.02 of 1000 cfs, at 460 cfs per foot.
            checks.close(
                "the stage of 1000 cfs",
                found[0].map_or(f64::NAN, |tip| tip.0),
                8.45706,
                1e-4,
            );
            checks.equal("targets missed", misses(&table), 0);
        }
    }
    let table = floats(&discharge);
    let found = inverse(Grid::new(0.0, 1.0, 11).unwrap(), &table)
        .unwrap()
        .solve(&[1000.0], 0.5)
        .unwrap();
    let u = found[0].map_or(f64::NAN, |tip| tip.0);
    let stage = stage[6] + (u - 6.0) * (stage[7] - stage[6]);
    // float32 holds 1000 to 6e-5.
    checks.close("the stage of 1000 cfs, plain", stage, 8.39130, 1e-5);
    checks.equal("targets missed", misses(&table), 0);
    checks.end();
}
