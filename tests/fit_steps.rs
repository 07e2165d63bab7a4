//! A fit, step after step, in a process of its own, so that its memory is its own: what a step frees serves the next. With
//! TORCHLEAN_STRESS set (`make soak`) that many times more steps, of a million samples each.

mod common;

use common::{resident, stress_factor};
use torchlean::{Buffer, Result, Tape, runtime};

#[test]
fn memory_is_flat_over_the_steps_of_a_fit() -> Result<()> {
    need_device_or_ok!();
    let factor = stress_factor();
    let (samples, steps) = match factor {
        1 => (50_000, 100),
        _ => (1_000_000, 100 * factor),
    };
    let places: Vec<f32> = (0..samples)
        .map(|k| (k * 7919 % 9973) as f32 * 0.0061)
        .collect();
    let wanted: Vec<f32> = places.iter().map(|u| (u * 0.1).sin()).collect();
    let coords = Buffer::from_slice(&places, &[samples])?;
    let target = Buffer::from_slice(&wanted, &[samples])?;
    let mut table = Buffer::zeros(&[64])?;
    let mut step = || -> Result<f32> {
        let tape = Tape::new();
        let t = tape.leaf(table.clone())?;
        let value = tape.table_lookup(t, tape.constant(coords.clone())?)?;
        let loss = tape.mse(value, tape.constant(target.clone())?)?;
        let gradient = tape.backward(loss, None)?.take(t)?.expect("a gradient");
        let loss = tape.value(loss)?.item()?;
        drop(tape); // the table is ours alone again
        table.axpy(-20.0, &gradient)?;
        Ok(loss)
    };
    let first = step()?;
    for _ in 0..10 {
        step()?;
    }
    let (before, live) = (resident(), runtime::payload().live);
    let mut last = first;
    for _ in 0..steps {
        last = step()?;
    }
    assert!(last < first * 0.1, "the fit goes from {first} to {last}");
    assert_eq!(runtime::payload().live, live);
    // A leak of one result a step would be 100 times its size by now.
    let (grown, result) = (resident().saturating_sub(before), samples as u64 * 4);
    assert!(grown < 10 * result, "{grown} bytes more after the steps");
    Ok(())
}
