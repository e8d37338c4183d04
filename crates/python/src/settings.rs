//! Index of all tables: the point of a sweep with its settings as numbers, and the seed.

use anabranch_lab::{Setting, SettingValue};

use crate::builder::{Builder, Cell, Kind};
use crate::columns::{ColumnDoc, suffix};

/// A setting as a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SettingColumn {
    /// The key, with the unit behind it.
    pub(crate) name: String,
    /// The number, if it is one.
    pub(crate) number: Option<f64>,
    /// The text, if it is no number.
    pub(crate) text: Option<String>,
}

impl SettingColumn {
    /// Returns the column of a setting. Rates are in bit/s, times in ms, amounts in bytes, shares
    /// in the range from 0 to 1.
    pub(crate) fn of(setting: &Setting) -> SettingColumn {
        SettingColumn::new(&setting.key, &setting.value, setting.quantity())
    }

    /// Returns the column of a setting in a row of the program.
    pub(crate) fn of_row(setting: &SettingValue) -> SettingColumn {
        let quantity = setting.number.map(|number| (number, setting.unit.as_str()));
        SettingColumn::new(&setting.key, &setting.value, quantity)
    }

    fn new(key: &str, value: &str, quantity: Option<(f64, &str)>) -> SettingColumn {
        SettingColumn {
            name: format!("{key}{}", suffix(quantity.map_or("", |(_, unit)| unit))),
            number: quantity.map(|(number, _)| number),
            text: quantity.is_none().then(|| value.to_owned()),
        }
    }

    fn kind(&self) -> Kind {
        match self.number {
            Some(_) => Kind::Float,
            None => Kind::Text,
        }
    }
}

/// Returns the columns of all points' settings, each once, in their order.
pub(crate) fn names(points: &[Vec<SettingColumn>]) -> Vec<(String, Kind)> {
    let mut names: Vec<(String, Kind)> = Vec::new();
    for column in points.iter().flatten() {
        if !names
            .iter()
            .any(|(name, kind)| *name == column.name && *kind == column.kind())
        {
            names.push((column.name.clone(), column.kind()));
        }
    }
    names
}

/// The index of one run.
#[derive(Clone, Debug)]
pub(crate) struct Index<'a> {
    pub(crate) point: usize,
    pub(crate) seed: u64,
    pub(crate) settings: &'a [SettingColumn],
    /// [`names`] of all points.
    pub(crate) names: &'a [(String, Kind)],
}

impl Index<'_> {
    /// Returns an empty table of the index and `columns`.
    pub(crate) fn builder(&self, columns: Vec<ColumnDoc>) -> Builder {
        let point = [("point".to_owned(), Kind::Integer)];
        let seed = [("seed".to_owned(), Kind::Integer)];
        let columns = columns.into_iter().map(|column| (column.name, column.kind));
        let settings = self.names.iter().cloned();
        Builder::new(point.into_iter().chain(settings).chain(seed).chain(columns))
    }

    /// Returns the cells of the index, with which every row begins.
    pub(crate) fn cells(&self) -> impl Iterator<Item = Cell<'_>> {
        let settings = self.names.iter().map(|(name, kind)| {
            let mut own = self.settings.iter();
            let found = own.find(|column| column.name == *name && column.kind() == *kind);
            match kind {
                Kind::Float => Cell::Float(found.and_then(|column| column.number)),
                _ => Cell::Text(found.and_then(|column| column.text.as_deref())),
            }
        });
        std::iter::once(Cell::from(self.point as u64))
            .chain(settings)
            .chain(std::iter::once(Cell::from(self.seed)))
    }
}
