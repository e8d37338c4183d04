// Results of whole runs: promises, and measurements side by side.

import { metric } from './format.js';

/// Measurements that everybody asks for, and their names for people.
const MEASURED = [
  ['frames-decodable-on-time', 'Frames decodable in time'],
  ['frame-delay-p95', 'Delay of frames, 95th percentile'],
  ['longest-gap', 'Longest standstill of the picture'],
  ['goodput', 'Goodput'],
  ['delay-p95', 'Delay of packets, 95th percentile'],
  ['loss', 'Packets lost'],
  ['overhead', 'Overhead'],
];

/// Fills the tables with the reports of one or two sides; a report may still be missing.
export function showResults({ promises, measured }, reports, units) {
  fillPromises(promises, reports, units);
  fillMeasured(measured, reports, units);
}

function cell(text, className = '') {
  const element = document.createElement('td');
  element.textContent = text;
  element.className = className;
  return element;
}

function heading(text) {
  const element = document.createElement('th');
  element.scope = 'row';
  element.textContent = text;
  return element;
}

function row(...cells) {
  const element = document.createElement('tr');
  element.append(...cells);
  return element;
}

function fillPromises(table, reports, units) {
  const first = reports.find((report) => report !== null);
  const expectations = first?.expectations ?? [];
  const body = table.tBodies[0];
  table.closest('section').hidden = first !== undefined && expectations.length === 0;
  if (!first) return;
  body.replaceChildren(
    ...expectations.map((expectation, index) => {
      const unit = units.get(expectation.metric);
      const of = expectation.subject ? ` of ${expectation.subject}` : '';
      const values = reports.map((report) => {
        const own = report?.expectations[index];
        if (!own) return cell('…');
        const text = metric(own.values[0], unit);
        return cell(`${own.is_met ? '✓' : '✗'} ${text}`, own.is_met ? 'met' : 'broken');
      });
      const name = heading(`${expectation.metric}${of}`);
      return row(name, cell(bounds(expectation, unit, first)), ...values);
    }),
  );
}

function bounds({ min, max, from_s: from, to_s: to, outside_s: outside }, unit, report) {
  const parts = [];
  if (min !== null) parts.push(`≥ ${metric(min, unit)}`);
  if (max !== null) parts.push(`≤ ${metric(max, unit)}`);
  const { statistics_from_s: first, statistics_to_s: last } = report.scenario;
  if (from !== first || to !== last) parts.push(`from ${from} to ${to} s`);
  if (outside) parts.push(`outside ${outside[0]}–${outside[1]} s`);
  return parts.join(', ');
}

function fillMeasured(table, reports, units) {
  const values = (name) =>
    reports.map((report) => {
      const isTotal = ({ metric: of, subject }) => of === name && subject === null;
      return report?.summary.find(isTotal)?.median ?? null;
    });
  const rows = MEASURED.map(([name, title]) => [title, name, values(name)]);
  const known = rows.filter(([, , of]) => of.some((value) => value !== null));
  table.tBodies[0].replaceChildren(
    ...known.map(([title, name, of]) =>
      row(heading(title), ...of.map((value) => cell(metric(value, units.get(name))))),
    ),
  );
}
