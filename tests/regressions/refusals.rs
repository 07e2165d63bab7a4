//! What is refused, and that the next call works.

use torchlean::host::{self, VjpOutputs};
use torchlean::{Buffer, Error, Result, spec};

use crate::common::{self, assert_bits_eq};
use crate::{NAN, buffer};

#[test]
fn what_is_refused_names_the_operation_and_the_next_call_works() {
    common::in_every_form_on_the_device(
        what_is_refused_names_the_operation_and_the_next_call_works_here,
    );
}

fn what_is_refused_names_the_operation_and_the_next_call_works_here() -> Result<()> {
    let (empty, one, two) = (buffer(&[]), buffer(&[1.0]), buffer(&[1.0, 2.0]));
    let (scalar, matrix) = (Buffer::scalar(1.0)?, Buffer::zeros(&[2, 2])?);
    let no_width = Buffer::zeros(&[2, 0])?;
    let no_layers = Buffer::zeros(&[0, 2])?;
    let refusals: Vec<(Result<Buffer>, &str)> = vec![
        (empty.table_lookup(&one), "table_lookup: the table is empty"),
        (
            scalar.table_lookup(&one),
            "table_lookup: expected a table of rank 1",
        ),
        (
            matrix.table_lookup(&one),
            "table_lookup: expected a table of rank 1",
        ),
        (empty.gather_at(&one), "gather_at: the table is empty"),
        (
            matrix.gather_at(&one),
            "gather_at: expected a table of rank 1",
        ),
        (
            Buffer::scatter_add_at(0, &one, &one),
            "scatter_add_at: the table is empty",
        ),
        (
            Buffer::scatter_add_at(3, &one, &two),
            "scatter_add_at: expected the same shape twice, [1]",
        ),
        (
            Buffer::scatter_add_at(usize::MAX, &one, &one),
            "scatter_add_at: the shape [18446744073709551615]",
        ),
        (
            Buffer::scatter_add_at(1 << 60, &one, &one),
            "scatter_add_at: out of memory",
        ),
        (
            two.layered_table_lookup(&one, &one),
            "layered_table_lookup: expected a table of rank 2",
        ),
        (
            no_width.layered_table_lookup(&one, &one),
            "layered_table_lookup: the table is empty",
        ),
        (
            no_layers.layered_table_lookup(&one, &one),
            "layered_table_lookup: the table is empty",
        ),
        (
            matrix.layered_table_lookup(&one, &two),
            "layered_table_lookup: expected the same shape twice",
        ),
        (
            one.add(&two),
            "add: expected the same shape twice, [1] (shapes are not broadcast",
        ),
        (
            matrix.mul(&matrix.reshape(&[4])?),
            "mul: expected the same shape twice, [2, 2]",
        ),
        (
            two.index_select(&[0, 2]),
            "index_select: index 2 at place 1 is outside 0..2",
        ),
        (
            two.index_select(&[-1]),
            "index_select: index -1 at place 0 is outside 0..2",
        ),
        (
            scalar.index_select(&[0]),
            "index_select: expected rank 1 or more",
        ),
        (
            two.scatter_add(&[5], &one),
            "scatter_add: index 5 at place 0",
        ),
        (
            two.scatter_add(&[0, 1], &one),
            "scatter_add: expected values of shape [2]",
        ),
        (two.clamp(1.0, -1.0), "clamp: expected bounds lo <= hi"),
        (two.clamp(NAN, 1.0), "clamp: expected bounds lo <= hi"),
        (two.reshape(&[3]), "reshape: expected 2 elements"),
        (two.reshape(&[usize::MAX, 3]), "reshape: the shape"),
        (Buffer::zeros(&[usize::MAX]), "zeros: the shape"),
        (Buffer::full(&[1 << 40, 1 << 40], 1.0), "full: the shape"),
        (
            Buffer::from_slice(&[1.0], &[2]),
            "from_slice: expected a shape of 1 elements",
        ),
    ];
    for (result, message) in refusals {
        let text = result.unwrap_err().to_string();
        assert!(text.starts_with(message), "{text}");
        // pytorch 17425
        assert_bits_eq("the next call", &two.add(&two)?.to_vec()?, &[2.0, 4.0]);
    }
    // More memory than any machine has: an error with the size, and nothing lost.
    let asked = Buffer::zeros(&[1 << 50]).unwrap_err();
    assert!(
        matches!(asked, Error::OutOfMemory { bytes, .. } if bytes == 1 << 52),
        "{asked}"
    );
    assert_bits_eq("the next call", &two.add(&two)?.to_vec()?, &[2.0, 4.0]);
    Ok(())
}

