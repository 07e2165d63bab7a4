//! The plot: for each turbine its power curve, and the energy earned around each m/s.

use super::{Turbine, Year};
use anyhow::{Result, anyhow};
use plotters::prelude::*;

const WIDTH: u32 = 960;
const PANEL: u32 = 330;
const CURVE: RGBColor = RGBColor(31, 78, 140);
const EARNED: RGBColor = RGBColor(236, 164, 70);
const EARNED_TEXT: RGBColor = RGBColor(158, 92, 12);

/// The plot as SVG text.
pub fn svg(turbines: &[(Turbine, Year)]) -> Result<String> {
    let mut text = String::new();
    draw(turbines, &mut text).map_err(|e| anyhow!("cannot draw the plot: {e}"))?;
    Ok(text)
}

fn draw(turbines: &[(Turbine, Year)], text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let height = PANEL * turbines.len() as u32;
    let root = SVGBackend::with_string(text, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    // One speed axis for all, so that the panels can be read against each other.
    let fastest = turbines
        .iter()
        .map(|(t, _)| t.last)
        .fold(1.0, f64::max)
        .ceil()
        + 1.0;
    let areas = root.split_evenly((turbines.len(), 1));
    for (k, ((turbine, year), area)) in turbines.iter().zip(areas).enumerate() {
        panel(turbine, year, fastest, k == 0, &area)?;
    }
    root.present()?;
    Ok(())
}

fn panel(
    turbine: &Turbine,
    year: &Year,
    fastest: f64,
    legend: bool,
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
) -> Result<(), Box<dyn std::error::Error>> {
    let bins = turbine.by_speed(year);
    let most = bins.iter().map(|b| b.2).fold(0.0, f64::max);
    let power = turbine.points.iter().map(|p| p.1).fold(0.0, f64::max);
    let top = |value: f64| if value > 0.0 { value * 1.15 } else { 1.0 };
    let mut chart = ChartBuilder::on(area)
        .caption(
            format!("{}: {:.2} MWh", turbine.name, year.mwh),
            ("sans-serif", 20),
        )
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(70)
        .right_y_label_area_size(70)
        .build_cartesian_2d(0.0..fastest, 0.0..top(power))?
        .set_secondary_coord(0.0..fastest, 0.0..top(most));
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .x_desc("wind speed (m/s)")
        .y_desc("power (kW)")
        .x_labels(fastest as usize + 1)
        .y_labels(6)
        .label_style(("sans-serif", 14))
        .axis_desc_style(("sans-serif", 15))
        .x_label_formatter(&|v| format!("{v:.0}"))
        .y_label_formatter(&|v| format!("{v:.0}"))
        .draw()?;
    chart
        .configure_secondary_axes()
        .y_desc("energy earned (MWh)")
        .y_labels(6)
        .label_style(("sans-serif", 14))
        .axis_desc_style(("sans-serif", 15, &EARNED_TEXT))
        .y_label_formatter(&|v| {
            if most < 10.0 {
                format!("{v:.1}")
            } else {
                format!("{v:.0}")
            }
        })
        .draw()?;
    chart
        .draw_secondary_series(bins.iter().map(|&(at, _, mwh)| {
            let at = at as f64;
            Rectangle::new(
                [(at - 0.4, 0.0), (at + 0.4, mwh)],
                EARNED.mix(0.75).filled(),
            )
        }))?
        .label("energy earned around each m/s")
        .legend(|(x, y)| Rectangle::new([(x, y - 5), (x + 18, y + 5)], EARNED.mix(0.75).filled()));
    // Straight down to zero at the ends: the turbine stands still outside.
    let points = turbine.points.iter().copied();
    let curve = [(0.0, 0.0), (turbine.first, 0.0)]
        .into_iter()
        .chain(points)
        .chain([(turbine.last, 0.0), (fastest, 0.0)]);
    chart
        .draw_series(LineSeries::new(curve, CURVE.stroke_width(2)))?
        .label("power curve")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], CURVE.stroke_width(2)));
    if legend {
        chart
            .configure_series_labels()
            // Below the plateau of the curve, right of the speeds that earn most.
            .position(SeriesLabelPosition::Coordinate(520, 90))
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.3))
            .label_font(("sans-serif", 14))
            .draw()?;
    }
    Ok(())
}
