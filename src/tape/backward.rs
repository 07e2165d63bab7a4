//! The walk back over a tape, and what it brings.

use std::collections::BTreeMap;

use super::{Node, Tape, Var};
use crate::buffer::Buffer;
use crate::error::{Error, Result};

/// What a VJP is called with: the inputs and the value of its node, the cotangent of that value, and which of the
/// parents need a gradient.
pub struct VjpArgs<'a> {
    nodes: &'a [Node],
    node: &'a Node,
    cotangent: &'a Buffer,
}

impl<'a> VjpArgs<'a> {
    /// How many inputs the op was recorded with.
    pub fn inputs(&self) -> usize {
        self.node.parents.len()
    }

    /// The `k`-th input.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] past the last one.
    pub fn input(&self, k: usize) -> Result<&'a Buffer> {
        match self.node.parents.get(k) {
            Some(&parent) => Ok(&self.nodes[parent].value),
            None => Err(Error::InvalidArgument {
                op: self.node.op,
                expected: format!("an input below {}", self.inputs()),
                found: k.to_string(),
            }),
        }
    }

    /// The node's own value.
    pub fn output(&self) -> &'a Buffer {
        &self.node.value
    }

    /// The cotangent of the node's value, of the same shape.
    pub fn cotangent(&self) -> &'a Buffer {
        self.cotangent
    }

    /// Whether the `k`-th parent needs a gradient; for one that does not, `None` is the answer to give.
    pub fn needs(&self, k: usize) -> bool {
        self.node
            .parents
            .get(k)
            .is_some_and(|&parent| self.nodes[parent].needs_gradient)
    }

    /// The gradient of the `k`-th parent, computed only where it is needed.
    ///
    /// # Errors
    /// The closure's own.
    pub fn when_needed(
        &self,
        k: usize,
        gradient: impl FnOnce() -> Result<Buffer>,
    ) -> Result<Option<Buffer>> {
        if self.needs(k) {
            gradient().map(Some)
        } else {
            Ok(None)
        }
    }
}

/// The gradients that a [`backward`](Tape::backward) kept: of the leaves, and of the values asked for with
/// [`retain`](Tape::retain).
#[derive(Debug)]
pub struct Gradients {
    tape: u64,
    kept: BTreeMap<usize, Buffer>,
}

impl Gradients {
    fn check(&self, op: &'static str, var: Var) -> Result<()> {
        if var.tape == self.tape {
            Ok(())
        } else {
            Err(Error::ForeignVar { op })
        }
    }

    /// The gradient of a Var, in its value's shape.
    ///
    /// A leaf that the output depends on, but to which nothing flows (only through `floor`, say), has a gradient of
    /// +0.0. `None`: the output does not depend on it, or it is neither a leaf nor retained.
    ///
    /// # Errors
    /// [`Error::ForeignVar`].
    pub fn get(&self, var: Var) -> Result<Option<&Buffer>> {
        self.check("Gradients::get", var)?;
        Ok(self.kept.get(&var.index))
    }

    /// As [`get`](Gradients::get), moving the buffer out, so that the caller owns its storage.
    ///
    /// # Errors
    /// [`Error::ForeignVar`].
    pub fn take(&mut self, var: Var) -> Result<Option<Buffer>> {
        self.check("Gradients::take", var)?;
        Ok(self.kept.remove(&var.index))
    }
}

