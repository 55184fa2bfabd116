import '../styles/list.css';
import { BASE, download, getJson } from '../api/client';
import type { AuditEntry } from '../api/types';
import { type Child, h, setText } from '../lib/dom';
import { formatClock, formatCount, formatTime } from '../lib/format';
import { hashOf, writeAddress } from '../lib/routes';
import { type List, ListPage, RunNames } from './list_page';
import { labelled, options, type Owner, type Page, type Place, table } from './parts';

const A_PAGE = 100;

/// The id of the run in a path below /api/v1/runs; null for other paths.
export const runOf = (path: string): string | null =>
  /^\/api\/v1\/runs\/(r_[0-9A-HJKMNP-TV-Z]{26})(?:\/|$)/.exec(path)?.[1] ?? null;

/// A path without the common prefix /api/v1.
export const shortRoute = (route: string): string => route.replace(/^\/api\/v1/, '');

/// Converts the text in the object field (a run's id, or a path with or without /api/v1) to a path.
const objectPath = (text: string): string => {
  if (text.startsWith('r_')) return `/api/v1/runs/${text}`;
  return text.startsWith('/') && !text.startsWith('/api/') ? `/api/v1${text}` : text;
};

/// The day after; other texts stay as they are.
const dayAfter = (text: string): string =>
  Number.isNaN(Date.parse(text)) ? text : new Date(Date.parse(text) + 86_400_000).toISOString().slice(0, 10);

/// Converts the page's filters to API parameters. The page's `to` is the last day shown; the API's is exclusive.
export function auditQuery(filters: Readonly<Record<string, string>>): URLSearchParams {
  const query = new URLSearchParams();
  const valueFor: Record<string, (text: string) => string> = { object: objectPath, to: dayAfter };
  for (const [name, value] of Object.entries(filters)) if (value) query.set(name, valueFor[name]?.(value) ?? value);
  return query;
}

const ANSWERS = [
  ['', 'any'],
  ['2xx', 'succeeded'],
  ['4xx', 'refused'],
  ['401', '401 no token'],
  ['403', '403 forbidden'],
  ['5xx', 'failed'],
] as const;

type Answer = { items: AuditEntry[]; next_cursor: string | null };

/// The fields that narrow the list, and its address with what they say.
class Filters {
  readonly element: HTMLElement;
  private readonly fields: readonly (HTMLInputElement | HTMLSelectElement)[];

  /// `more` stands behind the fields.
  constructor(query: URLSearchParams, changed: () => void, more: readonly Child[]) {
    const onchange = (): void => {
      const asked = new URLSearchParams(Object.entries(this.values()).filter(([, value]) => value));
      writeAddress(hashOf('audit', asked));
      changed();
    };
    const field = (id: string, type: string, placeholder?: string): HTMLInputElement =>
      h('input', { id, type, placeholder, onchange });
    this.fields = [
      field('actor', 'search', "a token's name"),
      field('object', 'search', "a run's id or a path"),
      h('select', { id: 'status', onchange }, options(ANSWERS)),
      field('from', 'date'),
      field('to', 'date'),
    ];
    for (const each of this.fields) each.value = query.get(each.id) ?? '';
    const shown = this.fields.map((each) => labelled(each.id === 'actor' ? 'Actor' : each.id, each));
    this.element = h('p.field-row', shown, more);
  }

  values(): Record<string, string> {
    return Object.fromEntries(this.fields.map(({ id, value }) => [id, value.trim()]));
  }

  setActor(name: string): void {
    const [actor] = this.fields;
    actor!.value = name;
    actor!.dispatchEvent(new Event('change'));
  }
}

/// All write requests, including refused ones: actor, action, time, status. The newest page refreshes itself until older ones are loaded.
class Audit implements List {
  readonly title = 'Audit';
  readonly everyMs = 5000;
  readonly above: HTMLElement;
  readonly below: HTMLElement;
  private readonly names = new RunNames();
  private readonly filters: Filters;
  private entries: AuditEntry[] = [];
  private next: string | null = null;
  private paged = false; // older ones are loaded
  private wanted: string | null = null; // the cursor of the page to add
  private readonly saving = h('span.muted', { role: 'status' });
  private readonly count = h('span.muted', { role: 'status' });
  private readonly older = h('button.chip', { hidden: true, onclick: () => this.loadOlder() }, 'older');
  private readonly newest = h('button.chip', { hidden: true, onclick: () => this.restart() }, 'back to the newest');

  constructor(
    private readonly page: Owner,
    query: URLSearchParams,
  ) {
    const save = h('button.chip', { onclick: () => void this.save() }, 'save as JSON lines');
    this.filters = new Filters(query, () => this.restart(), [this.count, this.newest, save, this.saving]);
    this.above = this.filters.element;
    this.below = h('p', this.older);
  }

  async load(): Promise<void> {
    const cursor = this.wanted;
    this.wanted = null;
    if (this.paged && cursor === null) return;
    const asked = auditQuery(this.filters.values()).toString();
    const found = await this.fetchPage(cursor ?? '').finally(() => (this.older.disabled = false));
    if (asked !== auditQuery(this.filters.values()).toString()) return;
    this.entries = cursor === null ? found.items : [...this.entries, ...found.items];
    this.next = found.next_cursor;
  }

  asOf(): string {
    return this.paged ? formatClock(Date.parse(this.entries[0]?.time ?? '')) : '';
  }

  inputs(): readonly unknown[] {
    return [this.entries];
  }

  render(): Child {
    setText(this.count, `${formatCount(this.entries.length)}${this.next ? ' newest' : ''}`);
    this.older.hidden = this.next === null;
    this.newest.hidden = !this.paged;
    const heads = ['Time', 'Actor', 'Action', '#Status', '#Count', 'Object', 'Address', 'Request'];
    const rows = this.entries.map((entry) => this.row(entry));
    return table('Audit', heads, rows);
  }

  private row(entry: AuditEntry): Child[] {
    const run = runOf(entry.object);
    const narrow = { title: `Filter by ${entry.actor}`, onclick: () => this.filters.setActor(entry.actor) };
    return [
      `${formatTime(entry.time)}:${entry.time.slice(17, 19)}`,
      h('button.link', narrow, entry.actor),
      `${entry.method} ${shortRoute(entry.route)}`,
      h('span', { class: entry.status >= 400 && 'refused' }, entry.status),
      h('span', { title: entry.count > 1 && `last at ${formatTime(entry.last_time)}` }, formatCount(entry.count)),
      run ? this.names.link(run) : shortRoute(entry.object),
      entry.address,
      h('code', entry.request),
    ];
  }

  private async fetchPage(cursor: string): Promise<Answer> {
    const asked = auditQuery(this.filters.values());
    asked.set('limit', String(A_PAGE));
    if (cursor) asked.set('cursor', cursor);
    const found = await getJson<Answer>(`/audit?${asked}`);
    await this.names.learn(found.items.flatMap(({ object }) => runOf(object) ?? []));
    return found;
  }

  private loadOlder(): void {
    [this.paged, this.wanted] = [true, this.next];
    this.older.disabled = true;
    this.page.load();
  }

  private restart(): void {
    this.paged = false;
    this.page.load();
  }

  private save(): Promise<void> {
    const path = `${BASE}/audit.jsonl?${auditQuery(this.filters.values())}`;
    return download(path, '', (text) => setText(this.saving, text));
  }
}

export const open = (place: Place, { query }: { query: URLSearchParams }): Page =>
  new ListPage(place, (page) => new Audit(page, query));
