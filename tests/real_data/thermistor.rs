//! A two-channel thermistor thermometer from its raw log, and a manufacturer's table that falls.

use super::*;

/// One channel of the bridge: the thermistor below `top`, against the divider `a` over `b`; excitation in volts.
struct Channel {
    top: f64,
    a: f64,
    b: f64,
    beta: f64,
    c: f64,
}

const EXCITATION: f64 = 3.284;
const CHANNELS: [Channel; 2] = [
    Channel {
        top: 100510.0,
        a: 99140.0,
        b: 99120.0,
        beta: 3816.564267,
        c: -1.288503865,
    },
    Channel {
        top: 99730.0,
        a: 99100.0,
        b: 99111.0,
        beta: 3820.824309,
        c: -1.306170354,
    },
];

impl Channel {
    fn ohms(&self, microvolts: f64) -> f64 {
        let ratio = self.b / (self.a + self.b) - microvolts * 1e-6 / EXCITATION;
        self.top * ratio / (1.0 - ratio)
    }

    fn degrees(&self, ohms: f64) -> f64 {
        self.beta / (ohms.ln() - self.c) - 273.15
    }
}

#[test]
fn bridge_voltage_to_temperature() {
    let Some(mut checks) = Checks::begin("bridge_voltage_to_temperature", 11) else {
        return;
    };
    let log = read::columns(&checks.path("thermistor/calibration_log.csv"));
    let grid = Grid::new(-60.0, 1.0, 121).unwrap();
    let tables = CHANNELS
        .each_ref()
        .map(|channel| grid.sample(|mv| channel.degrees(channel.ohms(mv * 1e3))));
    let mut temperatures = Vec::new();
    for (k, channel) in CHANNELS.iter().enumerate() {
        let (microvolts, ohms, degrees) = (&log[2 + 3 * k], &log[3 + 3 * k], &log[4 + 3 * k]);
        checks.equal("rows", microvolts.len(), 219);
        let far = |a: &[f64], b: &[f64]| {
            a.iter()
                .zip(b)
                .map(|(a, b)| (a - b).abs())
                .fold(0.0, f64::max)
        };
        let computed: Vec<f64> = microvolts.iter().map(|&v| channel.ohms(v)).collect();
        // The log prints 0.1 microvolt.
        checks.close("ohms of the log", far(&computed, ohms), 0.0, 0.1);
        let millivolts: Vec<f64> = microvolts.iter().map(|v| v / 1e3).collect();
        let have = layered(&tables, &grid.coords(&millivolts), &vec![k as f32; 219]);
        let formula: Vec<f64> = computed.iter().map(|&r| channel.degrees(r)).collect();
        // The lines of the table 6.7e-7, float32 1.7e-6 (an ulp of 24 is 1.9e-6); with room for another libm.
        checks.close("degrees of the formula", far(&have, &formula), 0.0, 5e-6);
        // The log prints four decimals, from rounded microvolts.
        checks.close("degrees of the log", far(&have, degrees), 0.0, 1e-4);
        temperatures.push(have);
    }
    let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
    let difference: Vec<f64> = temperatures[0]
        .iter()
        .zip(&temperatures[1])
        .map(|(a, b)| a - b)
        .collect();
    // Four decimals.
    checks.close("mean of A", mean(&temperatures[0]), 24.7480, 1e-4);
    checks.close("mean of B", mean(&temperatures[1]), 24.6145, 1e-4);
    checks.close("mean of A - B", mean(&difference), 0.1335, 1e-4);
    checks.end();
}

/// Ten-degree steps over 2.6 decades of resistance, falling: the logarithm is the better table, its negative the
/// rising one.
#[test]
fn falling_resistance() {
    let Some(mut checks) = Checks::begin("falling_resistance", 5) else {
        return;
    };
    let columns = read::columns(&checks.path("thermistor/ntc_rt_tables.csv"));
    let (degrees, ohms) = (&columns[0], &columns[1]);
    let grid = Grid::new(degrees[0], degrees[1] - degrees[0], degrees.len()).unwrap();
    checks.that(
        "the steps are even",
        degrees.iter().enumerate().all(|(k, &t)| grid.point(k) == t),
    );
    let logarithms: Vec<f64> = ohms.iter().map(|r| r.ln()).collect();
    let at_20 = grid.coords(&[20.0]);
    // One decimal.
    checks.close(
        "ohms at 20 degC, linear",
        lookup(&floats(ohms), &at_20)[0],
        12940.5,
        0.05,
    );
    checks.close(
        "ohms at 20 degC, in ln R",
        lookup(&floats(&logarithms), &at_20)[0].exp(),
        12602.0,
        0.05,
    );
    let find = |values: &[f64], target: f64| {
        let rising: Vec<f32> = values.iter().map(|&v| -v as f32).collect();
        inverse(grid, &rising)
            .unwrap()
            .solve(&[-target], 0.5)
            .unwrap()[0]
            .map_or(f64::NAN, |tip| tip.0)
    };
    // Three decimals.
    checks.close("12 kohm, linear", find(ohms, 12e3), 21.599, 5e-4);
    checks.close(
        "12 kohm, in ln R",
        find(&logarithms, 12e3f64.ln()),
        21.058,
        5e-4,
    );
    checks.end();
}
