//! Workbooks that are small on disk and large in memory.

use std::path::Path;

use holodeck_model::{Diagnostic, Env, MemoryFiles};
use holodeck_yaml::load_agent;

use crate::support::render;

/// The errors of an agent whose cases are in this workbook.
fn errors(workbook: Vec<u8>) -> String {
    let agent =
        "name: a\nmodel: {provider: openai, name: m}\ninstructions: {inline: Hi}\ntest_cases_file: c.xlsx\n";
    let files = MemoryFiles::new()
        .with("agent.yaml", agent)
        .with("c.xlsx", workbook);
    let load = load_agent(Path::new("agent.yaml"), &Env::empty(), &files);
    let mut found = load.diagnostics;
    found.retain(Diagnostic::is_error);
    assert_eq!(load.agent.is_none(), !found.is_empty());
    render(&found)
}

/// A file in an archive; `size` is what the directory declares.
struct Part<'a> {
    name: &'a str,
    method: u16,
    data: Vec<u8>,
    size: usize,
}

fn stored<'a>(name: &'a str, text: &str) -> Part<'a> {
    Part {
        name,
        method: 0,
        data: text.as_bytes().to_vec(),
        size: text.len(),
    }
}

/// An archive with exactly these parts.
fn packed(parts: &[Part<'_>]) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    let four = |number: usize| u32::try_from(number).unwrap().to_le_bytes();
    let two = |number: usize| u16::try_from(number).unwrap().to_le_bytes();
    for part in parts {
        let at = archive.len();
        let mut about = vec![20, 0, 0, 0];
        about.extend(part.method.to_le_bytes());
        about.extend([0; 4]);
        about.extend(checksum(part).to_le_bytes());
        about.extend(four(part.data.len()));
        about.extend(four(part.size));
        about.extend(two(part.name.len()));
        about.extend([0; 2]);
        archive.extend(b"PK\x03\x04");
        archive.extend(&about);
        archive.extend(part.name.as_bytes());
        archive.extend(&part.data);
        directory.extend(b"PK\x01\x02\x14\0");
        directory.extend(about);
        directory.extend([0; 10]);
        directory.extend(four(at));
        directory.extend(part.name.as_bytes());
    }
    let at = archive.len();
    archive.extend(&directory);
    archive.extend(b"PK\x05\x06\0\0\0\0");
    archive.extend([two(parts.len()), two(parts.len())].concat());
    archive.extend(four(directory.len()));
    archive.extend(four(at));
    archive.extend([0; 2]);
    archive
}

/// The CRC-32 of a stored part; bombs never get as far as theirs.
fn checksum(part: &Part<'_>) -> u32 {
    if part.method != 0 {
        return 0;
    }
    let step = |crc: u32, byte: &u8| {
        let start = crc ^ u32::from(*byte);
        (0..8).fold(start, |crc, _| (crc >> 1) ^ (0xEDB8_8320 * (crc & 1)))
    };
    !part.data.iter().fold(u32::MAX, step)
}

const RELATIONS: &str = r#"<Relationships><Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/></Relationships>"#;
const ROOT: &str = r#"<Relationships><Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>"#;
const BOOK: &str =
    r#"<workbook xmlns:r="r"><sheets><sheet name="cases" sheetId="1" r:id="r1"/></sheets></workbook>"#;

fn workbook(sheet: Part<'_>, texts: Option<&str>) -> Vec<u8> {
    let mut parts = vec![
        stored("_rels/.rels", ROOT),
        stored("xl/workbook.xml", BOOK),
        stored("xl/_rels/workbook.xml.rels", RELATIONS),
        sheet,
    ];
    parts.extend(texts.map(|texts| stored("xl/SharedStrings.xml", texts)));
    packed(&parts)
}

const SHEET: &str = "xl/worksheets/sheet1.xml";

/// A deflated run of zeros: one, and then repeats of 258 bytes.
fn zeros(length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length / 150);
    let (mut bits, mut count) = (0_u32, 0);
    let mut write = |code: u32, length: u32| {
        bits |= code << count;
        count += length;
        while count >= 8 {
            bytes.push(bits.to_le_bytes()[0]);
            bits >>= 8;
            count -= 8;
        }
    };
    let reversed = |code: u32, length: u32| code.reverse_bits() >> (32 - length);
    write(0b011, 3);
    write(reversed(0x30, 8), 8);
    for _ in 0..length / 258 {
        write(reversed(0b1100_0101, 8), 8);
        write(0, 5);
    }
    write(0, 7);
    write(0, 8);
    bytes
}

