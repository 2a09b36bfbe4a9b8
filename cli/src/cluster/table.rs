//! Rows in columns, for a terminal.

use std::fmt::Write as _;

/// Between two columns.
const GAP: usize = 2;

/// One row, and lines that belong to it.
#[derive(Default)]
pub(crate) struct Row {
    pub(crate) cells: Vec<String>,
    pub(crate) below: Vec<String>,
}

/// The rows under their heads, each column as wide as its widest cell.
pub(crate) fn table(heads: &[&str], rows: &[Row]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.cells.get(column));
        let widths = cells.map(|cell| cell.chars().count());
        widths.chain([heads[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for (cell, width) in cells.zip(&widths) {
            // A string takes whatever is written to it.
            let _ = write!(line, "{cell:<width$}{:GAP$}", "");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    };
    line(&mut heads.iter().copied());
    for row in rows {
        line(&mut row.cells.iter().map(String::as_str));
        for below in &row.below {
            line(&mut [format!("{:GAP$}{below}", "").as_str()].into_iter());
        }
    }
    text
}

/// `1 partition`, `2 partitions`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let row = |cells: &[&str], below: &[&str]| Row {
            cells: cells.iter().map(|&cell| cell.to_owned()).collect(),
            below: below.iter().map(|&line| line.to_owned()).collect(),
        };
        let rows = [
            row(&["orders", "0"], &["|.## of it"]),
            row(&["o", "11"], &[]),
        ];
        assert_eq!(
            table(&["TOPIC", "N"], &rows),
            "TOPIC   N\norders  0\n  |.## of it\no       11\n"
        );
    }
}
