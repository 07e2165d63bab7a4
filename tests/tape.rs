//! The tape: what is walked, what is kept, what is refused.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use common::assert_bits_eq;
use torchlean::{Buffer, Error, Op, Result, Tape, Var};

fn buffer(values: &[f32]) -> Buffer {
    Buffer::from_slice(values, &[values.len()]).unwrap()
}

fn gradient(tape: &Tape, output: Var, of: Var) -> Vec<f32> {
    tape.backward(output, None)
        .unwrap()
        .get(of)
        .unwrap()
        .unwrap()
        .to_vec()
        .unwrap()
}

/// The identity, counting the calls of its VJP.
fn counting(calls: &Arc<AtomicUsize>) -> Op {
    let calls = Arc::clone(calls);
    let vjp = move |args: &torchlean::VjpArgs<'_>| {
        calls.fetch_add(1, Relaxed);
        Ok(vec![Some(args.cotangent().clone())])
    };
    Op::new("counting", |x| Ok(x[0].clone()), vjp)
}

#[test]
fn a_parent_used_twice_gets_both_gradients() -> Result<()> {
    need_device_or_ok!();
    let tape = Tape::new();
    let x = tape.leaf(buffer(&[3.0]))?;
    let y = tape.mul(x, x)?;
    assert_bits_eq("x * x", &gradient(&tape, y, x), &[6.0]);
    let z = tape.add(tape.add(x, x)?, x)?;
    assert_bits_eq("x + x + x", &gradient(&tape, z, x), &[3.0]);
    Ok(())
}

#[test]
fn a_gather_with_repeated_positions_accumulates_and_leaves_the_rest_zero() -> Result<()> {
    need_device_or_ok!();
    let tape = Tape::new();
    let table = tape.leaf(buffer(&[1.0, 2.0, 3.0]))?;
    let p = tape.constant(buffer(&[1.0, 1.0, 1.5]))?;
    let sum = tape.sum(tape.gather_at(table, p)?)?;
    assert_bits_eq("gather", &gradient(&tape, sum, table), &[0.0, 3.0, 0.0]);
    Ok(())
}

#[test]
fn a_node_that_needs_no_gradient_is_never_called() -> Result<()> {
    need_device_or_ok!();
    let calls = Arc::new(AtomicUsize::new(0));
    let tape = Tape::new();
    let (data, x) = (tape.constant(buffer(&[2.0]))?, tape.leaf(buffer(&[3.0]))?);
    let y = tape.mul(tape.apply(&counting(&calls), &[data])?, x)?;
    assert_bits_eq("2 x", &gradient(&tape, y, x), &[2.0]);
    assert_eq!(calls.load(Relaxed), 0);
    assert!(tape.backward(y, None)?.get(data)?.is_none());
    Ok(())
}

#[test]
fn an_unreached_branch_is_never_called_and_its_leaf_has_no_gradient() -> Result<()> {
    need_device_or_ok!();
    let calls = Arc::new(AtomicUsize::new(0));
    let tape = Tape::new();
    let (x, other) = (tape.leaf(buffer(&[3.0]))?, tape.leaf(buffer(&[5.0]))?);
    tape.apply(&counting(&calls), &[other])?;
    let y = tape.scale(x, 2.0)?;
    tape.apply(&counting(&calls), &[y])?; // later than the output
    let gradients = tape.backward(y, None)?;
    assert_eq!(calls.load(Relaxed), 0);
    assert!(gradients.get(other)?.is_none());
    assert_bits_eq("2 x", &gradients.get(x)?.unwrap().to_vec()?, &[2.0]);
    Ok(())
}

#[test]
fn through_floor_alone_nothing_flows_and_the_gradient_is_zero() -> Result<()> {
    need_device_or_ok!();
    let calls = Arc::new(AtomicUsize::new(0));
    let tape = Tape::new();
    let x = tape.leaf(buffer(&[3.8]))?;
    let below = tape.apply(&counting(&calls), &[x])?;
    let floor = tape.floor(below)?;
    assert_bits_eq("floor", &gradient(&tape, floor, x), &[0.0]);
    assert_eq!(
        calls.load(Relaxed),
        0,
        "nothing reached the node below the floor"
    );
    let sum = tape.add(x, floor)?;
    assert_bits_eq("u + floor(u)", &gradient(&tape, sum, x), &[1.0]); // tensorflow 897
    Ok(())
}

