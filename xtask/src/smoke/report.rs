//! The table: what the rows assume, what was found.

use super::facts::Facts;
use super::install::{CLIS, SDK_VERSION};
use super::rows::{AREAS, Area, NOTHING, Row};
use super::types::Types;
use crate::table;

/// One binary.
pub(super) struct Column {
    pub(super) title: String,
    /// Whether it is one of the releases this is made for.
    pub(super) pinned: bool,
    pub(super) facts: Facts,
    /// Errors that prevented scenarios from finishing.
    pub(super) errors: Vec<String>,
}

impl Column {
    /// The result of a row; `None` if only the types can show it.
    fn cell(&self, row: &Row) -> Option<Cell> {
        let assumed = row.assumed_of(&self.title)?;
        let found = self.facts.found(row.name);
        Some(Cell {
            found: found.to_owned(),
            // Another binary has another release, which is expected.
            holds: found == assumed || (!self.pinned && row.names_the_release()),
        })
    }

    /// The rows that were looked at and are not as assumed, a line each.
    pub(super) fn drift(&self) -> Vec<String> {
        let rows = AREAS.iter().flat_map(|area| area.rows);
        let seen = rows.filter(|row| self.facts.has(row.name));
        seen.filter_map(|row| {
            let cell = self.cell(row).filter(|cell| !cell.holds)?;
            let assumed = row.assumed_of(&self.title).unwrap_or(NOTHING);
            Some(format!(
                "{}: `{}`: assumed `{assumed}`, found `{}`",
                self.title, row.name, cell.found
            ))
        })
        .collect()
    }
}

/// All rows, judged.
pub(super) struct Report {
    titles: Vec<String>,
    areas: Vec<(&'static Area, Vec<Judged>)>,
}

struct Judged {
    row: &'static Row,
    /// One per binary.
    cells: Vec<Cell>,
    /// The result from the SDK's types, if they have one.
    types: Option<Cell>,
}

struct Cell {
    found: String,
    holds: bool,
}

impl Report {
    pub(super) fn new(columns: &[Column], types: &Types) -> Self {
        let judged = |row: &'static Row| {
            let cells = columns.iter().map(|column| {
                column.cell(row).unwrap_or(Cell {
                    found: NOTHING.to_owned(),
                    holds: true,
                })
            });
            Judged {
                row,
                cells: cells.collect(),
                types: row.types.map(|(name, member)| {
                    let holds = types.publishes(name, member);
                    Cell {
                        found: if holds {
                            format!("`{name}`")
                        } else {
                            format!("not in `{name}`")
                        },
                        holds,
                    }
                }),
            }
        };
        Self {
            titles: columns.iter().map(|column| column.title.clone()).collect(),
            areas: AREAS
                .iter()
                .map(|area| (area, area.rows.iter().map(judged).collect()))
                .collect(),
        }
    }

    /// How many rows are not as assumed.
    pub(super) fn drifted(&self) -> usize {
        self.rows().filter(|judged| !judged.holds()).count()
    }

    pub(super) fn print(&self) {
        let rows: Vec<[String; 4]> = self
            .rows()
            .map(|judged| {
                let mark = if judged.holds() { "" } else { "DRIFT" };
                [
                    judged.row.name.to_owned(),
                    judged.assumed(&self.titles),
                    judged.found(&self.titles),
                    mark.to_owned(),
                ]
            })
            .collect();
        table::print(["name", "assumed", "found", ""], &rows);
        println!("\n{} names, {} drifted", rows.len(), self.drifted());
    }

    /// The document.
    pub(super) fn markdown(&self) -> String {
        let mut text = format!(
            "# The CLI of Claude Code, as it is\n\n\
             What HoloDeck relies on, and what was found: {} on the real binary, against a scripted server on loopback,\n\
             and in the published types of the SDK {SDK_VERSION}. `cargo xtask smoke` checks all of it and fails when\n\
             anything differs from what the product assumes (`xtask/src/smoke/rows`); `--write` writes this page.\n\
             The last column names the declaration that publishes a name; `–` is what is not published, or what no\n\
             scenario shows. A type (`string`, `array`, …) is that of a field.\n",
            CLIS.map(|pin| pin.version).join(" and "),
        );
        for (area, rows) in &self.areas {
            let titles: Vec<String> = self.titles.iter().map(|title| format!("found {title}")).collect();
            text.extend([
                format!("\n## {}\n\n{}\n\n", area.title, area.about),
                format!("| name | {} | SDK |\n", titles.join(" | ")),
                format!("|{}\n", "---|".repeat(self.titles.len() + 2)),
            ]);
            for judged in rows {
                let cells: Vec<String> = judged.cells.iter().map(|cell| escaped(&cell.found)).collect();
                let types = judged.types.as_ref().map_or(NOTHING, |cell| cell.found.as_str());
                let name = judged.row.name.replace('|', "\\|");
                text.extend([format!("| `{name}` | {} | {types} |\n", cells.join(" | "))]);
            }
        }
        text
    }

    fn rows(&self) -> impl Iterator<Item = &Judged> {
        self.areas.iter().flat_map(|(_, rows)| rows)
    }
}

impl Judged {
    fn holds(&self) -> bool {
        self.cells.iter().chain(&self.types).all(|cell| cell.holds)
    }

    fn assumed(&self, titles: &[String]) -> String {
        let by_title = titles
            .iter()
            .map(|title| self.row.assumed_of(title).unwrap_or(NOTHING));
        let types = self.row.types.map(|(name, _)| format!("in `{name}`"));
        summed_up(titles, by_title.map(str::to_owned), types)
    }

    fn found(&self, titles: &[String]) -> String {
        let cells = self.cells.iter().map(|cell| cell.found.clone());
        let types = self.types.as_ref().map(|cell| {
            if cell.holds {
                format!("in {}", cell.found)
            } else {
                cell.found.clone()
            }
        });
        summed_up(titles, cells, types)
    }
}

/// The behaviour of each binary, once if they agree, and the result from the types.
fn summed_up(titles: &[String], each: impl Iterator<Item = String>, types: Option<String>) -> String {
    let each: Vec<String> = each.collect();
    let mut texts: Vec<String> = match each.split_first() {
        Some((first, rest)) if rest.iter().all(|text| text == first) => vec![first.clone()],
        _ => titles
            .iter()
            .zip(&each)
            .map(|(title, text)| format!("{title}: {text}"))
            .collect(),
    };
    texts.retain(|text| text != NOTHING);
    texts.extend(types);
    texts.join("; ")
}

fn escaped(cell: &str) -> String {
    cell.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}
