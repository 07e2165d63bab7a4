//! What the README says of the operations is what the crate lists. Needs no libtorch.

use torchlean::ops::{Exactness, OPS};

/// The README's words for an exactness.
fn words(exactness: Exactness) -> &'static str {
    match exactness {
        Exactness::Everywhere => "everywhere",
        Exactness::GradientOrderOnHost => "value everywhere, sums of the gradient on the host",
        Exactness::OrderOnHost => "gradient everywhere, value on the host",
        Exactness::WithDeterminism => "with determinism on",
        other => panic!("the README has no words for {other:?}"),
    }
}

/// The rows of the table under the heading `## Operations`, cut into cells.
fn rows() -> Vec<Vec<&'static str>> {
    let readme = include_str!("../README.md");
    let (_, from) = readme.split_once("\n## Operations\n").unwrap();
    let (section, _) = from.split_once("\n## ").unwrap();
    section
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

#[test]
fn the_table_of_operations_is_the_list() {
    let rows = rows();
    for (row, op) in rows.iter().zip(OPS) {
        let [name, _value, _gradient, exactness, _order] = row[..] else {
            panic!("the README's row has not five cells: {row:?}");
        };
        assert_eq!(
            (name.trim_matches('`'), exactness),
            (op.name, words(op.exactness)),
            "the README's row (left) is not what comes next in OPS (right)"
        );
    }
    assert_eq!(
        rows.len(),
        OPS.len(),
        "rows in the README, operations in OPS"
    );
}