#[test]
fn gradients_are_kept_for_leaves_and_on_request() -> Result<()> {
    need_device_or_ok!();
    let tape = Tape::new();
    let (x, data) = (tape.leaf(buffer(&[3.0]))?, tape.constant(buffer(&[3.0]))?);
    let y = tape.scale(x, 2.0)?;
    let z = tape.mul(y, y)?;
    assert!(tape.backward(z, None)?.get(y)?.is_none());
    tape.retain(y)?;
    let mut gradients = tape.backward(z, None)?;
    assert_bits_eq("d y", &gradients.take(y)?.unwrap().to_vec()?, &[12.0]);
    assert!(gradients.get(y)?.is_none(), "taken");
    assert!(matches!(
        tape.retain(data),
        Err(Error::InvalidArgument { .. })
    ));
    Ok(())
}

#[test]
fn backward_may_be_called_again_with_another_seed_or_output() -> Result<()> {
    need_device_or_ok!();
    let tape = Tape::new();
    let x = tape.leaf(buffer(&[1.0, 2.0]))?;
    let y = tape.mul(x, x)?;
    for seed in [[1.0, 0.0], [0.5, 4.0]] {
        let gradients = tape.backward(y, Some(&buffer(&seed)))?;
        assert_bits_eq(
            "2 x g",
            &gradients.get(x)?.unwrap().to_vec()?,
            &[2.0 * seed[0], 4.0 * seed[1]],
        );
    }
    // The output may be a leaf itself.
    let gradients = tape.backward(x, Some(&buffer(&[7.0, 8.0])))?;
    assert_bits_eq(
        "the seed",
        &gradients.get(x)?.unwrap().to_vec()?,
        &[7.0, 8.0],
    );
    Ok(())
}

#[test]
fn seeds_of_the_wrong_shape_and_missing_ones_are_errors() -> Result<()> {
    need_device_or_ok!();
    let tape = Tape::new();
    let x = tape.leaf(buffer(&[1.0, 2.0]))?;
    assert!(matches!(
        tape.backward(x, None),
        Err(Error::SeedRequired { .. })
    ));
    assert!(matches!(
        tape.backward(x, Some(&buffer(&[1.0]))),
        Err(Error::Shape { op: "backward", .. })
    ));
    let column = Buffer::zeros(&[2, 1])?;
    assert!(matches!(
        tape.backward(x, Some(&column)),
        Err(Error::Shape { .. })
    ));
    // One element of any rank has a default seed.
    let one = tape.leaf(Buffer::zeros(&[1, 1])?)?;
    assert_eq!(tape.backward(one, None)?.get(one)?.unwrap().shape(), [1, 1]);
    let none = tape.leaf(Buffer::zeros(&[0])?)?;
    assert!(matches!(
        tape.backward(none, None),
        Err(Error::SeedRequired { .. })
    ));
    assert_eq!(
        tape.backward(none, Some(&Buffer::zeros(&[0])?))?
            .get(none)?
            .unwrap()
            .len(),
        0
    );
    Ok(())
}

