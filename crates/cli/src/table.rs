//! Rows in columns that line up. Knows widths and tones, and nothing of what it shows.

use crate::paint::{Paint, Tone, visible};

/// On which side a column's texts meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A text and how it is shown.
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A text in a tone.
    pub fn toned(tone: Tone, text: impl AsRef<str>) -> Cell {
        Cell { text: visible(text.as_ref()), tone }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::toned(Tone::Plain, text)
    }
}

/// A table with a heading.
pub struct Table<const N: usize> {
    columns: [(&'static str, Side); N],
    rows: Vec<[Cell; N]>,
}

impl<const N: usize> Table<N> {
    /// A table with these columns and no rows.
    pub fn new(columns: [(&'static str, Side); N]) -> Table<N> {
        Table { columns, rows: Vec::new() }
    }

    /// One row more.
    pub fn row(&mut self, cells: [Cell; N]) {
        self.rows.push(cells);
    }

    /// Its text, a line end after each row; nothing at all when there are no rows.
    pub fn render(&self, paint: Paint) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let width = |at: usize| {
            let cells = self.rows.iter().map(|row| &*row[at].text);
            cells.chain([self.columns[at].0]).map(length).max().unwrap_or(0)
        };
        let widths: [usize; N] = std::array::from_fn(width);
        let heading = self.columns.map(|(name, _)| Cell::toned(Tone::Head, name));
        let mut text = String::new();
        for row in std::iter::once(&heading).chain(&self.rows) {
            for (at, cell) in row.iter().enumerate() {
                let gap = " ".repeat(widths[at] - length(&cell.text));
                let shown = paint.tone(cell.tone, &cell.text);
                let last = at + 1 == N;
                match self.columns[at].1 {
                    Side::Left if last => text += &shown,
                    Side::Left => text += &(shown + &gap),
                    Side::Right => text += &(gap + &shown),
                }
                text += if last { "\n" } else { "  " };
            }
        }
        text
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_no_line_ends_in_blanks() {
        let mut table = Table::new([("LOCK", Side::Left), ("TOKEN", Side::Right), ("OWNER", Side::Left)]);
        assert_eq!(table.render(Paint::none()), "");
        table.row(["deploy".into(), "7".into(), "alice".into()]);
        table.row(["größe".into(), "123456".into(), Cell::toned(Tone::Bad, "b\x07b")]);
        assert_eq!(
            table.render(Paint::none()),
            "LOCK     TOKEN  OWNER\ndeploy       7  alice\ngröße   123456  b\\u{7}b\n"
        );
    }
}
