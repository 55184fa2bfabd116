import { explain } from '../api/client';
import { BASE } from '../api/request';
import type { Artifact } from '../api/types';
import { Artifacts } from '../data/artifacts';
import type { RunData } from '../data/run_data';
import { h, setText, Slot, type Child } from '../lib/dom';
import { formatBytes, formatCount, formatPercent, formatScientific } from '../lib/format';
import { oneAtATime } from '../lib/one_at_a_time';
import {
  cellText,
  cellValue,
  COUNTERS,
  heatOf,
  readWindow,
  type CounterId,
  type ParameterWindow,
  type WindowParameter,
  type WindowRow,
} from '../lib/parameter_windows';
import type { FoldContent } from './fold';
import { table } from './tables';

const WINDOWS = 12;
const UNSHOWN = 'not shown: they exceed 256 KiB or are of another version. nmt trace parameters shows their files.';
const STRONGEST_PERCENT = 45; // of the colour in a cell, so that its text stays legible

interface Window extends ParameterWindow {
  artifact: Artifact;
}

/// Which rows of the parameters the optimizer changed: a heat map of parameters by windows, and the rows of one parameter.
export class Parameters implements FoldContent {
  readonly element: HTMLElement;
  readonly refresh: () => void;
  private readonly map = new Slot();
  private readonly rows = new Slot();
  private readonly about = h('p', { class: 'muted' });
  private readonly said = h('p', { class: 'muted', role: 'status' });
  private readonly select: HTMLSelectElement;
  private readonly artifacts: Artifacts<ParameterWindow>;
  private windows: readonly Window[] = []; // oldest first
  private unshown = 0; // windows without a content that can be read
  private chosen = ''; // the parameter whose rows are shown
  private closed = false;

  private constructor(data: RunData) {
    this.artifacts = new Artifacts(data.id, 'parameters', readWindow);
    this.refresh = oneAtATime(
      () => this.fetch(),
      (error) => setText(this.said, `Not loaded: ${explain(error)}`),
    );
    this.select = h(
      'select',
      { id: 'parameter-counter', onchange: () => this.draw() },
      COUNTERS.map(({ id, name }) => h('option', { value: id }, name)),
    );
    this.element = h(
      'div',
      { class: 'lab' },
      h('p', { class: 'field-row' }, h('label', { for: 'parameter-counter' }, 'Counter'), this.select, this.about),
      this.said,
      this.map.element,
      this.rows.element,
    );
  }

  static async load(data: RunData): Promise<Parameters> {
    const parameters = new Parameters(data);
    await parameters.fetch();
    return parameters;
  }

  close(): void {
    this.closed = true;
  }

  private async fetch(): Promise<void> {
    const items = await this.artifacts.newest(2 * WINDOWS); // each window has two files
    if (this.closed) return;
    this.unshown = items.filter((item) => item.name.endsWith('.json') && !this.artifacts.content(item)).length;
    this.windows = items
      .flatMap((artifact) => {
        const window = this.artifacts.content(artifact);
        return window ? [{ ...window, artifact }] : [];
      })
      .slice(0, WINDOWS)
      .reverse();
    this.draw();
  }

  private draw(): void {
    const { windows } = this;
    const counter = this.select.value as CounterId;
    const newest = windows.at(-1);
    setText(this.about, COUNTERS.find(({ id }) => id === counter)!.about);
    const unshown =
      this.unshown > 0 ? `${this.unshown === 1 ? '1 window is' : `${this.unshown} windows are`} ${UNSHOWN}` : '';
    setText(
      this.said,
      newest
        ? `Updates ${formatCount(newest.first_update)} to ${formatCount(newest.last_update)}: ${formatPercent(newest.cold)} of the rows are cold, ` +
            `${formatPercent(newest.lost_in_rounding)} of the changes are lost in rounding, ${formatPercent(newest.untouched_share)} had no gradient. ${unshown}`
        : unshown || 'No window yet. A run counts changes of its parameters if lab.parameters.window is set.',
    );
    this.map.show([windows, counter, this.chosen], () => (newest ? this.heatMap(counter, newest) : null));
    this.rows.show([newest, this.chosen], () => {
      const parameter = newest?.parameters.find(({ name }) => name === this.chosen);
      return newest && parameter ? this.rowsOf(newest, parameter) : null;
    });
  }

  private heatMap(counter: CounterId, newest: Window): Child {
    const values = newest.parameters.map(({ name }) =>
      this.windows.map((window) => {
        const parameter = window.parameters.find((each) => each.name === name);
        return parameter ? cellValue(counter, window, parameter) : null;
      }),
    );
    const all = values.flat().filter((value) => value !== null);
    return table(
      'Parameters by window',
      ['Parameter', '#Rows', ...this.windows.map(({ last_update }) => `#to ${formatCount(last_update)}`)],
      newest.parameters.map((parameter, at) => [
        this.choice(parameter),
        `${formatCount(parameter.rows)} ${parameter.rows_are}`,
        ...values[at]!.map((value) => (value === null ? '' : this.cell(counter, value, all))),
      ]),
      newest.parameters.map(({ name }) => name),
    );
  }

  private cell(counter: CounterId, value: number, all: readonly number[]): HTMLElement {
    const cell = h('span', { class: 'heat-cell' }, cellText(counter, value));
    cell.style.setProperty('--heat', `${(STRONGEST_PERCENT * heatOf(counter, value, all)).toFixed(1)}%`);
    return cell;
  }

  private choice({ name }: WindowParameter): HTMLElement {
    return h(
      'button',
      {
        type: 'button',
        class: 'link',
        'aria-expanded': String(name === this.chosen),
        onclick: () => {
          this.chosen = name === this.chosen ? '' : name;
          this.draw();
        },
      },
      name,
    );
  }

  private rowsOf(window: Window, parameter: WindowParameter): Child {
    const { name, hottest, coldest } = parameter;
    const list = (label: string, rows: readonly WindowRow[]): Child =>
      table(
        `${label} rows of ${name}`,
        [`${label} rows`, '#Changed', '#Ratio'],
        rows.map(({ row, label: text, changed, ratio }) => [
          text === '' ? `row ${formatCount(row)}` : `${formatCount(row)} ${text}`,
          formatPercent(changed / window.updates),
          formatScientific(ratio),
        ]),
      );
    return h(
      'div',
      { class: 'lab' },
      h(
        'h3',
        {},
        `${name}, updates ${formatCount(window.first_update)} to ${formatCount(window.last_update)} · `,
        h('a', { href: `${BASE}/artifacts/${window.artifact.id}/file`, download: window.artifact.name }, 'download'),
        ` ${formatBytes(window.artifact.bytes)}`,
      ),
      hottest.length === 0
        ? h('p', { class: 'muted' }, 'It is one row.')
        : h('div', { class: 'lab-rows' }, list('Hottest', hottest), list('Coldest', coldest)),
    );
  }
}