#[test]
fn foreign_and_stale_vars_are_errors_everywhere() -> Result<()> {
    need_device_or_ok!();
    let (tape, other) = (Tape::new(), Tape::new());
    let foreign = other.leaf(buffer(&[1.0]))?;
    let stale = tape.leaf(buffer(&[1.0]))?;
    tape.clear()?;
    let x = tape.leaf(buffer(&[1.0]))?;
    let gradients = tape.backward(x, None)?;
    for bad in [foreign, stale] {
        let refused: [Result<()>; 9] = [
            tape.add(x, bad).map(drop),
            tape.table_lookup(bad, x).map(drop),
            tape.layered_table_lookup(x, x, bad).map(drop),
            tape.sum(bad).map(drop),
            tape.value(bad).map(drop),
            tape.retain(bad),
            tape.backward(bad, None).map(drop),
            gradients.get(bad).map(drop),
            tape.apply(&counting(&Arc::default()), &[bad]).map(drop),
        ];
        for (k, result) in refused.into_iter().enumerate() {
            assert!(
                matches!(result, Err(Error::ForeignVar { .. })),
                "call {k}: {result:?}"
            );
        }
    }
    assert_eq!(tape.len()?, 1, "a refused operation records nothing");
    Ok(())
}

#[test]
fn re_entering_a_tape_from_an_ops_closure_is_an_error() -> Result<()> {
    need_device_or_ok!();
    thread_local! { static TAPE: Tape = Tape::new(); }
    TAPE.with(|tape| {
        let x = tape.leaf(buffer(&[1.0]))?;
        let busy = |error: Error| matches!(error, Error::TapeBusy { .. });
        let forward = Op::new(
            "in forward",
            move |_| TAPE.with(|t| t.value(x)),
            |_| Ok(vec![None]),
        );
        assert!(busy(tape.apply(&forward, &[x]).unwrap_err()));
        let vjp = Op::new(
            "in vjp",
            |x| Ok(x[0].clone()),
            move |_| TAPE.with(|t| t.add(x, x)).map(|_| vec![None]),
        );
        let y = tape.apply(&vjp, &[x])?;
        assert!(busy(tape.backward(y, None).unwrap_err()));
        let again = move |_: &torchlean::VjpArgs<'_>| {
            TAPE.with(|t| t.backward(x, None)).map(|_| vec![None])
        };
        let y = tape.apply(
            &Op::new("backward in vjp", |x| Ok(x[0].clone()), again),
            &[x],
        )?;
        assert!(busy(tape.backward(y, None).unwrap_err()));
        // After all that the tape works.
        let y = tape.scale(x, 4.0)?;
        assert_bits_eq("4 x", &gradient(tape, y, x), &[4.0]);
        Ok(())
    })
}

#[test]
fn a_panic_in_a_closure_leaves_the_tape_usable() -> Result<()> {
    need_device_or_ok!();
    let tape = Tape::new();
    let x = tape.leaf(buffer(&[1.0]))?;
    let op = Op::new("panics", |_| panic!("on purpose"), |_| Ok(vec![None]));
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        tape.apply(&op, &[x]).map(drop)
    }));
    assert!(caught.is_err());
    let y = tape.scale(x, 4.0)?;
    assert_bits_eq("4 x", &gradient(&tape, y, x), &[4.0]);
    Ok(())
}

#[test]
fn a_users_vjp_is_held_to_its_contract() -> Result<()> {
    need_device_or_ok!();
    let tape = Tape::new();
    let x = tape.leaf(buffer(&[1.0, 2.0]))?;
    let too_many = Op::new(
        "two for one",
        |x| Ok(x[0].clone()),
        |_| Ok(vec![None, None]),
    );
    let y = tape.apply(&too_many, &[x])?;
    let error = tape.backward(y, Some(&buffer(&[1.0, 1.0]))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "two for one: its VJP must return 1 entries, one per input, but returned 2"
    );
    let wrong_shape = Op::new(
        "wrong shape",
        |x| Ok(x[0].clone()),
        |_| Ok(vec![Some(Buffer::scalar(1.0)?)]),
    );
    let y = tape.apply(&wrong_shape, &[x])?;
    let error = tape.backward(y, Some(&buffer(&[1.0, 1.0]))).unwrap_err();
    assert!(
        matches!(
            error,
            Error::VjpContract {
                op: "wrong shape",
                ..
            }
        ),
        "{error}"
    );
    let past_the_end = Op::new(
        "past",
        |x| Ok(x[0].clone()),
        |args| Ok(vec![Some(args.input(1)?.clone())]),
    );
    let y = tape.apply(&past_the_end, &[x])?;
    assert!(matches!(
        tape.backward(y, Some(&buffer(&[1.0, 1.0]))),
        Err(Error::InvalidArgument { .. })
    ));
    Ok(())
}

