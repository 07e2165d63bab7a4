//! Faults of our own, and those of `tch` and libtorch that we met.

use torchlean::{Buffer, Error, Result, spec};

use crate::common::assert_bits_eq;
use crate::{buffer, need_device, need_device_or_ok};

/// libtorch's float32 square root on the host is not correctly rounded from 15 elements up.
#[test]
fn square_roots_are_correctly_rounded() -> Result<()> {
    need_device_or_ok!();
    let rows = [
        (0x3f7f_ffff_u32, 0x3f7f_ffff_u32), // 0.99999994; libtorch gives 1
        (0x407f_ffff, 0x3fff_ffff),
        (0x0000_0001, 0x1a35_04f3),
        (0x7f7f_ffff, 0x5f7f_ffff),
    ];
    for (bits, want) in rows {
        let x = vec![f32::from_bits(bits); 40];
        assert_bits_eq(
            "sqrt",
            &buffer(&x).sqrt()?.to_vec()?,
            &[f32::from_bits(want); 40],
        );
    }
    Ok(())
}

/// In `tch` 0.24 a call that takes a scalar panics when libtorch refuses it, here for want of memory.
#[test]
fn an_allocation_that_fails_in_a_call_with_scalars_is_an_error() -> Result<()> {
    need_device_or_ok!();
    let asked = Buffer::full(&[1 << 50], 1.0);
    assert!(matches!(asked, Err(Error::OutOfMemory { .. })), "{asked:?}");
    assert_eq!(Buffer::scalar(1.0)?.scale(2.0)?.item()?, 2.0);
    Ok(())
}

/// An empty axis beside axes whose product overflows was a shape, and panicked in the first operation on rows.
#[test]
fn an_empty_axis_does_not_excuse_axes_that_overflow() -> Result<()> {
    need_device_or_ok!();
    for shape in [
        [0, usize::MAX, 2],
        [usize::MAX, 2, 0],
        [0, 1 << 62, 1 << 62],
    ] {
        for refused in [
            Buffer::zeros(&shape),
            Buffer::full(&shape, 1.0),
            Buffer::from_slice(&[], &shape),
            Buffer::zeros(&[0])?.reshape(&shape),
        ] {
            assert!(
                matches!(refused, Err(Error::SizeOverflow { .. })),
                "{shape:?}"
            );
        }
    }
    assert_eq!(
        Buffer::zeros(&[0, 1 << 40])?.index_select(&[])?.shape(),
        [0, 1 << 40]
    );
    Ok(())
}

/// The reference panicked on sizes beyond memory.
#[test]
fn the_reference_refuses_sizes_beyond_memory() {
    for size in [usize::MAX, isize::MAX as usize, 1 << 60] {
        let refused = spec::scatter_add_at(size, &[], &[]);
        assert!(
            matches!(refused, Err(Error::OutOfMemory { .. })),
            "{size}: {refused:?}"
        );
    }
    assert!(matches!(
        spec::index_select(&[1.0], usize::MAX, &[0]),
        Err(Error::Shape { .. })
    ));
    // One long row, asked for often: 2^46 values from memory that is never touched.
    let row = 1 << 23;
    assert!(matches!(
        spec::index_select(&vec![0.0; row], row, &vec![0; row]),
        Err(Error::OutOfMemory { .. })
    ));
    assert!(matches!(
        spec::scatter_add(&[], usize::MAX, &[0], &[]),
        Err(Error::IndexOutOfRange { .. })
    ));
}

/// A result made while a thread ends, when its thread-local values are gone, aborted the process.
#[test]
fn results_may_be_made_while_a_thread_ends() {
    need_device!();
    struct Late(Buffer);
    impl Drop for Late {
        fn drop(&mut self) {
            assert_eq!(self.0.sqrt().unwrap().item().unwrap(), 3.0);
        }
    }
    thread_local! { static LATE: std::cell::RefCell<Option<Late>> = const { std::cell::RefCell::new(None) }; }
    let thread = std::thread::spawn(|| {
        LATE.with_borrow_mut(|late| *late = Some(Late(Buffer::scalar(9.0).unwrap())));
        Buffer::scalar(4.0).unwrap().sqrt().unwrap();
    });
    thread.join().unwrap();
}