impl Tape {
    /// The gradients of `<seed, output>` for the leaves that `output` depends on.
    ///
    /// The seed has the output's shape; without one, a one-element output is seeded with 1. May be called again, with
    /// other outputs and seeds. Where a value was used more than once its gradients are added in the reverse of the
    /// recorded order. The bits repeat on the host; on CUDA they do with determinism on (see
    /// [`runtime::deterministic`](crate::runtime::deterministic)).
    ///
    /// Gradients are buffers and not recorded: there is no second derivative.
    ///
    /// # Errors
    /// [`Error::ForeignVar`]; [`Error::SeedRequired`]; [`Error::Shape`] for a seed of another shape;
    /// [`Error::VjpContract`] for a user's VJP that returns the wrong number or shapes; [`Error::TapeBusy`] from
    /// inside an op's closure; what a VJP itself returns.
    ///
    /// ```
    /// use torchlean::{Buffer, Tape};
    /// # if torchlean::device_kind().is_ok() {
    /// let tape = Tape::new();
    /// let x = tape.leaf(Buffer::from_slice(&[3.0, 4.0], &[2])?)?;
    /// let square = tape.mul(x, x)?;
    /// let seed = Buffer::from_slice(&[1.0, 10.0], &[2])?;
    /// let gradients = tape.backward(square, Some(&seed))?;
    /// assert_eq!(gradients.get(x)?.unwrap().to_vec()?, [6.0, 80.0]);
    /// # }
    /// # Ok::<(), torchlean::Error>(())
    /// ```
    pub fn backward(&self, output: Var, seed: Option<&Buffer>) -> Result<Gradients> {
        let op = "backward";
        let nodes = self.nodes(op)?;
        let last = nodes.find(op, output)?;
        let list = &nodes.list[..=last];
        let seed = seed_for(&list[last].value, seed)?;

        let mut kept = BTreeMap::new();
        let mut depends = vec![false; list.len()];
        let mut cotangents: Vec<Option<Buffer>> = vec![None; list.len()];
        depends[last] = true;
        cotangents[last] = Some(seed);
        for (index, node) in list.iter().enumerate().rev() {
            if !depends[index] || !node.needs_gradient {
                continue;
            }
            for &parent in &node.parents {
                depends[parent] = true;
            }
            let cotangent = cotangents[index].take();
            if let (Some(vjp), Some(cotangent)) = (&node.vjp, &cotangent) {
                let gradients = vjp(&VjpArgs {
                    nodes: list,
                    node,
                    cotangent,
                })?;
                accumulate(list, node, gradients, &mut cotangents)?;
            }
            if node.kept {
                let gradient = cotangent.map_or_else(|| Buffer::zeros(node.value.shape()), Ok)?;
                kept.insert(index, gradient);
            }
        }
        Ok(Gradients {
            tape: nodes.id,
            kept,
        })
    }
}

fn seed_for(output: &Buffer, seed: Option<&Buffer>) -> Result<Buffer> {
    match seed {
        Some(seed) if seed.shape() == output.shape() => Ok(seed.clone()),
        Some(seed) => {
            let expected = format!("a seed of the output's shape, {:?}", output.shape());
            Err(Error::Shape {
                op: "backward",
                expected,
                found: seed.shape().to_vec(),
            })
        }
        None if output.len() == 1 => Buffer::full(output.shape(), 1.0),
        None => Err(Error::SeedRequired {
            shape: output.shape().to_vec(),
        }),
    }
}

/// Adds what a node's VJP returned to the cotangents of its parents, in order.
fn accumulate(
    list: &[Node],
    node: &Node,
    gradients: Vec<Option<Buffer>>,
    cotangents: &mut [Option<Buffer>],
) -> Result<()> {
    let violated = |expected, found| Error::VjpContract {
        op: node.op,
        expected,
        found,
    };
    if gradients.len() != node.parents.len() {
        let expected = format!("{} entries, one per input", node.parents.len());
        return Err(violated(expected, gradients.len().to_string()));
    }
    for (&parent, gradient) in node.parents.iter().zip(gradients) {
        let Some(gradient) = gradient.filter(|_| list[parent].needs_gradient) else {
            continue;
        };
        let shape = list[parent].value.shape();
        if gradient.shape() != shape {
            let expected = format!("a gradient of its input's shape, {shape:?}");
            return Err(violated(
                expected,
                format!("one of shape {:?}", gradient.shape()),
            ));
        }
        cotangents[parent] = Some(match cotangents[parent].take() {
            Some(sum) => sum.accumulate(&gradient)?,
            None => gradient,
        });
    }
    Ok(())
}
