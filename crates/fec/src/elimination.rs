//! Gaussian elimination of the symbols that are unknown from the repair symbols that are at hand.
//!
//! Only coefficients are worked on. Each row says which unknown symbols it holds and of which
//! repair symbols it is the sum, each times a factor; rows are kept in reduced echelon form. So a
//! symbol is known as soon as the repair symbols determine it, and bytes are touched only then:
//! once for each other symbol of the windows.
//!
//! There are as many rows as repair symbols, at most [`MAX_UNKNOWNS`], and a row has at most so
//! many coefficients of each kind. One more repair symbol, or one less unknown, costs at most so
//! many additions of a row to a row.

use crate::code::{MAX_WINDOW, RepairHeader};
use crate::gf256;

/// Most symbols that are solved for at once: a window's, so that any repair symbol finds room.
pub(crate) const MAX_UNKNOWNS: usize = MAX_WINDOW as usize;

#[derive(Debug, Default)]
pub(crate) struct Elimination {
    unknowns: Vec<u64>,
    repairs: Vec<Repair>,
    rows: Vec<Row>,
    /// Buffers of former repair symbols.
    spare: Vec<Vec<u8>>,
    /// Factors of the symbols of all windows, for the present evaluation.
    factors: Vec<u8>,
}

#[derive(Debug)]
struct Repair {
    header: RepairHeader,
    /// Coefficients of the symbols of its window, in order.
    coefficients: [u8; MAX_UNKNOWNS],
    bytes: Vec<u8>,
}

/// `sum(unknowns[i] * symbol i) = sum(repairs[j] * (repair j - the known symbols in it))`.
#[derive(Debug)]
struct Row {
    /// The column that is 1 here and 0 in all other rows.
    pivot: usize,
    unknowns: [u8; MAX_UNKNOWNS],
    repairs: [u8; MAX_UNKNOWNS],
}

impl Row {
    /// Adds a row times a factor. Columns from `unknown_count` and `repair_count` on are zero.
    fn add(&mut self, other: &Row, factor: u8, unknown_count: usize, repair_count: usize) {
        if factor != 0 {
            let columns = &other.unknowns[..unknown_count];
            gf256::multiply_add(&mut self.unknowns, columns, factor);
            gf256::multiply_add(&mut self.repairs, &other.repairs[..repair_count], factor);
        }
    }
}

