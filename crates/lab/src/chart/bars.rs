//! Groups of bars.

use super::canvas::{BOTTOM, COLOURS, Canvas, Entry, LEFT, escape};
use super::{Bars, Mark};

impl Bars {
    pub(super) fn svg(&self, width: f64) -> String {
        let bars = self.kinds.iter().flat_map(|kind| &kind.bars).flatten();
        let top = bars.fold(0.0_f64, |top, bar| top.max(bar.value).max(bar.high)) * 1.05;
        let kinds = self.kinds.iter().zip(COLOURS.iter().cycle());
        let legend: Vec<Entry<'_>> = kinds
            .map(|(kind, colour)| Entry {
                label: &kind.label,
                colour,
                mark: Mark::Area,
            })
            .collect();
        let mut canvas = Canvas::new(&self.title, width, &legend);
        let axis = canvas.y_axis(&self.y, top);
        let group_width = (canvas.right - LEFT) / self.groups.len().max(1) as f64;
        let width = group_width * 0.8 / self.kinds.len().max(1) as f64;
        let longest = self.groups.iter().map(|name| name.chars().count()).max();
        let is_tight = longest.is_some_and(|count| 6.4 * count as f64 > group_width);
        for (group, name) in self.groups.iter().enumerate() {
            let left = LEFT + group_width * group as f64;
            let middle = left + group_width / 2.0;
            if is_tight {
                canvas.small_text(middle, BOTTOM + 12.0, name, group_width)
            } else {
                canvas.text(middle, BOTTOM + 17.0, "middle", &escape(name), "")
            }
            for (index, kind) in self.kinds.iter().enumerate() {
                let Some(bar) = kind.bars.get(group).copied().flatten() else {
                    continue;
                };
                let x = left + group_width * 0.1 + width * index as f64;
                let y = axis.at(bar.value);
                canvas.part(format_args!(
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
                     fill=\"{}\"/>",
                    width * 0.92,
                    BOTTOM - y,
                    legend[index].colour
                ));
                let middle = x + width * 0.46;
                canvas.line((middle, axis.at(bar.low)), (middle, axis.at(bar.high)), 1.0);
            }
        }
        canvas.line((LEFT, BOTTOM), (canvas.right, BOTTOM), 0.5);
        canvas.finish()
    }
}