/// The same checks on slices, for the reference and for the kernels; on an error nothing has been written.
#[test]
fn slices() {
    let (none, one, two, three) = (&[][..], &[1.0][..], &[1.0, 2.0][..], &[1.0, 2.0, 3.0][..]);
    let mut out = [7.0; 2];
    let mut short = [7.0; 1];
    fn d_table(out: &mut [f32]) -> VjpOutputs<'_> {
        VjpOutputs {
            d_table: Some(out),
            ..Default::default()
        }
    }
    fn d_coords(out: &mut [f32]) -> VjpOutputs<'_> {
        VjpOutputs {
            d_coords: Some(out),
            ..Default::default()
        }
    }
    let refusals = [
        (
            spec::add(two, one).map(drop),
            "add: expected slices of one length, 2",
        ),
        (
            spec::gather_at(none, one).map(drop),
            "gather_at: the table is empty",
        ),
        (
            host::gather_at(none, two, &mut out),
            "gather_at: the table is empty",
        ),
        (
            host::gather_at(two, three, &mut out),
            "gather_at: expected slices of one length, 3",
        ),
        (
            spec::scatter_add_at(0, one, one).map(drop),
            "scatter_add_at: the table is empty",
        ),
        (
            host::scatter_add_at(one, one, &mut []),
            "scatter_add_at: the table is empty",
        ),
        (
            host::scatter_add_at(one, two, &mut out),
            "scatter_add_at: expected slices of one length, 1",
        ),
        (
            spec::scatter_add(two, 1, &[0], two).map(drop),
            "scatter_add: expected slices of one length, 1",
        ),
        (
            spec::table_lookup(none, one).map(drop),
            "table_lookup: the table is empty",
        ),
        (
            host::table_lookup(none, two, &mut out),
            "table_lookup: the table is empty",
        ),
        (
            host::table_lookup(two, three, &mut out),
            "table_lookup: expected slices of one length, 3",
        ),
        (
            host::table_lookup_vjp(two, one, two, d_table(&mut out)),
            "table_lookup_vjp: expected slices of one length, 1",
        ),
        (
            host::table_lookup_vjp(two, two, two, d_table(&mut short)),
            "table_lookup_vjp: expected slices of one length, 2",
        ),
        (
            host::table_lookup_vjp(three, two, two, d_coords(&mut short)),
            "table_lookup_vjp: expected slices of one length, 2",
        ),
        (
            host::table_lookup_vjp(
                three,
                two,
                two,
                VjpOutputs {
                    value: Some(&mut short),
                    ..d_coords(&mut out)
                },
            ),
            "table_lookup_vjp: expected slices of one length, 2",
        ),
        (
            spec::layered_table_lookup(three, 2, one, one).map(drop),
            "layered_table_lookup: expected a table of whole layers of width 2",
        ),
        (
            host::layered_table_lookup(three, 2, two, two, &mut out),
            "layered_table_lookup: expected a table of whole layers of width 2",
        ),
        (
            host::layered_table_lookup(three, 0, two, two, &mut out),
            "layered_table_lookup: the table is empty",
        ),
        (
            host::layered_table_lookup(two, 2, two, one, &mut out),
            "layered_table_lookup: expected slices of one length, 2",
        ),
        (
            host::layered_table_lookup_vjp(two, 2, two, two, one, d_coords(&mut out)),
            "layered_table_lookup_vjp: expected slices of one length, 2",
        ),
    ];
    for (result, message) in refusals {
        let text = result.unwrap_err().to_string();
        assert!(text.starts_with(message), "{text}");
    }
    assert_eq!((out, short), ([7.0; 2], [7.0; 1]));
}
