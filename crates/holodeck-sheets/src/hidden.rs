//! The rows and columns of a workbook that its sheet does not show: hidden by hand, by a filter or a group, or without
//! height or width. The reader of workbooks does not tell them from others.

use std::{
    collections::{BTreeSet, HashMap},
    fmt::Write as _,
    io::{BufReader, Cursor, Read},
};

use quick_xml::{
    Reader, XmlVersion,
    events::{BytesStart, Event},
};
use zip::{ZipArchive, read::ZipFile, result::ZipError};

/// Rows and columns of the largest sheet that Excel writes.
const MOST_ROWS: u32 = 1_048_576;
const MOST_COLUMNS: u32 = 16_384;

/// Groups of neighbours that are named.
const MOST_NAMED: usize = 8;

/// The rows and columns that a sheet hides, counted from 0, and those of them in which a value was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HiddenLines {
    rows: BTreeSet<u32>,
    columns: BTreeSet<u32>,
    seen_rows: BTreeSet<u32>,
    seen_columns: BTreeSet<u32>,
}

impl HiddenLines {
    /// Reads those of a sheet of an Excel workbook. No part of it is expanded beyond the size that it declares.
    pub fn read(workbook: &[u8], sheet: &str) -> Result<Self, String> {
        let mut parts = Parts::open(workbook)?;
        let path = parts.path_of(sheet)?;
        let mut lines = Self::default();
        // The row that is open, and the number of the next one.
        let (mut is_hidden_row, mut next) = (false, 0);
        parts.each(&path, |element| match element.local_name().as_ref() {
            "col" if is_hidden(element, "width") => {
                let number = |name| get(element, name).and_then(|text| text.parse::<u32>().ok());
                if let (Some(first), Some(last)) = (number("min"), number("max")) {
                    let columns = first.max(1)..=last.min(MOST_COLUMNS);
                    lines.columns.extend(columns.map(|column| column - 1));
                }
            }
            "row" => {
                let number = get(element, "r").and_then(|text| text.parse::<u32>().ok());
                let row = number.map_or(next, |number| number.saturating_sub(1));
                next = row.saturating_add(1);
                is_hidden_row = is_hidden(element, "ht");
                if is_hidden_row && row < MOST_ROWS {
                    lines.rows.insert(row);
                }
            }
            // The place of a cell is its own, whatever the number of its row is.
            "c" if is_hidden_row => {
                let place = get(element, "r").unwrap_or_default();
                let row = place.trim_start_matches(|c: char| c.is_ascii_alphabetic());
                let row = row.parse::<u32>().ok().and_then(|row| row.checked_sub(1));
                lines.rows.extend(row.filter(|row| *row < MOST_ROWS));
            }
            _ => {}
        })?;
        Ok(lines)
    }

    /// Reads those of a sheet of an OpenDocument spreadsheet.
    pub fn read_open_document(spreadsheet: &[u8], sheet: &str) -> Result<Self, String> {
        let mut lines = Self::default();
        let (mut is_sheet, mut row, mut column) = (false, 0_u32, 0_u32);
        Parts::open(spreadsheet)?.each("content.xml", |element| {
            let times = |name| {
                get(element, name)
                    .and_then(|text| text.parse::<u32>().ok())
                    .unwrap_or(1)
            };
            let is_hidden = get(element, "visibility").is_some_and(|how| how != "visible");
            match element.local_name().as_ref() {
                "table" => {
                    is_sheet = get(element, "name").is_some_and(|name| name == sheet);
                    (row, column) = (0, 0);
                }
                "table-row" if is_sheet => {
                    let end = row.saturating_add(times("number-rows-repeated"));
                    if is_hidden {
                        lines.rows.extend(row..end.min(MOST_ROWS));
                    }
                    row = end;
                }
                "table-column" if is_sheet => {
                    let end = column.saturating_add(times("number-columns-repeated"));
                    if is_hidden {
                        lines.columns.extend(column..end.min(MOST_COLUMNS));
                    }
                    column = end;
                }
                _ => {}
            }
        })?;
        Ok(lines)
    }

    /// Notes that a cell has a value.
    pub fn see(&mut self, row: u32, column: u32) {
        if self.rows.contains(&row) {
            self.seen_rows.insert(row);
        }
        if self.columns.contains(&column) {
            self.seen_columns.insert(column);
        }
    }

    /// The names of the hidden rows and columns in which a value was seen: `rows 3 to 5, 9 and column B`.
    pub fn seen(&self) -> Option<String> {
        let rows = named("row", &self.seen_rows, |row| (u64::from(row) + 1).to_string());
        let columns = named("column", &self.seen_columns, letters);
        match (rows, columns) {
            (Some(rows), Some(columns)) => Some(format!("{rows} and {columns}")),
            (rows, columns) => rows.or(columns),
        }
    }
}

