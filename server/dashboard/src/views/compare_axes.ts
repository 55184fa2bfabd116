import { shortNames, type Stats } from '../data/choice';
import { type Child, h, svg, tinted, valueOf } from '../lib/dom';
import { formatOf, formatSignificant } from '../lib/format';
import type { Lane } from './compare_groups';
import { labelled, options } from './parts';

/// A configuration's settings in which it differs from others, and its score over seeds.
export type Point = { lane: Pick<Lane, 'label' | 'color' | 'values'>; score: Stats };

/// Where the values of a setting stand on an axis, from 0 to 1: by their size, if all are numbers, else evenly spaced in order.
export type Scale = { at: (value: string) => number; ticks: readonly string[]; kind: 'linear' | 'log' | 'named' };

const WIDE_RATIO = 20; // from which on positive numbers are spaced by their logarithms, as learning rates are
const MAX_TICKS = 8;
const MAX_AXES = 7;
const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [900, 320, 64, 24, 16, 30];

export function scaleOf(values: readonly string[]): Scale {
  const names = [...new Set(values)];
  const numbers = names.map(Number);
  if (names.some((name, at) => name.trim() === '' || !Number.isFinite(numbers[at]))) {
    names.sort();
    const step = 1 / Math.max(1, names.length - 1);
    return { kind: 'named', ticks: names, at: (value) => (names.length === 1 ? 0.5 : names.indexOf(value) * step) };
  }
  const sorted = names.toSorted((a, b) => Number(a) - Number(b));
  const [low, high] = [Number(sorted[0]), Number(sorted.at(-1))];
  const log = low > 0 && high / low >= WIDE_RATIO;
  const size = (value: number): number => (log ? Math.log(value) : value);
  const range = size(high) - size(low);
  const at = (value: string): number => (range === 0 ? 0.5 : (size(Number(value)) - size(low)) / range);
  return { kind: log ? 'log' : 'linear', ticks: sorted, at };
}

/// The ticks whose names have room, the first and the last among them.
function shownTicks({ ticks }: Scale): readonly string[] {
  const every = Math.ceil(ticks.length / MAX_TICKS);
  return ticks.filter((_, at) => at % every === 0 || at === ticks.length - 1);
}

/// The keys in which all points have a value, those with the most values first.
export function axesOf(points: readonly Point[]): string[] {
  const keys = [...(points[0]?.lane.values.keys() ?? [])];
  return keys.filter((key) => points.every(({ lane }) => (lane.values.get(key) ?? '–') !== '–'));
}

/// From the least to the greatest score with its deviation, with a margin.
function rangeOf(points: readonly Point[]): [number, number] {
  const low = Math.min(...points.map(({ score }) => score.mean! - (score.spread ?? 0)));
  const high = Math.max(...points.map(({ score }) => score.mean! + (score.spread ?? 0)));
  const margin = (high - low || Math.abs(high) || 1) * 0.06;
  return [low - margin, high + margin];
}

/// Three to seven multiples of 1, 2 or 5 times a power of ten.
export function roundTicks(low: number, high: number): number[] {
  const rough = (high - low) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough)!;
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, at) => (first + at) * step);
}

const textOf = ({ lane, score }: Point, title: string, write: (value: number | null) => string): string =>
  `${lane.label}: ${title} ${write(score.mean)}${score.spread === null ? '' : ` ± ${write(score.spread)} over ${score.count} seeds`}`;

