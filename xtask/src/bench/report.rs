//! The figures as Markdown, beside the budgets.

use std::time::Duration;

use anyhow::{Context as _, Result};

use super::figures::{Figures, grouped, megabytes, time, times};
use super::{Compared, Measured, ONE, TEN_THOUSAND, THOUSAND, WAITING};

const MEGABYTE: u64 = 1_000_000;

/// The text between the markers.
pub(super) fn render(measured: &Measured) -> String {
    let mut text = format!(
        "{} Medians of {} runs, least and greatest in brackets.\n\n",
        measured.machine.describe(),
        measured.runs
    );
    text += &budget_table(budgets(measured));
    text.push('\n');
    text += &table(
        ["work", "program", "CPU", "wall", "peak memory"],
        details(measured),
    );
    text.push('\n');
    text += &server_note(measured);
    text
}

/// `document` with `text` between the markers of `command`.
pub(super) fn insert(document: &str, command: &str, text: &str) -> Result<String> {
    let begin = format!("<!-- {command} -->\n");
    let end = format!("<!-- end of {command} -->\n");
    let (before, rest) = document.split_once(&begin).context("no marker to write after")?;
    let (_, after) = rest.split_once(&end).context("no marker to write before")?;
    Ok(format!("{before}{begin}\n{text}\n{end}{after}"))
}

/// A figure beside what it may be at most, or must be at least.
pub(super) struct Budget {
    pub(super) work: String,
    pub(super) limit: String,
    pub(super) found: String,
    pub(super) met: bool,
}

/// The budgets as a table.
pub(super) fn budget_table(budgets: Vec<Budget>) -> String {
    let rows = budgets.into_iter().map(|budget| {
        let met = if budget.met { "yes" } else { "**no**" };
        [budget.work, budget.limit, budget.found, met.to_owned()]
    });
    table(["budget", "limit", "measured", "met"], rows)
}

/// A figure that must not be greater.
pub(super) fn at_most(work: &str, found: f64, limit: f64, unit: &str) -> Budget {
    Budget {
        work: work.to_owned(),
        limit: format!("≤ {limit} {unit}"),
        found: format!("{found:.1} {unit}"),
        met: found <= limit,
    }
}

/// A figure that must not be less.
pub(super) fn at_least(work: &str, found: f64, limit: f64, unit: &str) -> Budget {
    Budget {
        work: work.to_owned(),
        limit: format!("≥ {limit} {unit}"),
        found: format!("{found:.1} {unit}"),
        met: found >= limit,
    }
}

/// The table of the design's budgets, as far as this bench measures them.
fn budgets(measured: &Measured) -> Vec<Budget> {
    let [_, version] = &measured.start;
    let ms = Duration::from_millis;
    let mut budgets = vec![in_time(
        "`holodeck --version`, CPU".to_owned(),
        version.cpu.median,
        ms(5),
    )];
    let of = |load: super::Load| measured.of(load).map(|compared| &compared.product);
    if let Some(product) = of(ONE) {
        budgets.push(in_time(
            format!("{}, CPU", ONE.describe()),
            product.cpu.median,
            ms(20),
        ));
    }
    if let Some(product) = of(THOUSAND) {
        let work = format!("{}, CPU", THOUSAND.describe());
        budgets.push(in_time(work, product.cpu.median, ms(150)));
    }
    if let Some(product) = of(WAITING) {
        let work = format!("{}, wall", WAITING.describe());
        budgets.push(in_time(work, product.wall.median, ms(5_200)));
    }
    if let Some(product) = of(TEN_THOUSAND) {
        let work = TEN_THOUSAND.describe();
        budgets.push(in_time(format!("{work}, CPU"), product.cpu.median, ms(1_500)));
        let peak = product.peak_bytes.median;
        budgets.push(in_bytes(format!("{work}, peak memory"), peak, 40 * MEGABYTE));
        // At the same concurrency: what a connection holds is not of the cases.
        if let Some(fewer) = of(WAITING) {
            let more = peak.saturating_sub(fewer.peak_bytes.median);
            let work = format!(
                "peak memory of {} cases above that of {}",
                grouped(TEN_THOUSAND.cases),
                grouped(WAITING.cases)
            );
            budgets.push(in_bytes(work, more, 10 * MEGABYTE));
        }
    }
    budgets
}

fn in_time(work: String, found: Duration, limit: Duration) -> Budget {
    Budget {
        work,
        limit: format!("≤ {}", time(limit)),
        found: time(found),
        met: found <= limit,
    }
}

fn in_bytes(work: String, found: u64, limit: u64) -> Budget {
    Budget {
        work,
        limit: format!("≤ {}", megabytes(limit)),
        found: megabytes(found),
        met: found <= limit,
    }
}

fn details(measured: &Measured) -> Vec<[String; 5]> {
    let row = |work: &str, program: &str, figures: &Figures| {
        [
            work.to_owned(),
            program.to_owned(),
            times(figures.cpu),
            times(figures.wall),
            megabytes(figures.peak_bytes.median),
        ]
    };
    let [nothing, version] = &measured.start;
    let mut rows = vec![
        row("start and end", "floor", nothing),
        row("", "`holodeck --version`", version),
    ];
    for Compared { load, floor, product } in &measured.loads {
        rows.push(row(&load.describe(), "floor", floor));
        rows.push(row("", "`holodeck test`", product));
    }
    let work = format!("{} cases", grouped(TEN_THOUSAND.cases));
    rows.push(row(&work, "`holodeck validate`", &measured.validate));
    rows
}

/// How much more the server could have served.
fn server_note(measured: &Measured) -> String {
    let Some(Compared { load, floor, product }) = measured.of(TEN_THOUSAND) else {
        return String::new();
    };
    let per_second = |figures: &Figures| {
        let micros = usize::try_from(figures.wall.median.as_micros()).unwrap_or(usize::MAX);
        grouped(load.cases * 1_000_000 / micros.max(1))
    };
    format!(
        "The server is not the bottleneck: it answers the floor client {} times a second, and `holodeck test` asks \
         {} times a second.\n",
        per_second(floor),
        per_second(product)
    )
}

/// A table in Markdown.
pub(super) fn table<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = line(&header.map(str::to_owned));
    text.push('|');
    text += &"---|".repeat(N);
    text.push('\n');
    for row in rows {
        text += &line(&row);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::insert;

    #[test]
    fn the_text_replaces_what_is_between_the_markers() {
        let document = "# Speed\n<!-- x -->\nold\n<!-- end of x -->\nafter\n";
        let once = insert(document, "x", "new\n").unwrap();
        assert_eq!(once, "# Speed\n<!-- x -->\n\nnew\n\n<!-- end of x -->\nafter\n");
        assert_eq!(insert(&once, "x", "new\n").unwrap(), once);
        assert!(insert("no markers", "x", "new").is_err());
    }
}
