//! What criterion measured, as one table of multiples of copying and a plot.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use plotters::prelude::*;

/// The group of the copies.
pub const COPY: &str = "copy";

/// Where the builds go, and with them the measurements.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from)
}

fn measurements() -> PathBuf {
    let named = std::env::var_os("CRITERION_HOME").map(PathBuf::from);
    named.unwrap_or_else(|| target().join("criterion"))
}

/// How a size is spelled in a benchmark's name: the table's width, 0 where there is none, and the elements.
pub fn size(width: usize, n: usize) -> String {
    format!("{width} {n}")
}

/// Drops what another run has measured.
pub fn forget() {
    let _ = std::fs::remove_dir_all(measurements()); // there may be none
}

/// One operation at one size: nanoseconds per element of each form.
type Rows = BTreeMap<(usize, usize, String), BTreeMap<String, f64>>;

fn read() -> Rows {
    let mut rows = Rows::new();
    let list = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let last = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    for op in list(&measurements()) {
        for form in list(&op) {
            for size in list(&form) {
                let Ok(text) = std::fs::read_to_string(size.join("new/estimates.json")) else {
                    continue;
                };
                let estimates: serde_json::Value = serde_json::from_str(&text).unwrap();
                let time = estimates["median"]["point_estimate"].as_f64().unwrap();
                let name = last(&size);
                let (width, n) = name.split_once(' ').unwrap();
                let (width, n): (usize, usize) = (width.parse().unwrap(), n.parse().unwrap());
                let row = rows.entry((n, width, last(&op))).or_default();
                row.insert(last(&form), time / n as f64);
            }
        }
    }
    rows
}

/// Prints the table, and writes it and the plot to target/bench/.
pub fn print() {
    let rows = read();
    let forms = ["baseline", "avx2", "avx512", "into", "buffer", "composed"];
    let forms: Vec<_> = forms
        .into_iter()
        .filter(|&form| rows.values().any(|row| row.contains_key(form)))
        .collect();
    let mut text = String::from(
        "\nMultiples of copying, 4 bytes read and 4 written per element. By kernels on slices: an instruction set; \
         through buffers: into, buffer (on a tape where there are gradients), composed.\n\n",
    );
    write!(
        text,
        "{:<22}{:>9}{:>10}{:>12}",
        "operation", "W", "n", "copy, ns"
    )
    .unwrap();
    for form in &forms {
        write!(text, "{form:>10}").unwrap();
    }
    let mut lines: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for ((n, width, op), row) in &rows {
        if op == COPY {
            continue;
        }
        let Some(copy) = rows
            .get(&(*n, 0, COPY.to_owned()))
            .and_then(|row| row.get("memcpy"))
        else {
            continue;
        };
        write!(text, "\n{op:<22}{width:>9}{n:>10}{copy:>12.3}").unwrap();
        for form in &forms {
            match row.get(*form) {
                Some(time) => write!(text, "{:>10.2}", time / copy).unwrap(),
                None => text += "         -",
            }
        }
        let kernel = forms.iter().take_while(|&&form| form != "into").last();
        if let (4096, Some(time)) = (width, kernel.and_then(|&form| row.get(form))) {
            lines
                .entry(op.clone())
                .or_default()
                .push((*n as f64, time / copy));
        }
    }
    println!("{text}");
    let folder = target().join("bench");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("ops.txt"), &text).unwrap();
    let plot = folder.join("ops.svg");
    if !lines.is_empty() {
        draw(&lines, &plot).unwrap();
        println!("\nplot: {}", plot.display());
    }
}

fn draw(
    lines: &BTreeMap<String, Vec<(f64, f64)>>,
    file: &Path,
) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::new(file, (960, 520)).into_drawing_area();
    root.fill(&WHITE)?;
    let points = || lines.values().flatten();
    let (first, last) = (
        points().map(|p| p.0).fold(f64::MAX, f64::min),
        points().map(|p| p.0).fold(0.0, f64::max),
    );
    let most = points().map(|p| p.1).fold(2.0, f64::max);
    let mut chart = ChartBuilder::on(&root)
        .caption("best kernel, W = 4096, against copying", ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(60)
        .build_cartesian_2d(
            (first..last * 1.01).log_scale(),
            (0.5..most * 1.2).log_scale(),
        )?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("elements")
        .y_desc("multiple of copying")
        .x_label_formatter(&|n| format!("{n:.0}"))
        .y_label_formatter(&|times| format!("{times}"))
        .draw()?;
    for (k, (op, points)) in lines.iter().enumerate() {
        let colour = Palette99::pick(k).to_rgba();
        chart
            .draw_series(
                LineSeries::new(points.iter().copied(), colour.stroke_width(2)).point_size(3),
            )?
            .label(op)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    root.present()?;
    Ok(())
}
