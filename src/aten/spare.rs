//! Results that are no longer needed, kept for the next of their size.
//!
//! libtorch takes a microsecond to make a small tensor, and the kernel gives out large blocks page by page, which takes
//! longer than a lookup that fills them. Those between come from the allocator's own lists at once and are not kept.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// The most floats of a small tensor: 64 KiB.
const SMALL: usize = 16 * 1024;

/// The floats from which a tensor is large: 32 MiB. The C library maps such blocks anew each time.
pub(super) const LARGE: usize = 8 << 20;

/// The most tensors kept in one place: each is looked at.
const MANY: usize = 16;

/// Tensors and their sizes, the oldest first.
struct Spares {
    tensors: VecDeque<(usize, tch::Tensor)>,
    /// How many floats they have together, and may have.
    floats: usize,
    limit: usize,
}

impl Spares {
    const fn new(limit: usize) -> Spares {
        Spares {
            tensors: VecDeque::new(),
            floats: 0,
            limit,
        }
    }

    fn take(&mut self, n: usize) -> Option<tch::Tensor> {
        let place = self.tensors.iter().rposition(|(size, _)| *size == n)?;
        let (_, tensor) = self.tensors.remove(place)?;
        self.floats = self.floats.saturating_sub(n);
        Some(tensor)
    }

    /// Keeps a tensor; gives back what there is no room for.
    fn keep(&mut self, n: usize, tensor: tch::Tensor) -> Vec<tch::Tensor> {
        self.tensors.push_back((n, tensor));
        self.floats = self.floats.saturating_add(n);
        let mut dropped = Vec::new();
        while self.floats > self.limit || self.tensors.len() > MANY {
            let Some((size, tensor)) = self.tensors.pop_front() else {
                break;
            };
            self.floats = self.floats.saturating_sub(size);
            dropped.push(tensor);
        }
        dropped
    }
}

thread_local! {
    /// At most 1 MiB of small ones for each thread.
    static OF_THE_THREAD: RefCell<Spares> = const { RefCell::new(Spares::new(MANY * SMALL)) };
}

/// At most 256 MiB of large ones for the process.
static OF_THE_PROCESS: Mutex<Spares> = Mutex::new(Spares::new(64 << 20));

/// Whether tensors of `n` floats are kept.
pub(super) fn is_kept(n: usize) -> bool {
    (1..=SMALL).contains(&n) || n >= LARGE
}

/// A tensor of `n` floats, if one is left.
pub(super) fn take(n: usize) -> Option<tch::Tensor> {
    if n >= LARGE {
        let mut spares = OF_THE_PROCESS
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        return spares.take(n);
    }
    // At the end of a thread there are none any more.
    let taken = OF_THE_THREAD.try_with(|spares| spares.borrow_mut().take(n));
    taken.ok().flatten()
}

/// Keeps a tensor of `n` floats whose memory nothing else reaches.
pub(super) fn keep(n: usize, tensor: tch::Tensor) {
    // Those for which there is no room are freed once the lock is.
    let dropped = if n >= LARGE {
        let mut spares = OF_THE_PROCESS
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        spares.keep(n, tensor)
    } else {
        let kept = OF_THE_THREAD.try_with(|spares| spares.borrow_mut().keep(n, tensor));
        kept.unwrap_or_default()
    };
    drop(dropped);
}

/// Frees the large ones, and the small ones of this thread.
pub(crate) fn free() {
    let large = OF_THE_PROCESS.lock().map(|mut spares| {
        spares.floats = 0;
        std::mem::take(&mut spares.tensors)
    });
    let small = OF_THE_THREAD.try_with(|spares| {
        let mut spares = spares.borrow_mut();
        spares.floats = 0;
        std::mem::take(&mut spares.tensors)
    });
    drop((large, small));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(n: usize) -> tch::Tensor {
        tch::Tensor::zeros([n as i64], (tch::Kind::Float, tch::Device::Cpu))
    }

    #[test]
    fn the_oldest_goes_where_there_is_no_room() {
        let mut spares = Spares::new(10);
        for n in [4, 5] {
            assert!(spares.keep(n, tensor(n)).is_empty());
        }
        assert_eq!(spares.keep(3, tensor(3))[0].numel(), 4);
        assert!(spares.take(4).is_none());
        assert_eq!(spares.take(5).map(|tensor| tensor.numel()), Some(5));
        assert_eq!(spares.keep(11, tensor(11)).len(), 2); // too large by itself
        assert_eq!(spares.floats, 0);
    }
}