#[test]
fn two_hundred_thousand_nodes_neither_recurse_nor_leak() -> Result<()> {
    need_device_or_ok!();
    // A thread with a small stack, so that recursion would end it.
    let run = || -> Result<()> {
        let tape = Tape::new();
        let x = tape.leaf(buffer(&[1.0]))?;
        let mut y = x;
        for _ in 0..200_000 {
            y = tape.neg(y)?;
        }
        assert_bits_eq("an even number of signs", &gradient(&tape, y, x), &[1.0]);
        Ok(())
    };
    std::thread::Builder::new()
        .stack_size(128 << 10)
        .spawn(run)
        .unwrap()
        .join()
        .unwrap()
}

#[test]
fn a_value_saved_on_a_tape_cannot_change_under_it() -> Result<()> {
    need_device_or_ok!();
    let tape = Tape::new();
    let mut weights = buffer(&[1.0, 2.0]);
    let step = buffer(&[1.0, 1.0]);
    let x = tape.leaf(weights.clone())?;
    assert!(matches!(
        weights.axpy(1.0, &step),
        Err(Error::SharedStorage { .. })
    ));
    let mut reshaped = weights.reshape(&[2, 1])?;
    assert!(matches!(
        reshaped.axpy(1.0, &Buffer::zeros(&[2, 1])?),
        Err(Error::SharedStorage { .. })
    ));
    drop(reshaped);
    assert_bits_eq("unchanged", &tape.value(x)?.to_vec()?, &[1.0, 2.0]);
    tape.clear()?;
    weights.axpy(1.0, &step)?;
    assert_bits_eq("the sole owner writes", &weights.to_vec()?, &[2.0, 3.0]);
    Ok(())
}

#[test]
fn gradient_descent_fits_a_table() -> Result<()> {
    need_device_or_ok!();
    // y = u^2 on five knots, seen half-way and on the knots: the knots are found again.
    let truth = buffer(&[0.0, 1.0, 4.0, 9.0, 16.0]);
    let u = buffer(&[0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0]);
    let samples = truth.table_lookup(&u)?;
    let mut table = Buffer::zeros(&[5])?;
    let tape = Tape::new();
    let mut loss = f32::INFINITY;
    for _ in 0..400 {
        let t = tape.leaf(table.clone())?;
        let predicted = tape.table_lookup(t, tape.constant(u.clone())?)?;
        let error = tape.mse(predicted, tape.constant(samples.clone())?)?;
        loss = tape.value(error)?.item()?;
        let slope = tape.backward(error, None)?.take(t)?.unwrap();
        tape.clear()?;
        table.axpy(-1.5, &slope)?;
    }
    // Plain descent converges geometrically; 1e-6 is far below the knots' spacing and above float32 noise.
    assert!(loss < 1e-6, "{loss}");
    Ok(())
}

/// What a closure captured may panic when it is dropped: the Vars are foreign all the same.
#[test]
fn a_clear_that_panics_makes_the_vars_foreign() -> Result<()> {
    need_device_or_ok!();
    struct PanicsOnDrop;
    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let tape = Tape::new();
    let x = tape.leaf(buffer(&[1.0]))?;
    let captured = PanicsOnDrop;
    let vjp = move |_: &torchlean::VjpArgs<'_>| {
        let _kept = &captured;
        Ok(vec![None])
    };
    tape.apply(&Op::new("panics on drop", |x| Ok(x[0].clone()), vjp), &[x])?;
    let cleared = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tape.clear()));
    assert!(cleared.is_err());
    let y = tape.leaf(buffer(&[77.0]))?;
    assert!(matches!(tape.value(x), Err(Error::ForeignVar { .. })));
    assert_bits_eq("y", &tape.value(y)?.to_vec()?, &[77.0]);
    Ok(())
}
