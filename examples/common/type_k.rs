//! The type K thermocouple: its ITS-90 reference function.

/// Source: G. W. Burns et al., NIST Monograph 175 (1993), reference functions based on the ITS-90; millivolts for
/// degrees Celsius, the junction at the other end at 0 degC. Two polynomials, constant term first.
const BELOW_ZERO: [f64; 11] = [
    0.0,
    0.394501280250e-01,
    0.236223735980e-04,
    -0.328589067840e-06,
    -0.499048287770e-08,
    -0.675090591730e-10,
    -0.574103274280e-12,
    -0.310888728940e-14,
    -0.104516093650e-16,
    -0.198892668780e-19,
    -0.163226974860e-22,
];
const FROM_ZERO: [f64; 10] = [
    -0.176004136860e-01,
    0.389212049750e-01,
    0.185587700320e-04,
    -0.994575928740e-07,
    0.318409457190e-09,
    -0.560728448890e-12,
    0.560750590590e-15,
    -0.320207200030e-18,
    0.971511471520e-22,
    -0.121047212750e-25,
];
/// From 0 degC up, `a0 * exp(a1 * (t - a2)^2)` is added: the effect of the magnetic ordering of nickel.
const EXPONENTIAL: [f64; 3] = [0.118597600000, -0.118343200000e-03, 0.126968600000e+03];

/// Where the function is defined, in degrees Celsius.
pub const RANGE: (f64, f64) = (-270.0, 1372.0);

/// The voltage at `t` degrees Celsius, in millivolts.
pub fn millivolts(t: f64) -> f64 {
    if t < 0.0 {
        return polynomial(&BELOW_ZERO, t);
    }
    let [a0, a1, a2] = EXPONENTIAL;
    polynomial(&FROM_ZERO, t) + a0 * (a1 * (t - a2) * (t - a2)).exp()
}

fn polynomial(coefficients: &[f64], t: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * t + c)
}
