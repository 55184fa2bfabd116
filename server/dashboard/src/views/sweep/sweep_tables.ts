import { h, type Child } from '../../lib/dom';
import { DASH, formatCount, formatSignificant } from '../../lib/format';
import { hashOf, hashOfRun } from '../../lib/routes';
import { MAX_COMPARED } from '../../lib/run_view';
import {
  bestOf,
  figureOf,
  moreIsBetter,
  shadeOf,
  shortKey,
  type At,
  type Axis,
  type Cell,
  type Group,
  type Metric,
} from '../../lib/sweep';
import { table } from '../tables';

const MAX_ROWS = 500; // of the table of cells; the choices above it narrow it

/// The address of a comparison of the first cells' runs.
export const compareHash = (cells: readonly Cell[]): string =>
  hashOf(
    'compare',
    new URLSearchParams({
      runs: cells
        .slice(0, MAX_COMPARED)
        .map(({ run }) => run.id)
        .join(','),
    }),
  );

/// "2.31 ± 0.02 (3 of 3)": mean and standard deviation over seeds, number of figures and of seeds.
function groupText({ mean, spread, count, cells }: Group): string {
  if (mean === null) return cells.length === 0 ? DASH : `${cells.length} without a value`;
  const deviation = spread === null ? '' : ` ± ${formatSignificant(spread, 2)}`;
  return `${formatSignificant(mean)}${deviation}${cells.length > 1 ? ` (${count} of ${cells.length})` : ''}`;
}

function groupLink(group: Group, hidden: readonly Axis[], best: boolean): Child {
  const { cells } = group;
  if (cells.length === 0) return DASH;
  const settings = hidden.map(({ key }) => `${shortKey(key)} ${cells[0]!.coordinates.get(key) ?? DASH}`);
  return [
    h(
      'a',
      { href: cells.length === 1 ? hashOfRun(cells[0]!.run.id) : compareHash(cells) },
      groupText(group),
      best ? h('strong', {}, ' best') : null,
    ),
    group.mean !== null && settings.length > 0 ? h('small', { class: 'sweep-hidden' }, settings.join(', ')) : null,
  ];
}

/// The means over two axes as a table. A darker field is better, the best one is marked; it links to its run, or to the comparison
/// of its runs. `hidden`: axes at their best, whose values each field names.
export function heatTable(
  x: Axis,
  y: Axis | null,
  rows: readonly { label: string; groups: Group[] }[],
  metric: Metric,
  hidden: readonly Axis[],
): HTMLElement {
  const best = bestOf(
    rows.flatMap(({ groups }) => groups),
    metric,
  );
  const means = rows.flatMap(({ groups }) => groups.map(({ mean }) => mean));
  const corner = y ? `${y.key} ↓  ${x.key} →` : x.key;
  return h(
    'div',
    { class: 'table-box', tabindex: 0, role: 'region', 'aria-label': 'Heat map' },
    h(
      'table',
      { class: 'sweep-heat' },
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          h('th', { scope: 'col' }, corner),
          x.values.map((value) => h('th', { scope: 'col', class: 'number' }, value)),
        ),
      ),
      h(
        'tbody',
        {},
        rows.map(({ label, groups }) =>
          h(
            'tr',
            {},
            h('th', { scope: 'row' }, label || 'all'),
            groups.map((group) => {
              const shade = shadeOf(group.mean, means, metric);
              const marks = `${shade === null ? '' : ` shade-${shade}`}${group === best ? ' sweep-best' : ''}`;
              return h('td', { class: `number${marks}` }, groupLink(group, hidden, group === best));
            }),
          ),
        ),
      ),
    ),
  );
}

/// Orders cells by the metric, the best first, those without a value last.
export function byMetric(cells: readonly Cell[], metric: Metric, at: At): Cell[] {
  const sign = moreIsBetter(metric) ? -1 : 1;
  const key = (cell: Cell): number => {
    const value = figureOf(cell, metric, at);
    return value === null ? Infinity : sign * value;
  };
  return cells.toSorted((a, b) => (key(a) === key(b) ? 0 : key(a) - key(b)));
}

/// The cells with state, coordinates and metric.
export function cellTable(cells: readonly Cell[], axes: readonly Axis[], metric: Metric, at: At): Child {
  const shown = cells.slice(0, MAX_ROWS);
  return [
    table(
      'Cells',
      ['Run', 'State', ...axes.map(({ key }) => `#${key}`), '#Update', `#${metric}`],
      shown.map((cell) => [
        h('a', { href: hashOfRun(cell.run.id) }, cell.id),
        h('span', { class: `state state-${cell.run.state}`, title: cell.run.detail || null }, cell.run.state),
        ...axes.map(({ key }) => cell.coordinates.get(key) ?? DASH),
        formatCount(cell.run.update),
        formatSignificant(figureOf(cell, metric, at)),
      ]),
      shown.map(({ id }) => id),
    ),
    cells.length > shown.length
      ? h('p', { class: 'muted' }, `The first ${MAX_ROWS} of ${formatCount(cells.length)} cells: choose values above.`)
      : null,
  ];
}
