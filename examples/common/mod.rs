//! What the examples share: csv files whose headers carry units, refused by file and line; files written whole or not
//! at all.

// Each example uses its part of it.
#![allow(dead_code)]

use anyhow::{Context, Result, bail, ensure};
use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// A unit as it stands in a header. A value in it, `times` over `per`, is in the unit that the program works in: two
/// integers where there are such, so that 90 km/h are 25 m/s to the last bit.
#[derive(Clone, Copy)]
pub struct Unit {
    pub name: &'static str,
    pub times: f64,
    pub per: f64,
}

/// A [`Unit`], for tables of them.
pub const fn unit(name: &'static str, times: f64, per: f64) -> Unit {
    Unit { name, times, per }
}

impl Unit {
    pub fn convert(&self, value: f64) -> f64 {
        value * self.times / self.per
    }
}

/// A csv file: one header row, then rows of as many fields.
pub struct Sheet {
    path: PathBuf,
    header: Vec<String>,
    rows: Vec<(usize, csv::StringRecord)>,
}

/// A column of a [`Sheet`] and the unit its header names.
#[derive(Clone, Copy)]
pub struct Column {
    index: usize,
    /// The unit in the header.
    pub unit: Unit,
}

impl Sheet {
    /// Reads a whole file: UTF-8 with or without a byte order mark, line ends LF or CRLF, fields separated by commas.
    pub fn read(path: &Path) -> Result<Sheet> {
        let name = path.display();
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {name}"))?;
        let text = match std::str::from_utf8(&bytes) {
            Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
            Err(e) => {
                let line = 1 + line_ends(&bytes[..e.valid_up_to()]);
                bail!("{name}, line {line}: not UTF-8 text; save the file as UTF-8");
            }
        };
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .trim(csv::Trim::All)
            .from_reader(text.as_bytes());
        let (mut header, mut rows) = (Vec::new(), Vec::new());
        let (mut line, mut counted) = (1, 0);
        for record in reader.records() {
            let record = record.with_context(|| format!("cannot read {name}"))?;
            // The reader's own line is that of the previous record's end where lines end in CRLF or are blank.
            let mut start = record.position().map_or(counted, |p| p.byte() as usize);
            start = start.clamp(counted, text.len());
            let blank = |b: &&u8| matches!(b, b'\r' | b'\n');
            start += text.as_bytes()[start..].iter().take_while(blank).count();
            line += line_ends(&text.as_bytes()[counted..start]);
            counted = start;
            if header.is_empty() {
                header = record.iter().map(String::from).collect();
                ensure!(
                    header.len() > 1 || !header[0].contains([';', '\t']),
                    "{name}, line {line}: fields are separated by semicolons or tabs; \
                     save the file with commas between fields and points in numbers"
                );
            } else if record.len() == header.len() {
                rows.push((line, record));
            } else {
                let (found, wanted) = (record.len(), header.len());
                bail!(
                    "{name}, line {line}: {found} fields where the header has {wanted}; \
                     look for a decimal comma, a missing field or an open quote"
                );
            }
        }
        ensure!(
            !header.is_empty(),
            "{name} is empty; its first row must name the columns with their units"
        );
        ensure!(!rows.is_empty(), "{name} has a header and no rows");
        Ok(Sheet {
            path: path.into(),
            header,
            rows,
        })
    }

    /// The file's name.
    pub fn file(&self) -> &Path {
        &self.path
    }

    /// The number of rows below the header.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The only column whose header ends in one of `units`, as in `Power [kW]` or `power (kW)`; `None` if there is
    /// none.
    pub fn find(&self, what: &str, units: &[Unit]) -> Result<Option<Column>> {
        let mut found = None;
        for (index, title) in self.header.iter().enumerate() {
            if let Some(&unit) = units.iter().find(|u| unit_of(title) == Some(u.name)) {
                let file = self.path.display();
                ensure!(
                    found.is_none(),
                    "{file}: more than one column could be the {what}; keep one of them in the file"
                );
                found = Some(Column { index, unit });
            }
        }
        Ok(found)
    }

    /// As [`Sheet::find`], where the column must be there.
    pub fn column(&self, what: &str, units: &[Unit]) -> Result<Column> {
        self.find(what, units)?.with_context(|| {
            let known: Vec<_> = units.iter().map(|u| u.name).collect();
            let (file, have, known) = (
                self.path.display(),
                self.header.join(" | "),
                known.join(", "),
            );
            format!(
                "{file}: no column for the {what}; its header must end in a unit in brackets, \
                 one of {known}; found: {have}"
            )
        })
    }

    /// The column whose header starts with `title`, whatever follows.
    pub fn titled(&self, title: &str) -> Result<usize> {
        let at = self
            .header
            .iter()
            .position(|h| h.to_lowercase().starts_with(title));
        at.with_context(|| {
            format!(
                "{}: no column named {title:?}; found: {}",
                self.path.display(),
                self.header.join(" | ")
            )
        })
    }

