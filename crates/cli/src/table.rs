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

    /// Its text, a line end after each row; nothing at all when there are no rows. A column with nothing in it is left
    /// out.
    pub fn render(&self, paint: Paint) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let widest = |at: usize| self.rows.iter().map(|row| length(&row[at].text)).max().unwrap_or(0);
        let widths: Vec<(usize, usize)> = (0..N)
            .map(|at| (at, widest(at)))
            .filter(|(_, width)| *width > 0)
            .map(|(at, width)| (at, width.max(length(self.columns[at].0))))
            .collect();
        let heading = self.columns.map(|(name, _)| Cell::toned(Tone::Head, name));
        let mut text = String::new();
        for row in std::iter::once(&heading).chain(&self.rows) {
            let mut gap = 0;
            for (at, width) in &widths {
                let cell = &row[*at];
                let blank = width - length(&cell.text);
                let (before, after) = match self.columns[*at].1 {
                    Side::Left => (0, blank),
                    Side::Right => (blank, 0),
                };
                if !cell.text.is_empty() {
                    text.extend(std::iter::repeat_n(' ', gap + before));
                    text += &paint.tone(cell.tone, &cell.text);
                    gap = 0;
                }
                // Blanks are owed until something follows, so that no line ends in them.
                gap += after + 2 + if cell.text.is_empty() { before } else { 0 };
            }
            text.push('\n');
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
        let mut table =
            Table::new([("A", Side::Left), ("NONE", Side::Left), ("B", Side::Right), ("C", Side::Left)]);
        table.row(["a".into(), "".into(), "".into(), "c".into()]);
        table.row(["aaa".into(), "".into(), "10".into(), "".into()]);
        assert_eq!(table.render(Paint::none()), "A     B  C\na        c\naaa  10\n");
    }
}