/// The score over one setting: a point for each configuration, a stroke for the standard deviation over its seeds.
export function scatter(points: readonly Point[], key: string, name: string, title: string, score: string): Child {
  const scale = scaleOf(points.map(({ lane }) => lane.values.get(key)!));
  const [low, high] = rangeOf(points);
  const x = (at: number): number => LEFT + 20 + at * (WIDTH - LEFT - RIGHT - 40);
  const y = (value: number): number => HEIGHT - BOTTOM - ((value - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const write = formatOf(`eval:${score}`);
  const grid = roundTicks(low, high).map((value): Child => {
    const line = { x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) };
    const place = { x: LEFT - 8, y: y(value) + 4, 'text-anchor': 'end' };
    return [svg('line.sweep-grid', line), svg('text', place, formatSignificant(value, 6))];
  });
  const names = shownTicks(scale).map((tick) =>
    svg('text', { x: x(scale.at(tick)), y: HEIGHT - 8, 'text-anchor': 'middle' }, tick),
  );
  const marks = points.map((point): Child => {
    const { lane, score: stats } = point;
    const cx = x(scale.at(lane.values.get(key)!));
    const [from, to] = [y(stats.mean! - (stats.spread ?? 0)), y(stats.mean! + (stats.spread ?? 0))];
    const circle = svg('circle', { cx, cy: y(stats.mean!), r: 4.5 }, svg('title', {}, textOf(point, title, write)));
    return tinted(svg('g.sweep-line', {}, svg('line', { x1: cx, x2: cx, y1: from, y2: to }), circle), lane.color);
  });
  const spaced = { linear: '', log: ', by its logarithm', named: ', evenly spaced' }[scale.kind];
  const box = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': `${title} over ${name}` };
  return [
    svg('svg.sweep-chart', box, grid, names, marks),
    h('p.chart-note', `${title} over ${name}${spaced}; strokes are standard deviations over seeds`),
  ];
}

/// Parallel coordinates: an axis for each setting and one for the score, a line for each configuration.
export function parallel(points: readonly Point[], keys: readonly string[], title: string, score: string): Child {
  const shown = keys.slice(0, MAX_AXES);
  const short = shortNames(keys);
  const write = formatOf(`eval:${score}`);
  const [low, high] = rangeOf(points);
  const scales = shown.map((key) => scaleOf(points.map(({ lane }) => lane.values.get(key)!)));
  const x = (axis: number): number => LEFT + (axis * (WIDTH - 2 * LEFT)) / shown.length;
  const y = (at: number): number => HEIGHT - BOTTOM - at * (HEIGHT - TOP - 2 * BOTTOM);
  const level = (value: number): number => (value - low) / (high - low);
  const axis = (at: number, name: string, ticks: readonly (readonly [number, string])[]): Child => [
    svg('line.sweep-grid', { x1: x(at), x2: x(at), y1: y(0), y2: y(1) }),
    svg('text', { x: x(at), y: TOP + 2, 'text-anchor': 'middle' }, name),
    ticks.map(([place, text]) => svg('text', { x: x(at) + 6, y: y(place) + 4 }, text)),
  ];
  const axes = scales.map((scale, at) =>
    axis(
      at,
      short.get(shown[at]!)!,
      shownTicks(scale).map((tick) => [scale.at(tick), tick] as const),
    ),
  );
  const least = Math.min(...points.map(({ score: { mean } }) => mean!));
  const most = Math.max(...points.map(({ score: { mean } }) => mean!));
  const ends = [...new Set([least, most])].map((value) => [level(value), write(value)] as const);
  const lines = points.toReversed().map((point) => {
    const places = scales.map((scale, at) => [x(at), y(scale.at(point.lane.values.get(shown[at]!)!))] as const);
    places.push([x(shown.length), y(level(point.score.mean!))]);
    const path = places.map(([px, py], at) => `${at === 0 ? 'M' : 'L'}${px.toFixed(1)},${py.toFixed(1)}`).join('');
    const told = svg('title', {}, textOf(point, title, write));
    return tinted(svg('g.sweep-line', {}, svg('path', { d: path }), told), point.lane.color);
  });
  const box = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': `Settings and ${title}, a line each` };
  const cut = keys.length - shown.length;
  return [
    svg('svg.sweep-chart', box, axes, axis(shown.length, title, ends), lines),
    cut > 0 && h('p.chart-note', `${cut} more settings have no axis: those with the most values have one`),
  ];
}

/// Both drawings of the configurations that have a score; null with fewer than two of them, or where no setting differs. `key`: the
/// setting of the horizontal axis, or '' for that with the most values; `choose` takes another.
export function settingCharts(
  all: readonly Point[],
  { title, score, key }: { title: string; score: string; key: string },
  choose: (key: string) => void,
): Child {
  const points = all.filter(({ score: { mean } }) => mean !== null);
  const keys = axesOf(points);
  if (points.length < 2 || keys.length === 0) return null;
  const short = shortNames(keys);
  const chosen = keys.includes(key) ? key : keys[0]!;
  const names = keys.map((each) => [each, short.get(each)!] as const);
  const onchange = (event: Event): void => choose(valueOf(event));
  return [
    h('p.field-row', labelled('Over', h('select', { id: 'axis-of', onchange }, options(names, chosen)))),
    h('div', scatter(points, chosen, short.get(chosen)!, title, score)),
    h('div', keys.length > 1 && parallel(points, keys, title, score)),
  ];
}