    /// The header of a column.
    pub fn title(&self, column: usize) -> &str {
        &self.header[column]
    }

    /// A field as it stands in the file.
    pub fn field(&self, row: usize, column: usize) -> &str {
        &self.rows[row].1[column]
    }

    /// The line in the file on which a row starts.
    pub fn line(&self, row: usize) -> usize {
        self.rows[row].0
    }

    /// A field as a number in its header's unit: what can be read as float64, NaN and infinities too.
    pub fn number(&self, row: usize, column: Column) -> Result<f64> {
        let text = self.field(row, column.index);
        let reason = match text {
            "" => "is no number; fill it in or delete the row",
            _ if text.contains('\n') => "is no number; a quote is open",
            _ if text.contains(',') => "is no number; write a decimal point",
            _ => "is no number",
        };
        text.parse().map_err(|_| self.refusal(row, column, reason))
    }

    /// Whether a field is empty.
    pub fn is_blank(&self, row: usize, column: Column) -> bool {
        self.field(row, column.index).is_empty()
    }

    /// An error that names the file, the line, the column, the value and the reason.
    pub fn refusal(&self, row: usize, column: Column, reason: impl Display) -> anyhow::Error {
        let (file, line, title, value) = (
            self.path.display(),
            self.line(row),
            &self.header[column.index],
            self.field(row, column.index),
        );
        anyhow::anyhow!("{file}, line {line}, column {title:?}: {value:?} {reason}")
    }
}

fn line_ends(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&b| b == b'\n').count()
}

/// The text in the brackets that end a header.
fn unit_of(title: &str) -> Option<&str> {
    let (open, inside) = match title.strip_suffix(']') {
        Some(inside) => ('[', inside),
        None => ('(', title.strip_suffix(')')?),
    };
    inside.rsplit_once(open).map(|(_, unit)| unit.trim())
}

/// Writes a file whole or not at all: to a temporary file in the same folder, then renamed.
///
/// A rename replaces whatever is there, and root may do it anywhere. So it is refused where it would replace one of
/// `inputs`, something else than a file (a device, a folder), or a file or an entry in a folder that is marked read-only.
pub fn write_whole(path: &Path, contents: &[u8], inputs: &[&Path]) -> Result<()> {
    let name = path.display();
    let real = path.canonicalize();
    for input in inputs {
        let same = matches!((&real, input.canonicalize()), (Ok(a), Ok(b)) if *a == b);
        ensure!(
            !same,
            "{name} is the input; name another file for the output"
        );
    }
    // A link stays a link: what it points to is replaced.
    let path = real.as_deref().unwrap_or(path);
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let refuse = "name another file for the output";
    if let Ok(there) = path.symlink_metadata() {
        ensure!(!there.is_dir(), "{name} is a folder; name a file in it");
        ensure!(there.is_file(), "{name} is no ordinary file; {refuse}");
        ensure!(
            !there.permissions().readonly(),
            "{name} is read-only; {refuse}"
        );
    }
    let read_only = folder
        .metadata()
        .is_ok_and(|there| there.permissions().readonly());
    ensure!(!read_only, "{name} is in a read-only folder; {refuse}");
    let write = || -> std::io::Result<()> {
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        // What the process's umask leaves, as for any new file; a temporary file alone would be its owner's only.
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let mut file = builder.tempfile_in(folder)?;
        file.write_all(contents)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    write().with_context(|| {
        format!(
            "cannot write {name}; is there a folder {} that can be written to?",
            folder.display()
        )
    })
}

/// Where an example writes when no file is named: in `target/demo`, made if need be.
pub fn demo_output(file: &str) -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/demo");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}; name a file with --out", folder.display()))?;
    Ok(folder.join(file))
}

/// Prints to standard output. A reader that has gone away (`| head`) is no error.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(e).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

/// Ends a program: success, or its error on standard error in one line and status 1.
pub fn exit(result: Result<()>) -> std::process::ExitCode {
    let Err(e) = result else {
        return std::process::ExitCode::SUCCESS;
    };
    // Standard error may be closed as well; there is nowhere left to say so.
    let _ = writeln!(std::io::stderr(), "error: {e:#}");
    std::process::ExitCode::FAILURE
}

/// Whether a test can compute; if not, says so, and fails where `TORCHLEAN_REQUIRE_NATIVE=1` says that it must.
#[cfg(test)]
pub fn native(test: &str) -> bool {
    let Err(e) = torchlean::require_native_runtime() else {
        return true;
    };
    assert!(
        std::env::var_os("TORCHLEAN_REQUIRE_NATIVE").is_none_or(|v| v != "1"),
        "{test}: {e}"
    );
    eprintln!("{test}: skipped, {e}");
    false
}

#[cfg(test)]
mod tests;
