//! A great many small tapes, in a process of their own, so that its memory is theirs alone: 20,000, or with TORCHLEAN_STRESS
//! set (`make soak`) that many times more.

mod common;

use common::{resident, stress_factor};
use torchlean::{Buffer, Result, Tape};

#[test]
fn many_small_tapes_keep_memory_flat() -> Result<()> {
    need_device_or_ok!();
    let table = Buffer::from_slice(&[0.0, 1.0, 4.0, 9.0], &[4])?;
    let u = Buffer::from_slice(&[0.5, 1.5, 2.5], &[3])?;
    let round = || -> Result<()> {
        let tape = Tape::new();
        let (t, u) = (tape.leaf(table.clone())?, tape.leaf(u.clone())?);
        let loss = tape.sum(tape.table_lookup(t, u)?)?;
        tape.backward(loss, None)?;
        Ok(())
    };
    let rounds = 20_000 * stress_factor();
    for _ in 0..2000 {
        round()?;
    }
    let before = resident();
    for _ in 0..rounds {
        round()?;
    }
    // A leak of one buffer a round, 64 bytes at least, would be over a megabyte by now, and allocators keep some slack.
    let grown = resident().saturating_sub(before);
    assert!(grown < 1 << 20, "{grown} bytes more after the rounds");
    Ok(())
}
