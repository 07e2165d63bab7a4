//! The payload counters, in a process of their own: one test, so nothing else makes buffers.

mod common;

use torchlean::{Buffer, Result, Tape, runtime};

#[test]
fn what_a_tape_held_is_freed_with_it() -> Result<()> {
    need_device_or_ok!();
    let live = || runtime::payload().live;
    let start = live();

    let table = Buffer::zeros(&[1000])?;
    assert_eq!(live() - start, 4000);
    let shared = table.reshape(&[10, 100])?;
    assert_eq!(
        live() - start,
        4000,
        "clones and reshapes share one storage"
    );
    drop(shared);

    let coords = Buffer::zeros(&[500])?;
    let held = live();
    let tape = Tape::new();
    let (t, u) = (tape.leaf(table.clone())?, tape.leaf(coords.clone())?);
    let loss = tape.sum(tape.table_lookup(t, u)?)?;
    assert_eq!(
        live() - held,
        2000 + 4,
        "a lookup saves nothing beside its result"
    );
    let gradients = tape.backward(loss, None)?;
    assert_eq!(
        live() - held,
        2000 + 4 + 4000 + 2000,
        "and backward leaves the two gradients alone"
    );
    drop(gradients);
    tape.clear()?;
    assert_eq!(live(), held, "cleared");

    // A training loop on one tape: flat.
    for _ in 0..1000 {
        let (t, u) = (tape.leaf(table.clone())?, tape.leaf(coords.clone())?);
        let loss = tape.sum(tape.table_lookup(t, u)?)?;
        tape.backward(loss, None)?;
        tape.clear()?;
        assert_eq!(live(), held);
    }

    let mut y = tape.leaf(coords.clone())?;
    for _ in 0..1000 {
        y = tape.neg(y)?;
    }
    assert_eq!(live() - held, 1000 * 2000);
    drop(tape);
    assert_eq!(live(), held, "dropped");
    drop((table, coords));
    assert_eq!(live(), start);
    let payload = runtime::payload();
    assert_eq!(payload.created, payload.freed);
    assert!(payload.peak >= start + 1000 * 2000);
    Ok(())
}
