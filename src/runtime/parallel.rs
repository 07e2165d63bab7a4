//! Loops on libtorch's intra-op threads, so that `tch::set_num_threads` governs; one thread without libtorch.

use std::ops::Range;
use std::sync::Mutex;

use crate::error::Result;
use crate::{aten, sys};

/// Runs `body` on pieces of `0..n`, each of at least `grain` where there is more than one.
///
/// Below two grains it is a plain call. What the pieces write must not depend on how the range is cut.
///
/// # Errors
/// libtorch's, where its threads cannot be had.
pub(crate) fn parallel_for(
    n: usize,
    grain: usize,
    body: impl Fn(Range<usize>) + Sync,
) -> Result<()> {
    if n / 2 < grain || aten::threads() == 1 {
        body(0..n);
        return Ok(());
    }
    sys::parallel_for(n, grain, &body)
}

/// Runs `body` on each item by itself, at most as many at a time as there are threads.
pub(crate) fn parallel_each<T: Send>(
    items: impl IntoIterator<Item = T>,
    body: impl Fn(T) + Sync,
) -> Result<()> {
    let mut items = items.into_iter();
    let (Some(first), second) = (items.next(), items.next()) else {
        return Ok(());
    };
    let Some(second) = second else {
        body(first); // no list for a short input
        return Ok(());
    };
    let items: Vec<_> = [first, second]
        .into_iter()
        .chain(items)
        .map(|item| Mutex::new(Some(item)))
        .collect();
    parallel_for(items.len(), 1, |range| {
        for item in &items[range] {
            let taken = item.lock().ok().and_then(|mut item| item.take());
            if let Some(item) = taken {
                body(item);
            }
        }
    })
}

/// The length of the pieces that `n` elements are cut into: one per thread, whole multiples of `block`, none below
/// `grain`.
pub(crate) fn piece(n: usize, grain: usize, block: usize) -> usize {
    if n / 2 < grain {
        return n.max(1);
    }
    n.div_ceil(aten::threads())
        .max(grain)
        .next_multiple_of(block)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    #[test]
    fn every_element_comes_once() {
        for n in [0, 1, 99, 100, 200, 1000, 12_345] {
            let seen: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
            parallel_for(n, 100, |range| {
                for k in range {
                    seen[k].fetch_add(1, Relaxed);
                }
            })
            .unwrap();
            assert!(seen.iter().all(|count| count.load(Relaxed) == 1), "{n}");
        }
    }

    #[test]
    fn a_panic_comes_back_to_the_caller() {
        let result = std::panic::catch_unwind(|| {
            parallel_for(1000, 1, |range| {
                assert!(!range.contains(&999), "on purpose");
            })
        });
        let payload = result.expect_err("the panic was lost");
        assert_eq!(payload.downcast_ref(), Some(&"on purpose"));
    }

    #[test]
    fn pieces_are_whole_blocks() {
        assert_eq!(piece(0, 10, 4), 1);
        assert_eq!(piece(19, 10, 4), 19);
        assert_eq!(piece(1001, 10, 4) % 4, 0);
    }
}
