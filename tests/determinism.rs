//! The determinism switch, in a process of its own: one test turns it, nothing else.

mod common;

use std::process::Command;

use torchlean::runtime::{deterministic, deterministic_scope, set_deterministic};
use torchlean::{Buffer, Error, Result, spec};

#[test]
fn the_switch() -> Result<()> {
    need_device_or_ok!();
    assert!(!deterministic()?, "off at the start");

    // The setter returns what was set before.
    assert!(!set_deterministic(true)?);
    assert!(set_deterministic(false)?);
    assert!(!deterministic()?);

    // A scope restores it, whatever it was: at its end, by an error, by a panic.
    for prior in [false, true] {
        set_deterministic(prior)?;
        {
            let _on = deterministic_scope()?;
            assert!(deterministic()?);
        }
        assert_eq!(deterministic()?, prior, "after a scope");
        let failing = || -> Result<Buffer> {
            let _on = deterministic_scope()?;
            Buffer::zeros(&[usize::MAX, 2])
        };
        assert!(matches!(failing(), Err(Error::SizeOverflow { .. })));
        assert_eq!(deterministic()?, prior, "after an error");
        let panicking = std::panic::catch_unwind(|| {
            let _on = deterministic_scope();
            panic!("on purpose");
        });
        assert!(panicking.is_err());
        assert_eq!(deterministic()?, prior, "after a panic");
    }

    // Overlapping scopes: on until the last one ends, in whatever order.
    set_deterministic(false)?;
    let (first, second) = (deterministic_scope()?, deterministic_scope()?);
    drop(first);
    assert!(deterministic()?);
    set_deterministic(false)?;
    assert!(deterministic()?, "a guard keeps it on");
    drop(second);
    assert!(!deterministic()?);

    // Under it a sum is the fold of the reference, and every run has the same bits.
    let _on = deterministic_scope()?;
    let mut random = fastrand::Rng::with_seed(7);
    let mut draw = |n: usize| {
        (0..n)
            .map(|_| (random.f32() - 0.5) * 1e3)
            .collect::<Vec<f32>>()
    };
    for n in [0, 1, 2, 3, 5, 1000, 4097, 100_000] {
        let x = draw(n);
        let buffer = Buffer::from_slice(&x, &[n])?;
        common::assert_bits_eq("sum", &[buffer.sum()?.item()?], &[spec::sum(&x)]);
    }
    let (size, n) = (100, 10_000);
    let table = Buffer::from_slice(&draw(size), &[size])?;
    let (g, u) = (
        Buffer::from_slice(&draw(n), &[n])?,
        Buffer::from_slice(&draw(n), &[n])?,
    );
    let run = || -> Result<Vec<Vec<f32>>> {
        let tape = torchlean::Tape::new();
        let t = tape.leaf(table.clone())?;
        let looked_up = tape.table_lookup(t, tape.constant(u.clone())?)?;
        let d_table = tape.backward(looked_up, Some(&g))?.take(t)?.unwrap();
        let scattered = Buffer::scatter_add_at(size, &u, &g)?;
        let indices: Vec<i64> = (0..n as i64).map(|k| k * k % size as i64).collect();
        let added = table.scatter_add(&indices, &g)?;
        [d_table, scattered, added, g.sum()?, g.mean()?, g.mse(&u)?]
            .iter()
            .map(Buffer::to_vec)
            .collect()
    };
    let first = run()?;
    for _ in 0..99 {
        for (again, first) in run()?.iter().zip(&first) {
            common::assert_bits_eq("a hundred runs", again, first);
        }
    }
    Ok(())
}

const CHILD: &str = "TORCHLEAN_TEST_CHILD";
const START: &str = "TORCHLEAN_CUDA_DETERMINISTIC_REDUCTIONS";

/// The child of the next test.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_some() {
        println!("on={}", deterministic().unwrap());
    }
}

#[test]
fn the_variable_says_how_a_process_starts() {
    need_device!();
    for (value, on) in [
        (None, false),
        (Some(""), false),
        (Some("0"), false),
        (Some("1"), true),
        (Some("yes"), true),
    ] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["child", "--exact", "--nocapture"])
            .env(CHILD, "1")
            .env_remove(START)
            .envs(value.map(|value| (START, value)));
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(&format!("on={on}")), "{value:?}: {text}");
    }
}
