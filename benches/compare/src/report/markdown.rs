//! The report's Markdown: tables, and numbers to the three digits that these measurements carry.

/// A table, filled row by row.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// With its headings.
    pub fn new<S: Into<String>>(headings: impl IntoIterator<Item = S>) -> Self {
        Self { rows: vec![headings.into_iter().map(Into::into).collect()] }
    }

    /// Adds a row.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Has it no rows but its headings?
    pub fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }

    /// Its lines, with a blank one after.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            let cells: Vec<String> = row.iter().map(|cell| plain(cell)).collect();
            out.push_str(&format!("| {} |\n", cells.join(" | ")));
            if number == 0 {
                out.push_str(&format!("|{}\n", "---|".repeat(row.len())));
            }
        }
        out.push('\n');
        out
    }
}

/// Foreign words in a cell or a paragraph: nothing that would end a row or the generated section.
pub fn plain(words: &str) -> String {
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    words.replace('|', "\\|").replace("<!--", "&lt;!--")
}

/// Three digits, and thousands parted.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        // A count, or as good as one.
        v if v.fract() == 0.0 => 0,
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        v if v >= 0.0995 => 3,
        _ => 4,
    };
    let text = format!("{value:.digits$}");
    let whole = text.find('.').unwrap_or(text.len());
    let (sign, first) = (text.starts_with('-'), usize::from(text.starts_with('-')));
    let mut out = String::from(if sign { "-" } else { "" });
    for (place, digit) in text[first..whole].chars().enumerate() {
        if place > 0 && (whole - first - place) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out.push_str(&text[whole..]);
    out
}

/// A count with its thousands parted.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|g| std::str::from_utf8(g).ok()).collect();
    groups.join(",")
}

/// A number with its unit, if it has one.
pub fn with_unit(value: f64, unit: &str) -> String {
    let space = if unit.is_empty() || unit.starts_with('/') { "" } else { " " };
    format!("{}{space}{unit}", number(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_carry_three_digits() {
        let cases = [
            (1_234_567.8, "1,234,568"),
            (66_788.4, "66,788"),
            (999.6, "1,000"),
            (856.2, "856"),
            (97.34, "97.3"),
            (99.97, "100"),
            (9.2, "9.20"),
            (3.0, "3"),
            (9.999, "10.0"),
            (0.256, "0.256"),
            (0.9999, "1.00"),
            (0.01234, "0.0123"),
            (0.0, "0"),
            (-1234.0, "-1,234"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
        assert_eq!((count(54082), count(7), count(1_000_000)), ("54,082".into(), "7".into(), "1,000,000".into()));
    }

    #[test]
    fn units_stand_apart_but_a_second_does_not() {
        assert_eq!(with_unit(3.0, "us") + &with_unit(3.0, "/s") + &with_unit(3.0, ""), "3 us3/s3");
    }

    #[test]
    fn foreign_words_end_no_row_and_no_section() {
        let mut table = Table::new(["a", "b"]);
        table.row(["x|y\nz", "<!-- compare: end -->"]);
        assert_eq!(table.to_text(), "| a | b |\n|---|---|\n| x\\|y z | &lt;!-- compare: end --> |\n\n");
    }
}