/// A workbook with these formats of numbers, by their place, and these rows of cells.
fn formatted(formats: &[&str], state: &str, rows: &str) -> Vec<u8> {
    let custom = formats.iter().enumerate().map(|(at, code)| {
        let code = code
            .replace('&', "&amp;")
            .replace('"', "&quot;")
            .replace('<', "&lt;");
        format!("<numFmt numFmtId=\"{}\" formatCode=\"{code}\"/>", at + 164)
    });
    let custom: String = custom.collect();
    let used: String = (0..formats.len())
        .map(|at| format!("<xf numFmtId=\"{}\"/>", at + 164))
        .collect();
    let styles = format!(
        "<styleSheet><numFmts>{custom}</numFmts><cellXfs><xf numFmtId=\"0\"/>{used}<xf numFmtId=\"10\"/><xf \
         numFmtId=\"5\"/></cellXfs></styleSheet>"
    );
    let book = BOOK.replace("<sheet name", &format!("<sheet {state} name"));
    packed(&[
        stored("_rels/.rels", ROOT),
        stored("xl/workbook.xml", &book),
        stored("xl/_rels/workbook.xml.rels", RELATIONS),
        stored("xl/styles.xml", &styles),
        stored(SHEET, &sheet(rows)),
    ])
}

/// A row with a question and a cell.
fn row(number: usize, cell: &str) -> String {
    format!(
        "<row r=\"{number}\"><c r=\"A{number}\" t=\"inlineStr\"><is><t>q</t></is></c><c r=\"B{number}\" {cell}</c></row>"
    )
}

const HEADS: &str = r#"<row r="1"><c r="A1" t="inlineStr"><is><t>input</t></is></c><c r="B1" t="inlineStr"><is><t>ground_truth</t></is></c></row>"#;

const FORMATS: [&str; 8] = [
    "0%",
    "0.00\" kg\"",
    "00000",
    "#,##0",
    "[$€-407] #,##0.00",
    "0.00E+00",
    ";;;",
    "0;-0;0;\"Nr. \"@",
];

fn load(workbook: Vec<u8>) -> holodeck_yaml::Load {
    let agent =
        "name: a\nmodel: {provider: openai, name: m}\ninstructions: {inline: Hi}\ntest_cases_file: c.xlsx\n";
    let files = MemoryFiles::new()
        .with("agent.yaml", agent)
        .with("c.xlsx", workbook);
    load_agent(Path::new("agent.yaml"), &Env::empty(), &files)
}

#[test]
fn a_cell_is_the_text_that_the_sheet_shows() {
    let cells = [
        ("s=\"1\"><v>0.15</v>", "15%"),
        ("s=\"2\"><v>5</v>", "5.00 kg"),
        ("t=\"b\"><v>1</v>", "TRUE"),
        ("t=\"b\" s=\"1\"><v>0</v>", "FALSE"),
        ("s=\"3\"><v>42</v>", "00042"),
        ("s=\"4\"><v>12500</v>", "12,500"),
        ("s=\"5\"><v>-1234.5</v>", "-€ 1,234.50"),
        ("s=\"9\"><v>0.12345</v>", "12.35%"),
        ("s=\"8\" t=\"str\"><v>7</v>", "Nr. 7"),
        ("s=\"1\" t=\"str\"><v>00815</v>", "00815"),
        ("s=\"1\"><f>B2</f><v>0.5</v>", "50%"),
        ("s=\"0\"><v>0.15</v>", "0.15"),
        ("><v>12500</v>", "12500"),
        // A style that the workbook does not have.
        ("s=\"99\"><v>3</v>", "3"),
    ];
    let rows: String = cells
        .iter()
        .enumerate()
        .map(|(at, (cell, _))| row(at + 2, cell))
        .collect();
    let load = load(formatted(&FORMATS, "", &format!("{HEADS}{rows}")));
    let agent = load
        .agent
        .unwrap_or_else(|| panic!("{}", render(&load.diagnostics)));
    let found: Vec<_> = (0..cells.len())
        .map(|at| {
            agent
                .config
                .test_cases
                .get(at)
                .unwrap()
                .ground_truth
                .clone()
                .unwrap()
        })
        .collect();
    assert_eq!(found, cells.map(|(_, text)| text));
}

