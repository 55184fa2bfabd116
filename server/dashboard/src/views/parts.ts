import { BASE, explain } from '../api/client';
import type { Artifact, Run } from '../api/types';
import type { ChartDefinition } from '../charts/definitions';
import type { Part, RunData } from '../data/run_data';
import { type Child, h, patchChildren, swatch, tinted } from '../lib/dom';
import { formatDuration } from '../lib/format';
import type { RunTab, ViewState } from '../lib/routes';
import { staleForMs } from '../data/runs';
import { Life, oneAtATime } from '../lib/work';
import type { ChartActions } from './chart_grid';

/// Shared by the sections of a run's page with it.
export interface RunContext {
  data: RunData;
  view: ViewState;
  charts: ChartActions;
  anyChart: (key: string, aggregate: string) => ChartDefinition; // passed, so that no file imports the page's own
  reload: (parts: readonly Part[]) => void; // fetches these parts again after a change
  requestTrace: () => void; // asks the user for a trace of the next updates
  remember: () => void; // writes the view into the address
  showTab: (tab: RunTab) => Promise<void>;
}

export type StatusKind = 'loading' | 'live' | 'reconnecting' | 'stale' | 'finished';
export type Status = (kind: StatusKind, text: string) => void;

/// A page's environment: its root element, the status display, and `say`, which shows a notice.
export type Place = { root: HTMLElement; status: Status; say: (text: string) => void };

/// A page that the router shows. `close` ends its timers, streams and listeners.
export type Page = { close(): void };

/// A part of a page. Its owner loads, re-loads, renders and closes it, so it keeps no timers and no flags.
export interface Section {
  load?: () => Promise<void>; // fetches its own data; absent: it shows those of its page
  failed?: (error: unknown) => void; // absent: the failure is said
  render: () => Child;
  inputs?: () => readonly unknown[]; // what `render` reads beside `said`; absent: each draw() renders
  close?: () => void;
}

export type Maker = (owner: Owner) => Section;

/// Owns one section: loads its data, one request at a time, and renders it into `element` by changing only what differs.
export class Owner extends Life {
  readonly element: HTMLElement;
  said = ''; // the section shows it where it likes
  readonly load = oneAtATime(
    () => this.loadOnce(),
    this.open((error: unknown) => this.fail(error)),
  );
  private readonly section: Section;
  private shown: readonly unknown[] | undefined;

  constructor(make: Maker, spec: 'div' | `div.${string}` = 'div') {
    super();
    this.element = h(spec);
    this.section = make(this);
    this.atEnd(() => this.section.close?.());
  }

  /// Loads for the first time. Throws where that fails, unless the section shows failures itself.
  async begin(): Promise<void> {
    try {
      await this.loadOnce();
    } catch (error) {
      if (!this.section.failed) throw error;
      this.section.failed(error);
    }
  }

  say(text: string): void {
    this.set(() => (this.said = text));
  }

  /// Changes the state that the section renders, and renders it.
  set(change: () => unknown): void {
    change();
    this.draw();
  }

  /// Does something for the user and says the answer, or that it failed.
  async act(work: () => Promise<string>, failed = 'Failed'): Promise<void> {
    this.say(await work().catch((error: unknown) => `${failed}: ${explain(error)}`));
  }

  private fail(error: unknown): void {
    if (this.section.failed) this.section.failed(error);
    else this.say(`Not loaded: ${explain(error)}`);
  }

  private async loadOnce(): Promise<void> {
    await this.section.load?.();
    this.draw();
  }

  /// Renders the section, unless nothing that it reads has changed.
  readonly draw = this.open(() => {
    const inputs = this.section.inputs && [this.said, ...this.section.inputs()];
    if (inputs?.length === this.shown?.length && inputs?.every((input, at) => Object.is(input, this.shown![at])))
      return;
    this.shown = inputs;
    patchChildren(this.element, this.section.render());
  });
}

/// A line that tells what was done, for screen readers too.
export const status = (text: string): HTMLElement => h('p.muted', { role: 'status' }, text);

