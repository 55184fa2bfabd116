import type { Artifact } from '../api/types';
import { type Child, h, valueOf } from '../lib/dom';
import { formatBytes, formatCount, formatPercent, formatScientific } from '../lib/format';
import * as lab from '../lib/lab';
import { artifactFile, options, type Owner, type Section, status, table } from './parts';
import type { RunContext } from './run_sections';

const WINDOWS = 12;
const UNSHOWN = 'not shown: they exceed 256 KiB or are of another version. nmt trace parameters shows their files.';
const NONE = 'No window yet. A run counts changes of its parameters if lab.parameters.window is set.';
const STRONGEST_PERCENT = 45; // of the colour in a cell, so that its text stays legible

interface Window extends lab.ParameterWindow {
  artifact: Artifact;
}

function heatCell(counter: lab.CounterId, value: number | null, all: readonly number[]): Child {
  if (value === null) return '';
  const cell = h('span.heat-cell', lab.cellText(counter, value));
  cell.style.setProperty('--heat', `${(STRONGEST_PERCENT * lab.heatOf(counter, value, all)).toFixed(1)}%`);
  return cell;
}

/// The newest window's parameters by all windows; `nameOf` shows the name of a parameter.
function heatMap(windows: readonly Window[], counter: lab.CounterId, nameOf: (name: string) => Child): Child {
  const { parameters } = windows.at(-1)!;
  const values = parameters.map(({ name }) =>
    windows.map((window) => {
      const parameter = window.parameters.find((each) => each.name === name);
      return parameter ? lab.cellValue(counter, window, parameter) : null;
    }),
  );
  const all = values.flat().filter((value) => value !== null);
  return table(
    'Parameters by window',
    ['Parameter', '#Rows', ...windows.map(({ last_update }) => `#to ${formatCount(last_update)}`)],
    parameters.map(({ name, rows, rows_are }, at) => [
      nameOf(name),
      `${formatCount(rows)} ${rows_are}`,
      ...values[at]!.map((value) => heatCell(counter, value, all)),
    ]),
    parameters.map(({ name }) => name),
  );
}

function rowsOf({ first_update, last_update, updates, artifact }: Window, parameter: lab.WindowParameter): Child {
  const { name, hottest, coldest } = parameter;
  const list = (label: string, rows: readonly lab.WindowRow[]): Child =>
    table(
      `${label} rows of ${name}`,
      [`${label} rows`, '#Changed', '#Ratio'],
      rows.map(({ row, label: text, changed, ratio }) => [
        text === '' ? `row ${formatCount(row)}` : `${formatCount(row)} ${text}`,
        formatPercent(changed / updates),
        formatScientific(ratio),
      ]),
    );
  const title = `${name}, updates ${formatCount(first_update)} to ${formatCount(last_update)} · `;
  return h(
    'div.lab',
    h('h3', title, artifactFile(artifact, 'download'), ` ${formatBytes(artifact.bytes)}`),
    hottest.length === 0
      ? h('p.muted', 'It is one row.')
      : h('div.lab-rows', list('Hottest', hottest), list('Coldest', coldest)),
  );
}

function summaryOf(newest: Window | undefined, unread: number): string {
  const unshown = unread > 0 ? `${unread === 1 ? '1 window is' : `${unread} windows are`} ${UNSHOWN}` : '';
  if (!newest) return unshown || NONE;
  const [cold, lost, untouched] = [newest.cold, newest.lost_in_rounding, newest.untouched_share].map((share) =>
    formatPercent(share),
  );
  return (
    `Updates ${formatCount(newest.first_update)} to ${formatCount(newest.last_update)}: ${cold} of the rows are cold, ` +
    `${lost} of the changes are lost in rounding, ${untouched} had no gradient. ${unshown}`
  );
}

/// Which rows of the parameters the optimizer changed: a heat map of parameters by windows, and the rows of one parameter.
export function parameters({ data }: RunContext, owner: Owner): Section {
  const artifacts = new lab.Artifacts(data.id, 'parameters', lab.readWindow);
  let windows: Window[] = []; // oldest first
  let unread = 0; // windows without a content that can be read
  let counter: lab.CounterId = lab.COUNTERS[0]!.id;
  let chosen = ''; // the parameter whose rows are shown
  const choose = (event: Event): void => {
    counter = valueOf(event) as lab.CounterId;
    owner.draw();
  };
  const nameOf = (name: string): Child => {
    const toggle = (): void => {
      chosen = name === chosen ? '' : name;
      owner.draw();
    };
    return h('button.link', { 'aria-expanded': String(name === chosen), onclick: toggle }, name);
  };
  return {
    load: async () => {
      const items = await artifacts.newest(2 * WINDOWS); // each window has two files
      unread = items.filter((item) => item.name.endsWith('.json') && !artifacts.content(item)).length;
      const read = items.flatMap((artifact): Window[] => {
        const window = artifacts.content(artifact);
        return window ? [{ ...window, artifact }] : [];
      });
      windows = read.slice(0, WINDOWS).reverse();
      owner.said = '';
    },
    render: () => {
      const newest = windows.at(-1);
      const parameter = newest?.parameters.find(({ name }) => name === chosen);
      const choices = options(lab.COUNTERS.map(({ id, name }) => [id, name]));
      return [
        h(
          'p.field-row',
          h('label', { for: 'parameter-counter' }, 'Counter'),
          h('select', { id: 'parameter-counter', onchange: choose }, choices),
          h('p.muted', lab.COUNTERS.find(({ id }) => id === counter)!.about),
        ),
        status(owner.said || summaryOf(newest, unread)),
        h('div', newest && heatMap(windows, counter, nameOf)),
        h('div', newest && parameter && rowsOf(newest, parameter)),
      ];
    },
  };
}