#[test]
fn a_cell_whose_text_is_unknown_is_an_error_at_its_place() {
    let rows = [
        row(2, "s=\"6\"><v>5</v>"),
        row(3, "s=\"7\"><v>5</v>"),
        row(4, "s=\"7\" t=\"str\"><v>hidden</v>"),
        row(5, "s=\"10\"><v>5</v>"),
        row(6, "s=\"1\"><f>B2</f>"),
    ];
    insta::assert_snapshot!(errors(formatted(
        &FORMATS,
        "",
        &format!("{HEADS}{}", rows.concat())
    )));
}

#[test]
fn the_format_of_cells_without_a_style_is_the_first() {
    let sheet = sheet(&format!("{HEADS}{}", row(2, "><v>0.15</v>")));
    let styles = "<styleSheet><cellXfs><xf numFmtId=\"9\"/></cellXfs></styleSheet>";
    let load = load(packed(&[
        stored("_rels/.rels", ROOT),
        stored("xl/workbook.xml", BOOK),
        stored("xl/_rels/workbook.xml.rels", RELATIONS),
        stored("xl/styles.xml", styles),
        stored(SHEET, &sheet),
    ]));
    let agent = load
        .agent
        .unwrap_or_else(|| panic!("{}", render(&load.diagnostics)));
    assert_eq!(
        agent.config.test_cases.get(0).unwrap().ground_truth.as_deref(),
        Some("15%")
    );
}

#[test]
fn a_hidden_first_sheet_is_named() {
    for (state, hidden) in [
        ("", false),
        ("state=\"hidden\"", true),
        ("state=\"veryHidden\"", true),
    ] {
        let load = load(formatted(&[], state, &format!("{HEADS}{}", row(2, "><v>1</v>"))));
        let text = render(&load.diagnostics);
        let named = text.contains(
            "warning[HD0606]: the first sheet, `cases`, is hidden, and its rows are the test cases",
        );
        assert_eq!(named, hidden, "{text}");
        assert!(load.agent.is_some());
    }
}

/// A filter hides rows as well. Only those that are read are named, with their columns.
#[test]
fn hidden_rows_and_columns_with_test_cases_are_named() {
    let rows: Vec<String> = (2..=7).map(|number| row(number, "><v>1</v>")).collect();
    let rows = format!("{HEADS}{}", rows.concat());
    let hide = |rows: &str, hidden: &[usize]| {
        hidden.iter().fold(rows.to_owned(), |rows, number| {
            rows.replace(
                &format!("<row r=\"{number}\">"),
                &format!("<row r=\"{number}\" hidden=\"1\">"),
            )
        })
    };
    for (hidden, more, named) in [
        (&[][..], "", None),
        (&[3], "", Some("row 3")),
        (&[2, 3, 4, 7], "", Some("rows 2 to 4, 7")),
        (&[], "<row r=\"9\" hidden=\"1\"/>", None),
    ] {
        let load = load(formatted(&[], "", &(hide(&rows, hidden) + more)));
        let text = render(&load.diagnostics);
        assert_eq!(load.agent.unwrap().config.test_cases.iter().count(), 6);
        assert_eq!(text.contains("hides"), named.is_some(), "{text}");
        if let Some(named) = named {
            let expected = format!(
                "warning[HD0606]: the first sheet, `cases`, hides {named}, and what stands there is read"
            );
            assert!(text.contains(&expected), "{text}");
        }
    }
    let cols = "<cols><col min=\"2\" max=\"5\" hidden=\"1\"/></cols>";
    let sheet = sheet(&rows).replace("<sheetData>", &format!("{cols}<sheetData>"));
    let text = render(&load(workbook(stored(SHEET, &sheet), None)).diagnostics);
    assert!(text.contains("`cases`, hides column B, and"), "{text}");
}