/// The letters of a column, counted from 0.
pub fn letters(column: u32) -> String {
    let mut letters = String::new();
    let mut rest = u64::from(column) + 1;
    while rest > 0 {
        let letter = u8::try_from((rest - 1) % 26).unwrap_or_default();
        letters.insert(0, char::from(b'A' + letter));
        rest = (rest - 1) / 26;
    }
    letters
}

/// The names of some lines, with neighbours together.
fn named(kind: &str, lines: &BTreeSet<u32>, name: impl Fn(u32) -> String) -> Option<String> {
    let mut groups: Vec<(u32, u32)> = Vec::new();
    for line in lines {
        match groups.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*line) => *last = *line,
            _ => groups.push((*line, *line)),
        }
    }
    if groups.is_empty() {
        return None;
    }
    let mut text = format!("{kind}{} ", if lines.len() == 1 { "" } else { "s" });
    for (at, (first, last)) in groups.iter().take(MOST_NAMED).enumerate() {
        text.push_str(if at == 0 { "" } else { ", " });
        text.push_str(&name(*first));
        if first < last {
            let _ = write!(text, " to {}", name(*last));
        }
    }
    let rest: u32 = groups
        .iter()
        .skip(MOST_NAMED)
        .map(|(first, last)| last - first + 1)
        .sum();
    if rest > 0 {
        let _ = write!(text, " and {rest} more");
    }
    Some(text)
}

/// Whether a row or column is hidden, or has no size.
fn is_hidden(element: &BytesStart<'_>, size: &str) -> bool {
    let is_true = |text: String| matches!(text.trim(), "1" | "true");
    let is_zero = |text: String| text.trim().parse().is_ok_and(|size: f64| size == 0.0);
    get(element, "hidden").is_some_and(is_true) || get(element, size).is_some_and(is_zero)
}

/// An attribute by its local name.
fn get(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let mut attributes = element.attributes();
    let mut sound = attributes.with_checks(false).flatten();
    let attribute = sound.find(|attribute| attribute.key.local_name().into_inner() == name)?;
    let value = attribute.normalized_value(XmlVersion::Implicit1_0).ok()?;
    Some(value.into_owned())
}

/// The parts of a workbook, by their names in lower case.
struct Parts<'a> {
    archive: ZipArchive<Cursor<&'a [u8]>>,
    places: HashMap<String, usize>,
}

impl<'a> Parts<'a> {
    fn open(workbook: &'a [u8]) -> Result<Self, String> {
        let archive = ZipArchive::new(Cursor::new(workbook)).map_err(|error| error.to_string())?;
        let names = archive.file_names_raw().enumerate();
        let places = names.map(|(at, name)| {
            let name = String::from_utf8_lossy(name);
            (name.replace('\\', "/").to_ascii_lowercase(), at)
        });
        let places = places.collect();
        Ok(Self { archive, places })
    }

    fn part(&mut self, name: &str) -> Result<ZipFile<'_, Cursor<&'a [u8]>>, String> {
        let place = self.places.get(&name.to_ascii_lowercase());
        let place = place.ok_or_else(|| format!("{name} is missing"))?;
        let part: Result<_, ZipError> = self.archive.by_index(*place);
        part.map_err(|error| format!("{name}: {error}"))
    }

