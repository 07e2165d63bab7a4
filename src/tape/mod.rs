//! [`Tape`]: records operations and walks them back. It knows no operation.
//!
//! An operation records itself with [`Tape::record`]: its name, its parents, a forward and a VJP. Recording order is
//! a topological order, so the walk back is a loop over a vector, and neither it nor the tape's drop recurses.

mod backward;
mod check;
mod op;

use std::cell::{RefCell, RefMut};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub use backward::{Gradients, VjpArgs};
pub use check::check_vjp;
pub use op::Op;

use crate::buffer::Buffer;
use crate::error::{Error, Result};

/// A value on a [`Tape`]: a small `Copy` id that knows its tape.
///
/// Used with another tape, or with its own after [`Tape::clear`], it is an [`Error::ForeignVar`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Var {
    tape: u64,
    index: usize,
}

/// Records operations on buffers, for their gradients.
///
/// Every method takes `&self`, so calls nest. A tape belongs to one thread at a time and may move between threads.
/// The values recorded live until the tape is cleared or dropped.
///
/// ```
/// use torchlean::{Buffer, Tape};
/// # if torchlean::device_kind().is_ok() {
/// let tape = Tape::new();
/// let table = tape.leaf(Buffer::from_slice(&[0.0, 10.0, 30.0], &[3])?)?;
/// let at = tape.leaf(Buffer::from_slice(&[0.25, 1.5], &[2])?)?;
/// let loss = tape.sum(tape.table_lookup(table, at)?)?;
/// let gradients = tape.backward(loss, None)?;
/// assert_eq!(gradients.get(at)?.unwrap().to_vec()?, [10.0, 20.0]);
/// assert_eq!(gradients.get(table)?.unwrap().to_vec()?, [0.75, 0.75, 0.5]);
/// # }
/// # Ok::<(), torchlean::Error>(())
/// ```
#[derive(Default)]
pub struct Tape {
    nodes: RefCell<Nodes>,
}

/// A recorded VJP: from the arguments to one gradient, or none, per parent.
type Vjp = Box<dyn Fn(&VjpArgs<'_>) -> Result<Vec<Option<Buffer>>> + Send>;

struct Node {
    op: &'static str,
    value: Buffer,
    parents: Box<[usize]>,
    /// A leaf is among its ancestors, or it is one.
    needs_gradient: bool,
    /// Its gradient is kept: leaves, and others on request.
    kept: bool,
    /// None for leaves and constants.
    vjp: Option<Vjp>,
}

struct Nodes {
    /// Unique in the process; a new one after `clear`.
    id: u64,
    list: Vec<Node>,
}

impl Default for Nodes {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Nodes {
            id: NEXT.fetch_add(1, Relaxed),
            list: Vec::new(),
        }
    }
}

impl Nodes {
    fn push(&mut self, node: Node) -> Var {
        let index = self.list.len();
        self.list.push(node);
        Var {
            tape: self.id,
            index,
        }
    }

    /// The index of a Var of this tape.
    fn find(&self, op: &'static str, var: Var) -> Result<usize> {
        if var.tape == self.id && var.index < self.list.len() {
            Ok(var.index)
        } else {
            Err(Error::ForeignVar { op })
        }
    }
}

impl Tape {
    /// An empty tape.
    pub fn new() -> Tape {
        Tape::default()
    }

