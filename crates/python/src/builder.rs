//! Tables under construction, row by row.

use crate::table::{Column, NativeTable, Texts};

/// Kind of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Numbers, which may be missing.
    Float,
    /// Whole numbers.
    Integer,
    /// Truth values.
    Boolean,
    /// Texts, which may be missing.
    Text,
}

/// A value of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cell<'a> {
    /// A number; `None`: missing.
    Float(Option<f64>),
    /// A whole number.
    Integer(i64),
    /// A truth value.
    Boolean(bool),
    /// A text; `None`: missing.
    Text(Option<&'a str>),
}

impl From<f64> for Cell<'_> {
    fn from(value: f64) -> Self {
        Cell::Float(Some(value))
    }
}

impl From<Option<f64>> for Cell<'_> {
    fn from(value: Option<f64>) -> Self {
        Cell::Float(value)
    }
}

impl From<Option<u64>> for Cell<'_> {
    fn from(value: Option<u64>) -> Self {
        Cell::Float(value.map(|value| value as f64))
    }
}

impl From<u64> for Cell<'_> {
    fn from(value: u64) -> Self {
        Cell::Integer(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Cell<'_> {
    fn from(value: u32) -> Self {
        Cell::Integer(i64::from(value))
    }
}

impl From<u8> for Cell<'_> {
    fn from(value: u8) -> Self {
        Cell::Integer(i64::from(value))
    }
}

impl From<bool> for Cell<'_> {
    fn from(value: bool) -> Self {
        Cell::Boolean(value)
    }
}

impl<'a> From<&'a str> for Cell<'a> {
    fn from(value: &'a str) -> Self {
        Cell::Text(Some(value))
    }
}

impl<'a> From<Option<&'a str>> for Cell<'a> {
    fn from(value: Option<&'a str>) -> Self {
        Cell::Text(value)
    }
}

/// A table that grows row by row. All rows have the same columns.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    columns: Vec<(String, Column)>,
}

impl Builder {
    /// Returns an empty table with these columns.
    pub(crate) fn new(columns: impl IntoIterator<Item = (String, Kind)>) -> Builder {
        let columns = columns.into_iter().map(|(name, kind)| {
            let column = match kind {
                Kind::Float => Column::Float(Vec::new()),
                Kind::Integer => Column::Integer(Vec::new()),
                Kind::Boolean => Column::Boolean(Vec::new()),
                Kind::Text => Column::Text(Texts::default()),
            };
            (name, column)
        });
        Builder {
            columns: columns.collect(),
        }
    }

    /// Adds a row of as many cells as there are columns.
    ///
    /// # Panics
    /// If a cell is of another kind than its column.
    pub(crate) fn push<'a>(&mut self, cells: impl IntoIterator<Item = Cell<'a>>) {
        let mut columns = self.columns.iter_mut();
        for cell in cells {
            let (name, column) = columns.next().expect("no more cells than columns");
            match (column, cell) {
                (Column::Float(values), Cell::Float(value)) => {
                    values.push(value.unwrap_or(f64::NAN));
                }
                (Column::Integer(values), Cell::Integer(value)) => values.push(value),
                (Column::Boolean(values), Cell::Boolean(value)) => values.push(value),
                (Column::Text(texts), Cell::Text(text)) => texts.push(text),
                (_, cell) => panic!("{name} cannot hold {cell:?}"),
            }
        }
        assert!(columns.next().is_none(), "no fewer cells than columns");
    }

    /// Adds the rows of a table with the same columns.
    ///
    /// # Panics
    /// If it has other columns.
    pub(crate) fn append(&mut self, other: Builder) {
        for ((name, own), (_, rows)) in self.columns.iter_mut().zip(other.columns) {
            let extended = own.extend(Some(&rows), 0);
            extended.unwrap_or_else(|kind| panic!("{name} is not {kind} in both"));
        }
    }

    /// Returns the table.
    pub(crate) fn finish(self) -> NativeTable {
        NativeTable::new(self.columns)
    }
}