    /// Shows every element of a part.
    fn each(&mut self, name: &str, mut see: impl FnMut(&BytesStart<'_>)) -> Result<(), String> {
        let part: &mut dyn Read = &mut self.part(name)?;
        let mut reader = Reader::from_reader(BufReader::new(part));
        // The reader of workbooks is as tolerant.
        reader.config_mut().check_end_names = false;
        let mut buffer = Vec::new();
        loop {
            buffer.clear();
            match reader.read_event_into(&mut buffer) {
                Ok(Event::Start(element) | Event::Empty(element)) => see(&element),
                Ok(Event::Eof) => return Ok(()),
                Ok(_) => {}
                Err(error) => return Err(format!("{name}: {error}")),
            }
        }
    }

    /// The part with a sheet. The first of several with the name, as the reader of workbooks takes it.
    fn path_of(&mut self, sheet: &str) -> Result<String, String> {
        let mut book = None;
        self.each("_rels/.rels", |element| {
            let is_book =
                get(element, "Type").is_some_and(|kind| kind.ends_with("/relationships/officeDocument"));
            if is_book && element.local_name().as_ref() == "Relationship" {
                book = get(element, "Target").or(book.take());
            }
        })?;
        let book = book.ok_or("it names no workbook")?;
        let book = book.strip_prefix('/').unwrap_or(&book);
        let (folder, file) = book
            .rsplit_once('/')
            .map_or(("", book), |(folder, file)| (folder, file));
        let within = |path: &str| match path.strip_prefix('/') {
            Some(absolute) => absolute.to_owned(),
            None if folder.is_empty() => path.to_owned(),
            None => format!("{folder}/{path}"),
        };
        let mut id = None;
        self.each(book, |element| {
            let is_sheet = element.local_name().as_ref() == "sheet"
                && get(element, "name").is_some_and(|name| name == sheet);
            if is_sheet && id.is_none() {
                id = relation_of(element);
            }
        })?;
        let id = id.ok_or_else(|| format!("its workbook has no sheet `{sheet}`"))?;
        let mut path = None;
        self.each(&within(&format!("_rels/{file}.rels")), |element| {
            if element.local_name().as_ref() == "Relationship" && get(element, "Id").as_ref() == Some(&id) {
                path = get(element, "Target");
            }
        })?;
        path.map(|path| within(&path))
            .ok_or_else(|| format!("its sheet `{sheet}` has no part"))
    }
}

/// The relation that a sheet names: `r:id`, and not its `sheetId`.
fn relation_of(element: &BytesStart<'_>) -> Option<String> {
    let mut attributes = element.attributes();
    let sound = attributes.with_checks(false).flatten();
    let ids = sound.filter(|attribute| attribute.key.local_name().into_inner() == "id");
    let value = ids.last()?.normalized_value(XmlVersion::Implicit1_0).ok()?;
    Some(value.into_owned())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use pretty_assertions::assert_eq;

    use super::*;

    fn seen(rows: &[u32], columns: &[u32]) -> Option<String> {
        let lines = HiddenLines {
            seen_rows: rows.iter().copied().collect(),
            seen_columns: columns.iter().copied().collect(),
            ..HiddenLines::default()
        };
        lines.seen()
    }

    #[test]
    fn neighbours_are_named_together() {
        assert_eq!(seen(&[], &[]), None);
        assert_eq!(seen(&[4], &[]).unwrap(), "row 5");
        assert_eq!(seen(&[2, 3, 4, 8], &[]).unwrap(), "rows 3 to 5, 9");
        assert_eq!(seen(&[], &[1, 2, 26]).unwrap(), "columns B to C, AA");
        assert_eq!(seen(&[0], &[25]).unwrap(), "row 1 and column Z");
        let many: Vec<u32> = (0..40).step_by(2).collect();
        assert_eq!(
            seen(&many, &[]).unwrap(),
            "rows 1, 3, 5, 7, 9, 11, 13, 15 and 12 more"
        );
    }

    #[test]
    fn columns_have_the_names_of_spreadsheets() {
        let names = [0, 25, 26, 701, 702, 16_383].map(letters);
        assert_eq!(names, ["A", "Z", "AA", "ZZ", "AAA", "XFD"]);
    }

    #[test]
    fn only_lines_with_a_value_are_seen() {
        let mut lines = HiddenLines {
            rows: [1, 7].into(),
            columns: [2].into(),
            ..HiddenLines::default()
        };
        lines.see(0, 0);
        lines.see(2, 1);
        assert_eq!(lines.seen(), None);
        lines.see(7, 0);
        assert_eq!(lines.seen().unwrap(), "row 8");
        lines.see(0, 2);
        assert_eq!(lines.seen().unwrap(), "row 8 and column C");
    }

    fn packed(parts: &[(&str, &str)]) -> Vec<u8> {
        let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, text) in parts {
            archive
                .start_file(*name, zip::write::SimpleFileOptions::default())
                .unwrap();
            archive.write_all(text.as_bytes()).unwrap();
        }
        archive.finish().unwrap().into_inner()
    }

    /// A workbook whose second sheet has this content.
    fn workbook(content: &str) -> Vec<u8> {
        let relation = |id: &str, kind: &str, target: &str| {
            format!("<Relationship Id=\"{id}\" Type=\"http://x/relationships/{kind}\" Target=\"{target}\"/>")
        };
        let all = |relations: &[String]| format!("<Relationships>{}</Relationships>", relations.concat());
        let first = "<worksheet><sheetData><row r=\"2\" hidden=\"1\"/></sheetData></worksheet>";
        packed(&[
            (
                "_rels/.rels",
                &all(&[relation("a", "officeDocument", "/xl/Book.xml")]),
            ),
            (
                "xl/book.xml",
                "<workbook><sheets><sheet name=\"other\" sheetId=\"2\" r:id=\"r1\"/><sheet sheetId=\"1\" r:id=\"r2\" \
                 name=\"a &amp; b\"/><sheet name=\"a &amp; b\" r:id=\"r1\"/></sheets></workbook>",
            ),
            (
                "xl/_rels/Book.xml.rels",
                &all(&[
                    relation("r1", "worksheet", "worksheets/sheet1.xml"),
                    relation("r2", "worksheet", "/xl/worksheets/sheet2.xml"),
                ]),
            ),
            ("xl/worksheets/sheet1.xml", first),
            ("xl/worksheets/sheet2.xml", content),
        ])
    }

