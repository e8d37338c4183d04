// Colours of the drawings, from the style sheet.

const PATHS = 6;

/// Returns a function that returns the present colours. They change with the system's scheme.
export function themes() {
  let theme = read();
  const scheme = window.matchMedia('(prefers-color-scheme: dark)');
  scheme.addEventListener('change', () => (theme = read()));
  return () => theme;
}

function read() {
  const style = getComputedStyle(document.documentElement);
  const value = (name) => style.getPropertyValue(`--${name}`).trim();
  const paths = Array.from({ length: PATHS }, (_, index) => value(`path-${index}`));
  const named = [
    ...['ink', 'quiet', 'edge', 'grid', 'channel', 'queue', 'down', 'node', 'card', 'report'],
    ...['good', 'late', 'lost', 'copy', 'repair', 'probe', 'font'],
  ];
  const theme = Object.fromEntries(named.map((name) => [name, value(name)]));
  theme.path = (index) => paths[index % PATHS];
  return theme;
}

/// Returns a function of flow and path that returns the number of their colour: flows have
/// different ones, and so have the paths of a single flow.
export function colouring(summary) {
  const isOne = summary.flows.length === 1;
  return (flow, path) => (isOne ? path : flow);
}
