//! A correction table per sensor, fitted to a dry-block calibration by the gradient of a layered table.

use super::*;
use torchlean::Tape;

/// What the sensors read, and the reference, in degrees Celsius.
#[test]
fn eleven_probes_are_calibrated() {
    let Some(mut checks) = Checks::begin("eleven_probes_are_calibrated", 30) else {
        return;
    };
    let columns =
        read::columns(&checks.path("thermocouple_dryblock/Etalonnage_thermocouples_2.csv"));
    let (reference, probes) = (&columns[0], &columns[1..]);
    checks.equal(
        "sensors and rows",
        (probes.len(), reference.len()),
        (11, 55),
    );
    let rmse = |have: &[f64]| {
        let squares: f64 = have
            .iter()
            .zip(reference)
            .map(|(have, want)| (have - want).powi(2))
            .sum();
        (squares / reference.len() as f64).sqrt()
    };
    let raw = [
        0.476, 0.555, 0.245, 0.260, 0.326, 0.440, 0.236, 0.570, 0.312, 2.137, 2.054,
    ];
    for (probe, want) in probes.iter().zip(raw) {
        // Three decimals.
        checks.close("raw", rmse(probe), want, 5e-4);
    }

    // All probes at once: six knots each at readings of 0, 10 .. 50 degC, from the identity, 2,000 steps of Adam.
    let grid = Grid::new(0.0, 10.0, 6).unwrap();
    let shape = [11 * 55];
    let coords = Buffer::from_slice(&grid.coords(&probes.concat()), &shape).unwrap();
    let layers: Vec<f32> = (0..11 * 55).map(|k| (k / 55) as f32).collect();
    let layers = Buffer::from_slice(&layers, &shape).unwrap();
    let truth = Buffer::from_slice(&floats(reference).repeat(11), &shape).unwrap();
    let mut knots: Vec<f32> = grid.sample(|t| t).repeat(11);
    let (mut mean, mut square) = (vec![0.0f64; knots.len()], vec![0.0f64; knots.len()]);
    let mut untouched = vec![true; knots.len()];
    for step in 1..=2000 {
        let tape = Tape::new();
        let table = tape
            .leaf(Buffer::from_slice(&knots, &[11, 6]).unwrap())
            .unwrap();
        let u = tape.constant(coords.clone()).unwrap();
        let layer = tape.constant(layers.clone()).unwrap();
        let fitted = tape.layered_table_lookup(table, u, layer).unwrap();
        let loss = tape
            .mse(fitted, tape.constant(truth.clone()).unwrap())
            .unwrap();
        let gradients = tape.backward(loss, None).unwrap();
        let gradient = gradients
            .get(table)
            .unwrap()
            .expect("the table has a gradient")
            .to_vec()
            .unwrap();
        for (k, g) in gradient.into_iter().map(f64::from).enumerate() {
            untouched[k] &= g == 0.0;
            mean[k] = 0.9 * mean[k] + 0.1 * g;
            square[k] = 0.999 * square[k] + 0.001 * g * g;
            let (m, v) = (
                mean[k] / (1.0 - 0.9f64.powi(step)),
                square[k] / (1.0 - 0.999f64.powi(step)),
            );
            knots[k] -= (0.02 * m / (v.sqrt() + 1e-8)) as f32;
        }
    }
    let tables: Vec<Vec<f32>> = knots.chunks(6).map(<[f32]>::to_vec).collect();
    let fitted = layered(
        &tables,
        &grid.coords(&probes.concat()),
        &layers.to_vec().unwrap(),
    );
    let fitted: Vec<f64> = fitted.chunks(55).map(rmse).collect();
    // Least squares gives these; gradient descent comes near, and nearer than a straight line.
    let best = [
        0.0294, 0.0127, 0.0162, 0.0261, 0.0279, 0.0308, 0.0188, 0.0257, 0.0124, 0.1114, 0.1116,
    ];
    for (have, best) in fitted.iter().zip(best) {
        checks.that(
            &format!("fit {have}, best {best}"),
            *have > 0.98 * best && *have < 1.10 * best,
        );
    }
    // Published for this very fit, one probe at a time; 5 % for what float32 and the order of sums do to 2,000 steps.
    for (probe, want) in [(0, 0.0294), (1, 0.0131), (9, 0.1114)] {
        checks.close("fit", fitted[probe], want, 0.05 * want);
    }
    // Three probes never read above 40 degC: their last knot has no data, no gradient, and keeps its value.
    let idle: Vec<usize> = (0..11).filter(|&probe| untouched[6 * probe + 5]).collect();
    checks.equal("probes with an idle knot", idle, vec![2, 3, 4]);
    checks.that(
        "idle knots stay",
        [2, 3, 4].iter().all(|&probe| tables[probe][5] == 50.0),
    );
    checks.equal(
        "other knots untouched",
        (0..66).filter(|k| k % 6 < 5 && untouched[*k]).count(),
        0,
    );
    checks.that("all finite", knots.iter().all(|k| k.is_finite()));
    checks.end();
}