impl Elimination {
    /// Returns the lowest number in any window.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.repairs.iter().map(|repair| repair.header.first).min()
    }

    /// Takes a repair symbol in whose window `missing` are the unknown symbols, at least one.
    /// The oldest unknowns are given up for it, with all repair symbols that cover them, if there
    /// are too many.
    pub(crate) fn insert(&mut self, header: RepairHeader, bytes: &[u8], missing: &[u64]) {
        self.make_room(missing);
        for &number in missing {
            if !self.unknowns.contains(&number) {
                self.unknowns.push(number);
            }
        }
        let mut row = Row {
            pivot: 0,
            unknowns: [0; MAX_UNKNOWNS],
            repairs: [0; MAX_UNKNOWNS],
        };
        for (coefficient, &number) in row.unknowns.iter_mut().zip(&self.unknowns) {
            if header.covers(number) {
                *coefficient = header.coefficient(number);
            }
        }
        row.repairs[self.repairs.len()] = 1;
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.extend_from_slice(bytes);
        let mut coefficients = [0; MAX_UNKNOWNS];
        let window = coefficients.iter_mut().take(usize::from(header.count));
        for (coefficient, number) in window.zip(header.first..) {
            *coefficient = header.coefficient(number);
        }
        self.repairs.push(Repair {
            header,
            coefficients,
            bytes: buffer,
        });

        for other in &self.rows {
            let factor = row.unknowns[other.pivot];
            row.add(other, factor, self.unknowns.len(), self.repairs.len());
        }
        self.place(row);
    }

    /// Removes a symbol from the unknowns.
    pub(crate) fn remove_unknown(&mut self, number: u64) {
        let Some(column) = self.unknowns.iter().position(|&unknown| unknown == number) else {
            return;
        };
        let pivot_row = self.rows.iter().position(|row| row.pivot == column);
        let orphan = pivot_row.map(|index| self.rows.swap_remove(index));
        let moved = self.remove_column(column);
        if let Some(mut row) = orphan {
            row.unknowns[column] = row.unknowns[moved];
            row.unknowns[moved] = 0;
            self.place(row);
        }
    }

    /// Gives up all repair symbols that cover symbols below a number.
    pub(crate) fn forget_before(&mut self, number: u64) {
        self.forget_repairs(|header| header.first < number);
    }

    /// Returns a determined symbol, with its row for [`evaluate`](Self::evaluate).
    pub(crate) fn solved(&self) -> Option<(usize, u64)> {
        let count = self.unknowns.len();
        let is_alone = |row: &Row| {
            row.unknowns[..count]
                .iter()
                .filter(|&&factor| factor != 0)
                .count()
                == 1
        };
        let index = self.rows.iter().position(is_alone)?;
        Some((index, self.unknowns[self.rows[index].pivot]))
    }

    /// Writes the symbol of a row that determines it to `out`, which is empty. `known` has all
    /// other symbols of the windows.
    pub(crate) fn evaluate<'a>(
        &mut self,
        (row, number): (usize, u64),
        known: impl Fn(u64) -> &'a [u8],
        out: &mut Vec<u8>,
    ) {
        let factors = &self.rows[row].repairs;
        let used = || {
            self.repairs
                .iter()
                .zip(factors)
                .filter(|&(_, &factor)| factor != 0)
        };
        out.resize(
            used()
                .map(|(repair, _)| repair.bytes.len())
                .max()
                .unwrap_or(0),
            0,
        );
        let (mut first, mut end) = (u64::MAX, 0);
        for (repair, &factor) in used() {
            gf256::multiply_add(out, &repair.bytes, factor);
            first = first.min(repair.header.first);
            end = end.max(repair.header.first + u64::from(repair.header.count));
        }
        let coefficients = &mut self.factors;
        coefficients.clear();
        coefficients.resize((end - first) as usize, 0);
        for (repair, &factor) in used() {
            let start = (repair.header.first - first) as usize;
            let window = &repair.coefficients[..usize::from(repair.header.count)];
            gf256::multiply_add(&mut coefficients[start..], window, factor);
        }
        // The range comes second: asked once more, it would step beyond the last number there is.
        for (&coefficient, other) in coefficients.iter().zip(first..) {
            if coefficient != 0 && other != number {
                gf256::multiply_add(out, known(other), coefficient);
            }
        }
    }

    /// Adds a row that holds nothing of the other rows' pivots.
    fn place(&mut self, mut row: Row) {
        let (unknown_count, repair_count) = (self.unknowns.len(), self.repairs.len());
        let Some(pivot) = row.unknowns[..unknown_count]
            .iter()
            .position(|&factor| factor != 0)
        else {
            self.retire(&row);
            return;
        };
        row.pivot = pivot;
        let scale = gf256::inverse(row.unknowns[pivot]);
        for factor in row.unknowns.iter_mut().chain(&mut row.repairs) {
            *factor = gf256::multiply(*factor, scale);
        }
        for other in &mut self.rows {
            let factor = other.unknowns[pivot];
            other.add(&row, factor, unknown_count, repair_count);
        }
        self.rows.push(row);
    }

    /// Drops a row without unknowns: by it one repair symbol, the oldest, is a combination of
    /// others and of known symbols.
    fn retire(&mut self, row: &Row) {
        let used = (0..self.repairs.len()).filter(|&index| row.repairs[index] != 0);
        if let Some(oldest) = used.min_by_key(|&index| self.repairs[index].header.first) {
            self.eliminate_repair(oldest, row);
        }
    }

    /// Adds multiples of `row` to all others so that none needs the repair symbol, and drops both.
    fn eliminate_repair(&mut self, index: usize, row: &Row) {
        let scale = gf256::inverse(row.repairs[index]);
        let last = self.repairs.len() - 1;
        for other in &mut self.rows {
            let factor = gf256::multiply(other.repairs[index], scale);
            other.add(row, factor, self.unknowns.len(), last + 1);
            other.repairs[index] = other.repairs[last];
            other.repairs[last] = 0;
        }
        let mut buffer = self.repairs.swap_remove(index).bytes;
        buffer.clear();
        self.spare.push(buffer);
    }

    fn make_room(&mut self, missing: &[u64]) {
        loop {
            let is_new = |number: &&u64| !self.unknowns.contains(number);
            let new_count = missing.iter().filter(is_new).count();
            if self.unknowns.len() + new_count <= MAX_UNKNOWNS {
                return;
            }
            let others = self
                .unknowns
                .iter()
                .filter(|number| !missing.contains(number));
            let Some(&oldest) = others.min() else {
                return;
            };
            self.forget_repairs(|header| header.covers(oldest));
        }
    }

    /// Gives up repair symbols, and the unknowns that none covers any more.
    fn forget_repairs(&mut self, is_forgotten: impl Fn(RepairHeader) -> bool) {
        for index in (0..self.repairs.len()).rev() {
            if is_forgotten(self.repairs[index].header) {
                // The rows are as independent as the repair symbols: each is part of some row.
                let Some(row) = self.rows.iter().position(|row| row.repairs[index] != 0) else {
                    continue;
                };
                let row = self.rows.swap_remove(row);
                self.eliminate_repair(index, &row);
            }
        }
        for column in (0..self.unknowns.len()).rev() {
            if self.rows.iter().all(|row| row.unknowns[column] == 0) {
                self.remove_column(column);
            }
        }
    }

    /// Drops a column, which is no row's pivot; the last one takes its place. Answers which was
    /// last.
    fn remove_column(&mut self, column: usize) -> usize {
        self.unknowns.swap_remove(column);
        let moved = self.unknowns.len();
        for row in &mut self.rows {
            row.unknowns[column] = row.unknowns[moved];
            row.unknowns[moved] = 0;
            if row.pivot == moved {
                row.pivot = column;
            }
        }
        moved
    }

    /// Returns whether the rows are in reduced echelon form, and as many as the repair symbols.
    #[cfg(test)]
    pub(crate) fn is_consistent(&self) -> bool {
        let is_zero_beyond = |row: &Row| {
            row.unknowns[self.unknowns.len()..]
                .iter()
                .all(|&factor| factor == 0)
                && row.repairs[self.repairs.len()..]
                    .iter()
                    .all(|&factor| factor == 0)
        };
        let has_pivot_alone = |row: &Row| {
            row.unknowns[row.pivot] == 1
                && self
                    .rows
                    .iter()
                    .filter(|other| other.unknowns[row.pivot] != 0)
                    .count()
                    == 1
        };
        self.rows.len() == self.repairs.len()
            && self.unknowns.len() <= MAX_UNKNOWNS
            && self.rows.len() + self.spare.len() <= MAX_UNKNOWNS + 1
            && self
                .rows
                .iter()
                .all(|row| is_zero_beyond(row) && has_pivot_alone(row))
    }

    #[cfg(test)]
    pub(crate) fn repair_count(&self) -> usize {
        self.repairs.len()
    }
}
