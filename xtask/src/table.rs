//! Plain text tables.

/// Prints rows under a header, columns padded to their widest cell.
pub(crate) fn print<const N: usize>(header: [&str; N], rows: &[[String; N]]) {
    println!("{}", render(header, rows));
}

pub(crate) fn render<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let mut widths = header.map(|cell| cell.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: [&str; N]| {
        let padded: Vec<String> = cells
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        padded.join("  ").trim_end().to_owned()
    };
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    let mut lines = vec![line(header), rule.join("  ")];
    lines.extend(
        rows.iter()
            .map(|row| line(std::array::from_fn(|at| row.get(at).map_or("", String::as_str)))),
    );
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::render;

    #[test]
    fn pads_to_the_widest_cell_and_leaves_no_trailing_space() {
        let rows = [
            ["node".to_owned(), "v20".to_owned()],
            ["claude".to_owned(), String::new()],
        ];
        assert_eq!(
            render(["name", "found"], &rows),
            "name    found\n------  -----\nnode    v20\nclaude"
        );
    }
}
