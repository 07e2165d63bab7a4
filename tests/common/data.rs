//! Values to test on: edges, bit patterns, spaced ones, and dyadic ones on which float32 is exact.

use proptest::prelude::*;

/// Lengths at which vector bodies and tails differ.
pub const LENGTHS: &[usize] = &[1, 7, 8, 15, 16, 17, 31, 33, 40, 1000];

/// Values at which implementations go wrong.
pub const EDGES: &[f32] = &[
    0.0,
    -0.0,
    f32::from_bits(1),           // the smallest subnormal
    -f32::from_bits(1),          // and its negative
    f32::from_bits(0x007f_ffff), // the largest subnormal
    f32::MIN_POSITIVE,
    -f32::MIN_POSITIVE,
    0.5,
    -0.5,
    f32::from_bits(0x3f7f_ffff), // just below 1
    1.0,
    -1.0,
    1.5,
    2.5,
    -2.5,
    3.0,
    8_388_607.5, // the last half
    -8_388_607.5,
    8_388_608.0, // 2^23
    16_777_215.0,
    16_777_216.0, // 2^24
    16_777_217.0,
    2_147_483_648.0, // 2^31
    -2_147_483_904.0,
    4_611_686_018_427_387_904.0, // 2^62
    9_223_371_487_098_961_920.0, // below 2^63
    9_223_372_036_854_775_808.0, // 2^63
    -9_223_372_036_854_775_808.0,
    1e30,
    -1e30,
    f32::MAX,
    f32::MIN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
];

/// The inputs that a case draws from: as many `a`, `b`, `g`, coordinates and layers as the length, and a table.
#[derive(Clone, Debug)]
pub struct Inputs {
    pub a: Vec<f32>,
    pub b: Vec<f32>,
    /// The cotangents.
    pub g: Vec<f32>,
    /// `layers * width` entries.
    pub table: Vec<f32>,
    pub width: usize,
    pub coords: Vec<f32>,
    pub layers: Vec<f32>,
    /// Sums are exact whatever their order.
    pub dyadic: bool,
}

/// Any bit pattern, edges more often than chance would have them.
pub fn float() -> impl Strategy<Value = f32> + Clone {
    prop_oneof![
        4 => any::<u32>().prop_map(f32::from_bits),
        2 => prop::sample::select(EDGES),
        2 => -4.0_f32..4.0,
        1 => (-40_i32..40).prop_map(|n| n as f32),
    ]
}

/// Coordinates of a table: inside, on the knots, around the ends, and any bit pattern.
pub fn coordinate(width: usize) -> impl Strategy<Value = f32> + Clone {
    let last = width as i32;
    prop_oneof![
        4 => -1.5..width as f32 + 1.5,
        2 => (-1..=last + 1).prop_map(|n| n as f32),
        1 => (-1..=last + 1).prop_map(|n| f32::from_bits((n as f32).to_bits().wrapping_add(1))),
        1 => (-1..=last + 1).prop_map(|n| f32::from_bits((n as f32).to_bits().wrapping_sub(1))),
        2 => float(),
    ]
}

/// Inputs of any bits.
pub fn inputs() -> impl Strategy<Value = Inputs> {
    let length = prop_oneof![3 => 0_usize..20, 1 => prop::sample::select(&LENGTHS[..9])];
    (length, 1_usize..12, 1_usize..4).prop_flat_map(|(n, width, layers)| {
        let floats = |n| prop::collection::vec(float(), n);
        let coords = prop::collection::vec(coordinate(width), n);
        let selectors = prop::collection::vec(coordinate(layers), n);
        (
            floats(n),
            floats(n),
            floats(n),
            floats(layers * width),
            coords,
            selectors,
        )
            .prop_map(move |(a, b, g, table, coords, layers)| Inputs {
                a,
                b,
                g,
                table,
                width,
                coords,
                layers,
                dyadic: false,
            })
    })
}

/// Inputs of small dyadic numbers, on which every sum and product in use is exact.
pub fn dyadic_inputs(seed: u64, n: usize) -> Inputs {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut draw =
        |n: usize| -> Vec<f32> { (0..n).map(|_| random.i32(-64..64) as f32 / 8.0).collect() };
    let (a, g, table) = (draw(n), draw(n), draw(24));
    let b = draw(n)
        .iter()
        .map(|x| if *x < 0.0 { -2.0 } else { 4.0 })
        .collect();
    let coords = draw(n).iter().map(|x| x + 3.0).collect();
    let layers = draw(n).iter().map(|x| x / 2.0).collect();
    Inputs {
        a,
        b,
        g,
        table,
        width: 8,
        coords,
        layers,
        dyadic: true,
    }
}

/// The edges against each other, cyclically to a length: every pair comes up from 40 elements on.
pub fn edge_inputs(n: usize, shift: usize) -> Inputs {
    let edge = |k: usize| EDGES[k % EDGES.len()];
    let at = |offset: usize| (0..n).map(|k| edge(k + offset)).collect::<Vec<_>>();
    let near = |k: usize, size: f32| {
        if k.is_multiple_of(3) {
            edge(k + shift)
        } else {
            (k % 13) as f32 * 0.75 - 1.0 + size / 8.0
        }
    };
    Inputs {
        a: at(0),
        b: at(shift),
        g: at(2 * shift + 1),
        table: at(3 * shift)[..].iter().copied().cycle().take(12).collect(),
        width: 6,
        coords: (0..n).map(|k| near(k, 0.0)).collect(),
        layers: (0..n).map(|k| near(k + 1, 1.0)).collect(),
        dyadic: false,
    }
}

/// Random inputs: coordinates and layers in and around a table, all else any bits.
pub fn random_inputs(seed: u64, n: usize) -> Inputs {
    let mut random = fastrand::Rng::with_seed(seed);
    let (width, layers) = (random.usize(1..40), random.usize(1..5));
    let mut around = |size: usize| -> Vec<f32> {
        (0..n)
            .map(|_| random.f32() * (size as f32 + 2.0) - 1.5)
            .collect()
    };
    let (coords, selectors) = (around(width), around(layers));
    let mut bits =
        |n: usize| -> Vec<f32> { (0..n).map(|_| f32::from_bits(random.u32(..))).collect() };
    let (a, b, g, table) = (bits(n), bits(n), bits(n), bits(layers * width));
    Inputs {
        a,
        b,
        g,
        table,
        width,
        coords,
        layers: selectors,
        dyadic: false,
    }
}
