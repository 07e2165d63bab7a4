//! The reference's arithmetic against the processor's, bit for bit. Needs no libtorch.

mod common;

use common::data::EDGES;
use common::same_bits;
use torchlean::spec::Binary32;

type Operator = (
    &'static str,
    fn(Binary32, Binary32) -> Binary32,
    fn(f32, f32) -> f32,
);

const OPERATORS: &[Operator] = &[
    ("add", |a, b| a + b, |a, b| a + b),
    ("sub", |a, b| a - b, |a, b| a - b),
    ("mul", |a, b| a * b, |a, b| a * b),
    ("div", |a, b| a / b, |a, b| a / b),
    ("sqrt", |a, _| a.sqrt(), |a, _| a.sqrt()),
    ("floor", |a, _| a.floor(), |a, _| a.floor()),
    ("abs", |a, _| a.abs(), |a, _| a.abs()),
    ("neg", |a, _| -a, |a, _| -a),
    ("maximum", Binary32::maximum, maximum),
    ("minimum", Binary32::minimum, |a, b| -maximum(-a, -b)),
];

/// IEEE 754-2019 maximum by cases.
fn maximum(a: f32, b: f32) -> f32 {
    match () {
        _ if a.is_nan() || b.is_nan() => f32::NAN,
        _ if a == 0.0 && b == 0.0 => f32::from_bits(a.to_bits() & b.to_bits()),
        _ if a > b => a,
        _ => b,
    }
}

#[track_caller]
fn check(a: f32, b: f32) {
    for (name, reference, hardware) in OPERATORS {
        let (got, want) = (f32::from(reference(a.into(), b.into())), hardware(a, b));
        assert!(
            same_bits(got, want),
            "{name}({:08x}, {:08x}): reference {:08x}, processor {:08x}",
            a.to_bits(),
            b.to_bits(),
            got.to_bits(),
            want.to_bits()
        );
    }
    assert_eq!(
        Binary32::from(a).partial_cmp(&b.into()),
        a.partial_cmp(&b),
        "order of {a:e} and {b:e}"
    );
    assert_eq!(Binary32::from(a) == b.into(), a == b);
    assert_eq!(Binary32::from(a).is_nan(), a.is_nan());
}

#[test]
fn edges_against_each_other() {
    for &a in EDGES {
        for &b in EDGES {
            check(a, b);
        }
    }
}

/// A third each: any bits; equal or nearby exponents, where sums cancel; subnormals and the smallest normals.
#[test]
fn a_million_random_pairs() {
    let mut random = fastrand::Rng::with_seed(20_261_130);
    for k in 0..1_200_000 {
        let (a, b) = (random.u32(..), random.u32(..));
        let (a, b) = match k % 3 {
            0 => (a, b),
            1 => (a, (b & 0x807f_ffff) | (a & 0x7f80_0000)),
            _ => (a & 0x80ff_ffff, b & 0x81ff_ffff),
        };
        check(f32::from_bits(a), f32::from_bits(b));
    }
}

#[test]
fn integers_are_rounded_as_the_processor_does() {
    let mut random = fastrand::Rng::with_seed(1);
    for shift in 0..64 {
        let n = random.u64(..) >> shift;
        assert_eq!(
            f32::from(Binary32::from_integer(n)).to_bits(),
            (n as f32).to_bits(),
            "{n}"
        );
    }
}
