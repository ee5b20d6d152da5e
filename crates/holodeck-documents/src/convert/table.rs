//! Rows as a Markdown table.

/// Appends a table; its first row is its head. Empty rows at the end and empty columns are left out.
pub(super) fn write(out: &mut String, rows: &[Vec<String>]) {
    let filled = |cell: &String| !cell.trim().is_empty();
    let Some(last) = rows.iter().rposition(|row| row.iter().any(filled)) else {
        return;
    };
    let rows = rows.get(..=last).unwrap_or_default();
    let width = rows.iter().map(Vec::len).max().unwrap_or_default();
    let mut used = vec![false; width];
    for row in rows {
        for (used, cell) in used.iter_mut().zip(row) {
            *used |= filled(cell);
        }
    }
    let columns: Vec<usize> = used
        .iter()
        .enumerate()
        .filter_map(|(at, used)| used.then_some(at))
        .collect();
    for (number, row) in rows.iter().enumerate() {
        let value = |column: &usize| row.get(*column).map_or("", String::as_str);
        // Missing values at the end of a row count as empty; writing them could exceed the memory.
        let last = columns
            .iter()
            .rposition(|column| !value(column).trim().is_empty());
        let shown = if number == 0 {
            columns.len()
        } else {
            last.map_or(1, |last| last + 1)
        };
        out.push('|');
        for column in columns.iter().take(shown) {
            out.push(' ');
            cell(out, value(column));
            out.push_str(" |");
        }
        out.push('\n');
        if number == 0 {
            out.push('|');
            out.push_str(&" --- |".repeat(columns.len()));
            out.push('\n');
        }
    }
}

/// A cell is one line; characters that would end it are escaped.
fn cell(out: &mut String, text: &str) {
    for (number, word) in text.split_whitespace().enumerate() {
        if number > 0 {
            out.push(' ');
        }
        for c in word.chars() {
            if c == '|' {
                out.push('\\');
            }
            out.push(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[&[&str]]) -> String {
        let rows: Vec<Vec<String>> = rows
            .iter()
            .map(|row| row.iter().map(|cell| (*cell).to_owned()).collect())
            .collect();
        let mut out = String::new();
        write(&mut out, &rows);
        out
    }

    #[test]
    fn rows_of_any_length_make_a_table() {
        let rows: &[&[&str]] = &[
            &["a", "", "b|c"],
            &["two\nlines"],
            &["1", "", "2", " "],
            &["", ""],
        ];
        assert_eq!(
            table(rows),
            "| a | b\\|c |\n| --- | --- |\n| two lines |\n| 1 | 2 |\n"
        );
        assert_eq!(table(&[]), "");
        assert_eq!(table(&[&["", " "]]), "");
    }
}