/// A highlighted word after a value. The space separates them for screen readers.
export const badge = (text: string): Child => [' ', h('span.best', text)];

/// A link that downloads the file of an artifact.
export const artifactFile = ({ id, name }: Artifact, text = name): HTMLElement =>
  h('a', { href: `${BASE}/artifacts/${id}/file`, download: name }, text);

/// The meaning of colours, as items of a list.
export const legendItems = (items: readonly (readonly [name: string, color: string])[]): Child =>
  items.map(([name, color]) => h('span.legend-item', swatch(color), name));

/// Parts of a whole side by side: colour, '' for none, and weight.
export function splitBar(parts: readonly (readonly [color: string, weight: number])[], more = ''): HTMLElement {
  const pieces = parts.map(([color, weight]) => {
    const piece = color ? tinted(h('span.part'), color) : h('span.part');
    piece.style.flexGrow = String(Math.max(0, weight));
    return piece;
  });
  return h(`span.split-bar${more}`, { 'aria-hidden': 'true' }, pieces);
}

/// The run's state as a coloured badge. A running run that stopped reporting is silent.
export function stateBadge(run: Run, atMs: number, nowMs: number): HTMLElement {
  const silentMs = staleForMs(run, atMs, nowMs);
  if (silentMs === null) return h(`span.state.state-${run.state}`, run.state);
  return h('span.state.state-stale', `silent for ${formatDuration(silentMs / 1000)}`);
}

/// A label with its field; `hidden` ones are for screen readers.
export const labelled = (text: string, field: HTMLElement, hidden = false): Child => [
  h(hidden ? 'label.visually-hidden' : 'label', { for: field.id }, text),
  field,
];

/// The options of a select; `chosen` is the value of the selected one.
export const options = (items: readonly (readonly [value: string, text: string])[], chosen?: string): Child =>
  items.map(([value, text]) => h('option', { value, selected: value === chosen }, text));

export const formField = (label: string, field: HTMLElement, ...more: Child[]): HTMLElement =>
  h('div.form-field', h('label', { for: field.id }, label), field, more);

type Head = string | HTMLTableCellElement;

const cellOf = (content: Child, kind: string | null): Child =>
  content instanceof HTMLTableCellElement ? content : h('td', { class: kind }, content);

/// A table that scrolls sideways inside its own box. A heading with a leading # marks a numeric column. `keys` identify the rows if
/// new ones are inserted before others; `none` stands where there are no rows. A cell that is a <th> or <td> stands as it is.
export function table(
  label: string,
  heads: readonly Head[],
  rows: readonly (readonly Child[])[],
  keys: readonly string[] = [],
  { kind = '', none = 'none yet' } = {},
): HTMLElement {
  const kinds = heads.map((head) => (typeof head === 'string' && head.startsWith('#') ? 'number' : null));
  const headOf = (head: Head, at: number): HTMLElement =>
    typeof head === 'string' ? h('th', { scope: 'col', class: kinds[at]! }, head.replace('#', '')) : head;
  const body = rows.map((row, which) =>
    h('tr', { 'data-key': keys[which] }, ...row.map((cell, at) => cellOf(cell, kinds[at]!))),
  );
  return h(
    'div.table-box',
    { tabindex: 0, role: 'region', 'aria-label': label },
    h(
      'table',
      { class: kind || null },
      h('thead', h('tr', heads.map(headOf))),
      h('tbody', rows.length > 0 ? body : h('tr', h('td.muted', { colspan: heads.length }, none))),
    ),
  );
}

/// Shows a modal dialog, which is gone when it is closed.
export function showDialog(spec: `dialog.${string}`, title: string, content: Child, onclose?: () => void): void {
  const dialog = h(spec, { 'aria-labelledby': title }, content);
  dialog.addEventListener('close', () => {
    dialog.remove();
    onclose?.();
  });
  document.body.append(dialog);
  dialog.showModal();
}

/// Closes the dialog that the event is in.
export const closeDialog = (event: Event): void => (event.currentTarget as Element).closest('dialog')?.close();