const GIB: usize = 1024 * 1024 * 1024;

fn bomb(declared: usize) -> Vec<u8> {
    let sheet = Part {
        name: SHEET,
        method: 8,
        data: zeros(GIB),
        size: declared,
    };
    workbook(sheet, None)
}

fn sheet(rows: &str) -> String {
    format!("<worksheet><sheetData>{rows}</sheetData></worksheet>")
}

const TWO_ROWS: &str =
    r#"<row r="1"><c r="A1" t="s"><v>0</v></c></row><row r="2"><c r="A2" t="s"><v>1</v></c></row>"#;

#[test]
fn what_these_tests_build_is_a_workbook() {
    let texts = r#"<sst uniqueCount="2"><si><t>input</t></si><si><t>hello</t></si></sst>"#;
    assert_eq!(errors(workbook(stored(SHEET, &sheet(TWO_ROWS)), Some(texts))), "");
}

#[test]
fn a_bomb_is_refused_before_it_is_expanded() {
    let bomb = bomb(GIB);
    assert!(bomb.len() < 10 * 1024 * 1024);
    let errors = errors(bomb);
    assert!(
        errors.contains("cannot be read as a workbook: it expands to more than 256 MB"),
        "{errors}"
    );
}

#[test]
fn a_bomb_that_lies_about_its_size_is_refused_at_that_size() {
    let errors = errors(bomb(1000));
    assert!(errors.contains("cannot be read as a workbook"), "{errors}");
    assert!(errors.contains("larger than its declared"), "{errors}");
}

#[test]
fn parts_count_together() {
    let names: Vec<String> = (0..300).map(|number| format!("xl/media/{number}")).collect();
    let parts: Vec<Part<'_>> = names
        .iter()
        .map(|name| Part {
            name,
            method: 8,
            data: zeros(258),
            size: 1024 * 1024,
        })
        .collect();
    assert!(errors(packed(&parts)).contains("it expands to more than 256 MB"));
    let mut many = packed(&[]);
    many.splice(0..0, b"PK\x01\x02".repeat(10_001));
    assert!(errors(many).contains("it has more than 10000 parts"));
}

/// The reader of workbooks would reserve memory for all of them.
#[test]
fn a_declared_number_of_texts_that_is_too_large_is_refused() {
    for (texts, reason) in [
        (
            "<sst count='1' uniqueCount = '99999999999999'><si/></sst>",
            "more texts than it can have",
        ),
        (
            "<sst uniqueCount=\"99999999999999999999999999\"/>",
            "more texts than it can have",
        ),
        (
            "<sst unique\u{1b}(BCount='9999'/>",
            "its texts contain control characters",
        ),
    ] {
        let errors = errors(workbook(stored(SHEET, &sheet(TWO_ROWS)), Some(texts)));
        assert!(errors.contains(reason), "{errors}");
    }
}

/// Each row has one cell, in the last column.
#[test]
fn cells_that_the_sheet_leaves_out_count() {
    let rows = (1..=600).map(|row| format!("<row r=\"{row}\"><c r=\"XFD{row}\"><v>1</v></c></row>"));
    let errors = errors(workbook(stored(SHEET, &sheet(&rows.collect::<String>())), None));
    assert!(
        errors.contains("its first sheet has more than 8388608 cells"),
        "{errors}"
    );
}

