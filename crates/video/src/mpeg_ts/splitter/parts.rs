//! Parts of a unit, which a live stream's reader takes before the unit is complete.

use anabranch_units::Importance;

use super::{TransportUnit, TransportUnitSplitter};

impl TransportUnitSplitter {
    /// Returns the packets of the unit being filled that have not been returned, as soon as its
    /// importance is known: with the first slice of its picture. Call it when
    /// [`next_unit`](Self::next_unit) returns `None`; that returns the unit's rest when it is
    /// complete, with the same importance.
    ///
    /// Tables at the end stay, because they belong to the next unit if its picture follows. Without
    /// tables of the stream, units have no parts.
    pub fn next_part(&mut self) -> Option<TransportUnit> {
        let (importance, len) = self.part()?;
        let unit = &mut self.unit;
        unit.begun = Some(importance);
        unit.parted_len += len;
        unit.tables_at = unit.tables_at.map(|at| at - len);
        let bytes = unit.bytes.drain(..len).collect();
        let clock = self.last_clock.max(unit.clock);
        self.handed_over_len += len as u64;
        Some(TransportUnit {
            bytes,
            importance,
            clock,
            end: self.handed_over_len,
        })
    }

    /// Returns whether there is a part to return.
    pub fn has_part(&self) -> bool {
        self.part().is_some()
    }

    /// Returns importance and length of the next part.
    fn part(&self) -> Option<(Importance, usize)> {
        let len = self.unit.tables_at.unwrap_or(self.unit.bytes.len());
        let importance = self.unit.begun.or_else(|| self.known_importance())?;
        (len > 0).then_some((importance, len))
    }

    /// Returns the importance of the unit being filled, if further packets cannot change it.
    fn known_importance(&self) -> Option<Importance> {
        let unit = &self.unit;
        let is_known = match self.tables.video() {
            None => self.tables.has_map(),
            Some(_) => {
                let is_decided = unit.hides_slices || unit.continued.is_some();
                unit.has_video && (is_decided || !unit.slices.is_empty())
            }
        };
        is_known.then(|| unit.importance())
    }
}
