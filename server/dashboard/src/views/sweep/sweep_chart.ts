import { h } from '../../lib/dom';
import { formatSignificant } from '../../lib/format';
import { shortKey, type Axis, type Group } from '../../lib/sweep';

const WIDTH = 720;
const HEIGHT = 260;
const LEFT = 84;
const RIGHT = 16;
const TOP = 10;
const BOTTOM = 34;
const COLORS = ['blue', 'orange', 'teal', 'violet', 'bad', 'olive', 'pink', 'muted'];
const TICKS = 4;

function svg(tag: string, attributes: Record<string, string | number>, ...children: (Element | string)[]): SVGElement {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/// The range of all means with their spreads, wider by a twentieth.
function rangeOf(rows: readonly { groups: readonly Group[] }[]): [number, number] {
  const ends = rows.flatMap(({ groups }) =>
    groups.flatMap(({ mean, spread }) => (mean === null ? [] : [mean - (spread ?? 0), mean + (spread ?? 0)])),
  );
  const low = Math.min(...ends);
  const high = Math.max(...ends);
  const margin = (high - low || Math.abs(high) || 1) / 20;
  return [low - margin, high + margin];
}

function lineOf(groups: readonly Group[], color: string, x: (at: number) => number, y: (value: number) => number) {
  const points = groups.flatMap(({ mean, spread }, at) => (mean === null ? [] : [{ at: x(at), mean, spread }]));
  const path = points.map(({ at, mean }, index) => `${index === 0 ? 'M' : 'L'}${at},${y(mean)}`).join('');
  return svg(
    'g',
    { class: `sweep-line sweep-line-${color}` },
    svg('path', { d: path }),
    ...points.flatMap(({ at, mean, spread }) => [
      ...(spread === null ? [] : [svg('line', { x1: at, x2: at, y1: y(mean - spread), y2: y(mean + spread) })]),
      svg('circle', { cx: at, cy: y(mean), r: 3.5 }),
    ]),
  );
}

/// A chart of means over the values of one axis, evenly spaced, a line for each row; a vertical stroke is the standard deviation
/// over seeds.
/// The table of the heat map says the same in text.
export function sweepChart(title: string, x: Axis, rows: readonly { label: string; groups: Group[] }[]): HTMLElement {
  const known = rows.filter(({ groups }) => groups.some(({ mean }) => mean !== null));
  if (known.length === 0) return h('p', { class: 'muted' }, 'no evaluation yet');
  const shown = known.slice(0, COLORS.length);
  const [low, high] = rangeOf(shown);
  const step = (WIDTH - LEFT - RIGHT) / Math.max(1, x.values.length - 1);
  const xOf = (at: number): number => (x.values.length === 1 ? (LEFT + WIDTH - RIGHT) / 2 : LEFT + at * step);
  const yOf = (value: number): number => TOP + ((high - value) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const ticks = Array.from({ length: TICKS + 1 }, (_, at) => low + ((high - low) * at) / TICKS);
  const every = Math.ceil(x.values.length / 12);
  const picture = svg(
    'svg',
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': `${title} over ${x.key}`, class: 'sweep-chart' },
    ...ticks.flatMap((value) => [
      svg('line', { class: 'sweep-grid', x1: LEFT, x2: WIDTH - RIGHT, y1: yOf(value), y2: yOf(value) }),
      svg('text', { x: LEFT - 8, y: yOf(value) + 4, 'text-anchor': 'end' }, formatSignificant(value, 3)),
    ]),
    ...x.values.flatMap((value, at) =>
      at % every === 0 ? [svg('text', { x: xOf(at), y: HEIGHT - 8, 'text-anchor': 'middle' }, value)] : [],
    ),
    ...shown.map(({ groups }, at) => lineOf(groups, COLORS[at]!, xOf, yOf)),
  );
  const cut = known.length - shown.length;
  return h(
    'div',
    {},
    h(
      'ul',
      { class: 'run-legend' },
      shown.map(({ label }, at) =>
        h('li', {}, h('span', { class: `swatch swatch-${COLORS[at]}`, 'aria-hidden': 'true' }), label || 'all cells'),
      ),
    ),
    picture,
    h(
      'p',
      { class: 'chart-note' },
      `over ${shortKey(x.key)}, evenly spaced${cut > 0 ? `; ${cut} more lines are in the table` : ''}`,
    ),
  );
}