/// A workbook with three columns and five rows of cases, whose cells are `input` and these texts, and these merged cells.
fn merged(cells: &[(&str, &str)], regions: &[&str]) -> Vec<u8> {
    let text =
        |place: &str, text: &str| format!("<c r=\"{place}\" t=\"inlineStr\"><is><t>{text}</t></is></c>");
    let mut rows = String::new();
    for number in 1..=6 {
        rows.push_str(&format!("<row r=\"{number}\">"));
        for column in ["A", "B", "C"] {
            let place = format!("{column}{number}");
            let head = match place.as_str() {
                "A1" => Some("input"),
                "B1" => Some("forbidden_tools"),
                "C1" => Some("ground_truth"),
                _ if column == "A" => Some("q"),
                _ => None,
            };
            let own = cells
                .iter()
                .find(|(known, _)| *known == place)
                .map(|(_, text)| *text);
            rows.extend(own.or(head).map(|content| text(&place, content)));
        }
        rows.push_str("</row>");
    }
    let regions: String = regions
        .iter()
        .map(|region| format!("<mergeCell ref=\"{region}\"/>"))
        .collect();
    let sheet = sheet(&rows).replace(
        "</sheetData>",
        &format!("</sheetData><mergeCells>{regions}</mergeCells>"),
    );
    assert!(sheet.contains("mergeCells"));
    packed(&[
        stored("_rels/.rels", ROOT),
        stored("xl/workbook.xml", BOOK),
        stored("xl/_rels/workbook.xml.rels", RELATIONS),
        stored(SHEET, &sheet),
    ])
}

#[test]
fn every_row_of_merged_cells_has_their_value() {
    for first in 2..=6 {
        for last in first..=6 {
            let (place, region) = (format!("B{first}"), format!("B{first}:B{last}"));
            let load = load(merged(
                &[(&place, "clock;bell"), ("C4", "x")],
                &[&region, "C4:C5"],
            ));
            let agent = load
                .agent
                .unwrap_or_else(|| panic!("{region}: {}", render(&load.diagnostics)));
            for number in 2..=6 {
                let case = agent.config.test_cases.get(number - 2).unwrap();
                let has = (first..=last).contains(&number);
                let forbidden = if has { vec!["clock", "bell"] } else { Vec::new() };
                assert_eq!(case.forbidden_tools, forbidden, "{region}, row {number}");
                let truth = [4, 5].contains(&number).then_some("x");
                assert_eq!(case.ground_truth.as_deref(), truth, "{region}, row {number}");
            }
        }
    }
}

#[test]
fn merged_cells_whose_column_or_value_is_open_are_errors() {
    for (cells, regions, expected) in [
        (
            vec![("B2", "clock")],
            vec!["B2:C2"],
            "merged with cells of other columns",
        ),
        (
            vec![("B2", "clock")],
            vec!["B2:C4"],
            "merged with cells of other columns",
        ),
        (vec![], vec!["A3:C3"], "merged with cells of other columns"),
        (
            vec![("B2", "clock"), ("B3", "bell")],
            vec!["B2:B4"],
            "has a value of its own",
        ),
        (vec![("C2", "x")], vec!["B2:C2"], "has a value of its own"),
        (vec![], vec!["B1:B2"], "the first row names the fields"),
        (vec![("B2", "clock,bell")], vec!["B2:B3"], "is not one name"),
    ] {
        let found = errors(merged(&cells, &regions));
        assert!(found.contains(expected), "{regions:?}: {found}");
    }
}

#[test]
fn names_that_are_not_separated_by_semicolons_are_an_error() {
    for separator in [",", ", ", " ", "|", " | ", "\t", "/", "，", "、"] {
        for column in ["expected_tools", "forbidden_tools"] {
            let agent = "name: a\nmodel: {provider: openai, name: m}\ninstructions: {inline: Hi}\ntest_cases_file: c.csv\n";
            let files = MemoryFiles::new().with("agent.yaml", agent).with(
                "c.csv",
                format!("input,{column}\nq,\"a;weather{separator}clock\"\n"),
            );
            let load = load_agent(Path::new("agent.yaml"), &Env::empty(), &files);
            let found = render(&load.diagnostics);
            assert!(
                load.agent.is_none() && found.contains("is not one name"),
                "{separator:?}: {found}"
            );
        }
    }
}