    /// The nodes, for one operation at a time; an op's closure that comes back in finds them taken.
    fn nodes(&self, op: &'static str) -> Result<RefMut<'_, Nodes>> {
        self.nodes
            .try_borrow_mut()
            .map_err(|_| Error::TapeBusy { op })
    }

    fn source(&self, op: &'static str, value: Buffer, is_leaf: bool) -> Result<Var> {
        let node = Node {
            op,
            value,
            parents: Box::new([]),
            needs_gradient: is_leaf,
            kept: is_leaf,
            vjp: None,
        };
        Ok(self.nodes(op)?.push(node))
    }

    /// Puts a buffer on the tape whose gradient is wanted.
    ///
    /// # Errors
    /// [`Error::TapeBusy`] from inside an op's closure.
    pub fn leaf(&self, value: Buffer) -> Result<Var> {
        self.source("leaf", value, true)
    }

    /// Puts a buffer on the tape that is data: no gradient is computed for it.
    ///
    /// # Errors
    /// [`Error::TapeBusy`] from inside an op's closure.
    pub fn constant(&self, value: Buffer) -> Result<Var> {
        self.source("constant", value, false)
    }

    /// The value of a Var; the buffer shares its storage with the tape.
    ///
    /// # Errors
    /// [`Error::ForeignVar`]; [`Error::TapeBusy`] from inside an op's closure.
    pub fn value(&self, var: Var) -> Result<Buffer> {
        let nodes = self.nodes("value")?;
        Ok(nodes.list[nodes.find("value", var)?].value.clone())
    }

    /// The number of values recorded.
    ///
    /// # Errors
    /// [`Error::TapeBusy`] from inside an op's closure.
    pub fn len(&self) -> Result<usize> {
        Ok(self.nodes("len")?.list.len())
    }

    /// True where nothing has been recorded.
    ///
    /// # Errors
    /// [`Error::TapeBusy`] from inside an op's closure.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Keeps the gradient of a value that is not a leaf, in every `backward` that follows.
    ///
    /// # Errors
    /// [`Error::ForeignVar`]; [`Error::InvalidArgument`] for a value that no leaf leads to, since it never has a
    /// gradient; [`Error::TapeBusy`] from inside an op's closure.
    pub fn retain(&self, var: Var) -> Result<()> {
        let mut nodes = self.nodes("retain")?;
        let index = nodes.find("retain", var)?;
        let node = &mut nodes.list[index];
        if !node.needs_gradient {
            let expected =
                "a value that some leaf leads to (put its input on the tape with `leaf`)"
                    .to_owned();
            let found = format!("a `{}` without one", node.op);
            return Err(Error::InvalidArgument {
                op: "retain",
                expected,
                found,
            });
        }
        node.kept = true;
        Ok(())
    }

    /// Drops every value and starts anew; Vars handed out so far become foreign.
    ///
    /// The tape's own memory is kept for the next round, so a training loop can use one tape.
    ///
    /// # Errors
    /// [`Error::TapeBusy`] from inside an op's closure.
    pub fn clear(&self) -> Result<()> {
        let mut nodes = self.nodes("clear")?;
        let mut list = std::mem::take(&mut nodes.list);
        // Before the values are dropped: what a closure captured may panic then.
        *nodes = Nodes::default();
        list.clear();
        nodes.list = list;
        Ok(())
    }

    /// How an operation puts itself on the tape: computes its value now, and its VJP when `backward` comes by.
    ///
    /// The forward gets the parents' values in order. The VJP must be pure and return one entry per parent.
    pub(crate) fn record(
        &self,
        op: &'static str,
        parents: &[Var],
        forward: impl FnOnce(&[&Buffer]) -> Result<Buffer>,
        vjp: impl Fn(&VjpArgs<'_>) -> Result<Vec<Option<Buffer>>> + Send + 'static,
    ) -> Result<Var> {
        let mut nodes = self.nodes(op)?;
        let parents = parents
            .iter()
            .map(|&var| nodes.find(op, var))
            .collect::<Result<Box<[usize]>>>()?;
        let values: Vec<&Buffer> = parents
            .iter()
            .map(|&parent| &nodes.list[parent].value)
            .collect();
        let value = forward(&values)?;
        let needs_gradient = parents
            .iter()
            .any(|&parent| nodes.list[parent].needs_gradient);
        Ok(nodes.push(Node {
            op,
            value,
            parents,
            needs_gradient,
            kept: false,
            vjp: Some(Box::new(vjp)),
        }))
    }
}
