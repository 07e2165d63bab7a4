//! Which form of an operation runs, and for which instructions: scoped choices of one thread.

use std::cell::Cell;
use std::thread::LocalKey;

use crate::simd::InstructionSet;

/// The forms in which an operation can be computed; all give the same bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Path {
    /// From libtorch's own operations, on every device.
    Composed,
    /// By a kernel of the crate's own where there is one for the device, else composed.
    #[default]
    Fused,
}

thread_local! {
    static PATH: Cell<Path> = const { Cell::new(Path::Fused) };
    static SET: Cell<Option<InstructionSet>> = const { Cell::new(None) };
}

/// The form that this thread's operations take: [`Path::Fused`] outside [`with_path`].
pub fn path() -> Path {
    PATH.get()
}

/// Runs `body` with its operations in one form; nested calls and panics leave the choice as it was before.
///
/// The choice is this thread's alone. A tape computes gradients in the form that holds at its `backward`.
///
/// ```
/// use torchlean::runtime::{self, Path};
/// let inside = runtime::with_path(Path::Composed, runtime::path);
/// assert_eq!((inside, runtime::path()), (Path::Composed, Path::Fused));
/// ```
pub fn with_path<T>(path: Path, body: impl FnOnce() -> T) -> T {
    scoped(&PATH, path, body)
}

/// The instructions that this thread's kernels are compiled for: [`InstructionSet::best`] outside
/// [`with_instruction_set`].
pub fn instruction_set() -> InstructionSet {
    SET.get().unwrap_or_else(InstructionSet::best)
}

/// Runs `body` with its kernels compiled for one of the [`available`](InstructionSet::available) sets; the choice is
/// this thread's alone and ends with the call, by a panic too.
///
/// ```
/// use torchlean::{host::InstructionSet, runtime};
/// for &set in InstructionSet::available() {
///     assert_eq!(runtime::with_instruction_set(set, runtime::instruction_set), set);
/// }
/// ```
pub fn with_instruction_set<T>(set: InstructionSet, body: impl FnOnce() -> T) -> T {
    scoped(&SET, Some(set), body)
}

/// Runs `body` with another value in a cell of this thread.
fn scoped<V: Copy + 'static, T>(
    cell: &'static LocalKey<Cell<V>>,
    value: V,
    body: impl FnOnce() -> T,
) -> T {
    struct Restore<V: Copy + 'static>(&'static LocalKey<Cell<V>>, V);
    impl<V: Copy + 'static> Drop for Restore<V> {
        fn drop(&mut self) {
            self.0.set(self.1);
        }
    }
    let _restore = Restore(cell, cell.replace(value));
    body()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_nests_and_survives_a_panic() {
        with_path(Path::Composed, || {
            with_path(Path::Fused, || assert_eq!(path(), Path::Fused));
            assert_eq!(path(), Path::Composed);
            let panicked =
                std::panic::catch_unwind(|| with_path(Path::Fused, || panic!("on purpose")));
            assert!(panicked.is_err());
            assert_eq!(path(), Path::Composed);
        });
        assert_eq!(path(), Path::Fused);
    }

    #[test]
    fn the_choice_is_this_threads_alone() {
        with_path(Path::Composed, || {
            let other = std::thread::spawn(path).join();
            assert_eq!(other.ok(), Some(Path::Fused));
        });
    }
}
