//! Values separated by commas or something else, as a Markdown table.

use csv::{ReaderBuilder, StringRecord};

use crate::{ConvertOptions, Document, Format, Problem, options::CellRange};

use super::table;

/// Common separators.
const SEPARATORS: [u8; 4] = [b',', b';', b'\t', b'|'];

pub(super) fn convert(
    bytes: &[u8],
    separator: Option<u8>,
    options: &ConvertOptions,
) -> Result<Document, Problem> {
    let (text, notes) = super::decode(bytes, options)?;
    let range = options.range.as_deref().map(CellRange::parse).transpose()?;
    // Excel's own declaration of the separator.
    let (declared, text) = match text.strip_prefix("sep=").and_then(|rest| rest.split_once('\n')) {
        Some((declared, rest)) if declared.len() == 1 => (declared.bytes().next(), rest),
        _ => (None, text.as_str()),
    };
    let separator = declared.or(separator).unwrap_or_else(|| likely_separator(text));
    let mut rows = Vec::new();
    for (number, record) in records(text, separator).enumerate() {
        let record = record.map_err(|error| Problem::Broken {
            format: Format::Csv,
            reason: error.to_string(),
        })?;
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let is_blank = record.iter().all(|value| value.trim().is_empty());
        if !is_blank && range.is_none_or(|range| range.has_row(number)) {
            rows.push(wanted(&record, range));
        }
    }
    let mut out = String::new();
    table::write(&mut out, &rows);
    Ok(super::plain(out, notes))
}

fn wanted(record: &StringRecord, range: Option<CellRange>) -> Vec<String> {
    let in_range = |column: usize| {
        let column = u32::try_from(column).unwrap_or(u32::MAX);
        range.is_none_or(|range| range.has_column(column))
    };
    let values = record.iter().enumerate();
    values
        .filter(|(column, _)| in_range(*column))
        .map(|(_, value)| value.to_owned())
        .collect()
}

fn records(text: &str, separator: u8) -> impl Iterator<Item = csv::Result<StringRecord>> {
    ReaderBuilder::new()
        .delimiter(separator)
        .has_headers(false)
        .flexible(true)
        .from_reader(text.as_bytes())
        .into_records()
}

/// The separator that splits most of the first records into the same number of values, more than one.
pub(crate) fn likely_separator(text: &str) -> u8 {
    const LOOKED_AT: usize = 32;
    let alike = |separator: u8| {
        let lengths: Vec<usize> = records(text, separator)
            .take(LOOKED_AT)
            .filter_map(|record| Some(record.ok()?.len()))
            .collect();
        let usual = lengths.first().copied().filter(|length| *length > 1)?;
        let alike = lengths.iter().filter(|length| **length == usual).count();
        Some((alike, usual))
    };
    // Among equally good ones the first.
    let mut best = (None, b',');
    for separator in SEPARATORS {
        let score = alike(separator);
        if score > best.0 {
            best = (score, separator);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> String {
        convert(text.as_bytes(), None, &ConvertOptions::default())
            .unwrap()
            .text
    }

    #[test]
    fn the_separator_is_found() {
        let expected = "| name | note |\n| --- | --- |\n| a | 1,5 |\n| b | x; y |\n";
        assert_eq!(table("name,note\na,\"1,5\"\nb,x; y\n"), expected);
        assert_eq!(table("name;note\na;1,5\nb;\"x; y\"\n"), expected);
        assert_eq!(table("name\tnote\na\t1,5\nb\tx; y\n"), expected);
        assert_eq!(table("sep=;\nname;note\na;1,5\nb;\"x; y\"\n"), expected);
        assert_eq!(
            table("one\ntwo, three\n"),
            "| one |  |\n| --- | --- |\n| two | three |\n"
        );
        assert_eq!(table(""), "");
        assert_eq!(
            table("name,note\n,\na,b\n , \n,\n"),
            "| name | note |\n| --- | --- |\n| a | b |\n"
        );
    }

    #[test]
    fn a_range_of_cells_is_taken() {
        let options = ConvertOptions {
            range: Some("B2:C3".to_owned()),
            ..ConvertOptions::default()
        };
        let document = convert(b"a,b,c\nd,e,f\ng,h,i\nj,k,l\n", None, &options).unwrap();
        assert_eq!(document.text, "| e | f |\n| --- | --- |\n| h | i |\n");
    }

    #[test]
    fn a_quote_that_is_not_closed_ends_with_the_file() {
        assert_eq!(
            table("a,b\n1,\"open\n2,3\n"),
            "| a | b |\n| --- | --- |\n| 1 | open 2,3 |\n"
        );
    }
}
