//! Every operation, value and gradients, against its reference: equal bits, or both NaN.

mod common;

use common::cases::{Case, cases};
use common::data::{self, Inputs, LENGTHS};
use proptest::prelude::*;
use torchlean::DeviceKind;

fn check(case: &Case, inputs: &Inputs) {
    let device = common::session();
    common::in_every_form(|form| {
        let outcomes = (case.run)(inputs);
        for outcome in outcomes.unwrap_or_else(|error| panic!("{}, {form}: {error}", case.op)) {
            // On CUDA the order of additions is the SDK's: compared where no order can matter.
            if outcome.adds && device == Some(DeviceKind::Cuda) && !inputs.dyadic {
                continue;
            }
            let n = inputs.a.len();
            let what = format!("{}, {}, {n} elements, {form}", case.op, outcome.label);
            common::assert_bits_eq(&what, &outcome.got, &outcome.want);
        }
    });
}

#[test]
fn every_operation_has_a_case() {
    let mut listed: Vec<_> = torchlean::ops::OPS.iter().map(|op| op.name).collect();
    let mut covered: Vec<_> = cases().iter().map(|case| case.op).collect();
    listed.sort_unstable();
    covered.sort_unstable();
    assert_eq!(listed, covered);
}

#[test]
fn edge_values_at_every_length() {
    need_device!();
    for case in cases() {
        for &n in LENGTHS {
            for shift in 0..data::EDGES.len() {
                check(&case, &data::edge_inputs(n.min(40), shift));
            }
            check(&case, &data::edge_inputs(n, 11));
        }
    }
}

#[test]
fn dyadic_values_at_every_length() {
    need_device!();
    for case in cases() {
        for &n in LENGTHS {
            check(&case, &data::dyadic_inputs(n as u64, n));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_bit_patterns(inputs in data::inputs()) {
        if common::session().is_some() {
            for case in cases() {
                check(&case, &inputs);
            }
        }
    }
}