    /// The hidden rows and columns among the first ten of each.
    fn hidden(lines: Result<HiddenLines, String>) -> Option<String> {
        let mut lines = lines.unwrap();
        for line in 0..10 {
            lines.see(line, line);
        }
        lines.seen()
    }

    #[test]
    fn every_way_to_hide_a_row_or_a_column_is_known() {
        let ways = [
            (" hidden=\"1\"", true),
            (" hidden='true'", true),
            (" hidden=\"0\"", false),
            (" hidden=\"false\"", false),
            ("", false),
            (" collapsed=\"1\"", false),
            (" hiddenX=\"1\"", false),
        ];
        for (way, is_hidden) in ways {
            for (before, after) in [("", ""), ("x:", "")] {
                for (open, close) in [(">", "</row>"), ("/>", "")] {
                    let close = close.replace("</", &format!("</{before}"));
                    let row = |number: &str, way: &str| {
                        format!("<{before}row{number} spans=\"1:2\"{way}{open}{close}{after}")
                    };
                    let numbered = [
                        row(" r=\"4\"", ""),
                        row(" r=\"6\"", way),
                        row("", way),
                        row("", ""),
                    ]
                    .concat();
                    let sheet = format!(
                        "<{before}worksheet><{before}sheetData>{numbered}</{before}sheetData></{before}worksheet>"
                    );
                    let found = hidden(HiddenLines::read(&workbook(&sheet), "a & b"));
                    assert_eq!(found.as_deref(), is_hidden.then_some("rows 6 to 7"), "{sheet}");
                }
                let cols = format!(
                    "<{before}cols><{before}col min=\"2\" max=\"3\" width=\"9\"{way}/></{before}cols>"
                );
                let found = hidden(HiddenLines::read(&workbook(&cols), "a & b"));
                assert_eq!(found.as_deref(), is_hidden.then_some("columns B to C"), "{cols}");
            }
        }
        for (sheet, lines) in [
            ("<row r=\"3\" ht=\"0\" customHeight=\"1\"/>", Some("row 3")),
            ("<row r=\"3\" ht=\"15\"/>", None),
            ("<col min=\"4\" max=\"4\" width=\"0.0\"/>", Some("column D")),
            (
                "<col min=\"1\" max=\"99999999\" hidden=\"1\"/>",
                Some("columns A to J"),
            ),
            ("<col min=\"5\" max=\"2\" hidden=\"1\"/>", None),
            (
                "<row r=\"4294967295\" hidden=\"1\"/><row r=\"x\" hidden=\"1\"/>",
                None,
            ),
            (
                "<row r=\"3\" hidden=\"1\"><c r=\"B9\"/></row><row><c r=\"C6\"/></row>",
                Some("rows 3, 9"),
            ),
        ] {
            assert_eq!(
                hidden(HiddenLines::read(&workbook(sheet), "a & b")).as_deref(),
                lines,
                "{sheet}"
            );
        }
        assert_eq!(
            hidden(HiddenLines::read(&workbook(""), "other")).unwrap(),
            "row 2"
        );
        assert!(HiddenLines::read(&workbook(""), "missing").is_err());
        assert!(HiddenLines::read(&workbook("<row r=\"1\" <"), "a & b").is_err());
    }

    #[test]
    fn rows_and_columns_of_an_open_document_are_known_too() {
        let visible = "<table:table-row/>";
        for (how, is_hidden) in [("collapse", true), ("filter", true), ("visible", false)] {
            let hide = format!("table:visibility=\"{how}\"");
            let content = format!(
                "<office:spreadsheet><table:table table:name=\"x\"><table:table-row {hide}/></table:table>\
                 <table:table table:name=\"y\"><table:table-column table:number-columns-repeated=\"2\"/>\
                 <table:table-column {hide}/><table:table-row table:number-rows-repeated=\"3\"/>\
                 <table:table-row {hide} table:number-rows-repeated=\"2\"><table:table-cell/></table:table-row>{visible}\
                 </table:table></office:spreadsheet>"
            );
            let file = packed(&[("content.xml", &content)]);
            let found = hidden(HiddenLines::read_open_document(&file, "y"));
            assert_eq!(found.as_deref(), is_hidden.then_some("rows 4 to 5 and column C"));
        }
    }

    #[test]
    fn a_file_that_is_not_a_workbook_is_an_error() {
        assert!(HiddenLines::read(b"PK", "a").is_err());
        assert!(HiddenLines::read(b"", "a").is_err());
    }
}
