//! Readers of the files as they are: comments, byte order marks, Latin-1, columns that run backwards.

use std::collections::BTreeMap;
use std::path::Path;

/// Latin-1 has a character for every byte, so this reads any file; non-ASCII text is not looked at.
fn text(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    bytes.iter().map(|&b| char::from(b)).collect()
}

/// The columns of a csv file of numbers: `#` comments, `;` or `,` between fields, then decimal commas in the first
/// case. Lines that do not start with a number are headers and left out; empty fields are NaN.
pub fn columns(path: &Path) -> Vec<Vec<f64>> {
    let text = text(path);
    let mut columns: Vec<Vec<f64>> = Vec::new();
    for line in text.lines() {
        let decimal_comma = line.contains(';');
        let field = |f: &str| -> f64 {
            let f = if decimal_comma {
                f.replace(',', ".")
            } else {
                f.to_owned()
            };
            f.trim().parse().unwrap_or(f64::NAN)
        };
        let fields: Vec<f64> = line
            .split(if decimal_comma { ';' } else { ',' })
            .map(field)
            .collect();
        if fields[0].is_nan() {
            continue;
        }
        columns.resize(columns.len().max(fields.len()), Vec::new());
        for (column, value) in columns.iter_mut().zip(fields) {
            column.push(value);
        }
    }
    assert!(!columns.is_empty(), "{}: no rows", path.display());
    columns
}

/// The table in a NIST thermocouple file: millivolts by whole degrees, from the lowest up.
///
/// Rows are a temperature and up to eleven voltages, one degree apart; below zero they run down, as the page's header
/// says. The eleventh is the next row's first. The table ends where the coefficients begin, at a line of asterisks.
pub fn nist(path: &Path) -> (i32, Vec<f64>) {
    let mut table = BTreeMap::new();
    let mut direction = 1;
    for line in text(path).lines().take_while(|line| !line.starts_with('*')) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if fields.contains(&"1") || fields.contains(&"-1") {
            direction = if fields.contains(&"-1") { -1 } else { 1 };
        } else if let Some(Ok(first)) = fields.first().map(|f| f.parse::<i32>()) {
            for (t, field) in (0..).map(|k| first + k * direction).zip(&fields[1..]) {
                let mv: f64 = field
                    .parse()
                    .unwrap_or_else(|_| panic!("{}: {line}", path.display()));
                let before = table.insert(t, mv);
                assert!(
                    before.is_none_or(|before| before == mv),
                    "{}: two voltages at {t}",
                    path.display()
                );
            }
        }
    }
    let first = *table
        .keys()
        .next()
        .unwrap_or_else(|| panic!("{}: no table", path.display()));
    assert!(
        table.keys().copied().eq((first..).take(table.len())),
        "{}: a degree is missing",
        path.display()
    );
    (first, table.into_values().collect())
}

/// The points of a USGS rating: stage, discharge. `#` comments, a row of names, a row of formats, tabs.
pub fn rdb(path: &Path) -> (Vec<f64>, Vec<f64>) {
    let text = text(path);
    let rows = text.lines().filter(|line| !line.starts_with('#')).skip(2);
    let point = |row: &str| {
        let mut fields = row
            .split('\t')
            .map(|f| f.trim().parse().unwrap_or(f64::NAN));
        (
            fields.next().unwrap_or(f64::NAN),
            fields.next().unwrap_or(f64::NAN),
        )
    };
    rows.map(point).unzip()
}

/// Every line of a file that is nothing but numbers, in order.
pub fn numbers(path: &Path) -> Vec<Vec<f64>> {
    let parse = |line: &str| {
        line.split_whitespace()
            .map(|f| f.parse().ok())
            .collect::<Option<Vec<f64>>>()
    };
    text(path)
        .lines()
        .filter_map(parse)
        .filter(|row| !row.is_empty())
        .collect()
}

/// A half-precision float from its bits, exact. The files have no infinities or NaNs.
pub fn half(bits: u16) -> f32 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    let magnitude = if exponent == 0 {
        fraction / 1024.0 * 2f32.powi(-14)
    } else {
        (1.0 + fraction / 1024.0) * 2f32.powi(exponent - 15)
    };
    if bits >> 15 == 1 {
        -magnitude
    } else {
        magnitude
    }
}
