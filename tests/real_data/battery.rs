//! Open-circuit voltage and state of charge of four cells.

use super::*;

#[test]
fn voltage_and_state_of_charge() {
    let Some(mut checks) = Checks::begin("voltage_and_state_of_charge", 24) else {
        return;
    };
    // File; volts at 50 and 80 %; state of charge at 3.7 and 3.3 V.
    for (cell, volts, charge) in [
        ("LG-INR21700M50T", [3.716708, 4.018351], [0.48092, 0.09838]),
        (
            "Molicel-INR18650P28A",
            [3.735505, 4.018558],
            [0.46058, 0.08094],
        ),
        (
            "Molicel-INR21700P42A",
            [3.741780, 4.033971],
            [0.45539, 0.08725],
        ),
        (
            "Samsung-INR2170040T",
            [3.737677, 4.030704],
            [0.45912, 0.07977],
        ),
    ] {
        let columns = read::columns(&checks.path(&format!("battery_ocv/{cell}.csv")));
        let table = floats(&columns[1]);
        checks.equal("points", table.len(), 200);
        let grid = Grid::new(0.0, 1.0 / 199.0, 200).unwrap();
        for (have, want) in lookup(&table, &grid.coords(&[0.5, 0.8]))
            .into_iter()
            .zip(volts)
        {
            // Half a unit of the sixth decimal, and three roundings of a value below 8 (2.4e-7 each at the most).
            checks.close(cell, have, want, 5e-7 + 7e-7);
        }
        let found = inverse(grid, &table)
            .unwrap()
            .solve(&[3.7, 3.3], 0.5)
            .unwrap();
        for (have, want) in found.into_iter().zip(charge) {
            // Half a unit of the fifth decimal; one ulp of a voltage is 2.4e-7, over 0.8 V per unit of charge or
            // more.
            checks.close(cell, have.map_or(f64::NAN, |tip| tip.0), want, 5e-6 + 1e-6);
        }
        checks.equal("targets missed", misses(&table), 0);
    }
    checks.end();
}
