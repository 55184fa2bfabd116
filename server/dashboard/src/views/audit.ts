import { getJson } from '../api/client';
import { download } from '../api/download';
import { BASE } from '../api/request';
import type { AuditEntry } from '../api/types';
import { h, setText, type Child } from '../lib/dom';
import { formatClock, formatCount, formatTime } from '../lib/format';
import { hashOf } from '../lib/routes';
import { ListPage } from './list_page';
import type { Status } from './page';
import { RunNames } from './run_names';
import { table } from './tables';

const EVERY_MS = 5000;
const A_PAGE = 100;

/// The id of the run in a path below /api/v1/runs; null for other paths.
export const runOf = (path: string): string | null =>
  /^\/api\/v1\/runs\/(r_[0-9A-HJKMNP-TV-Z]{26})(?:\/|$)/.exec(path)?.[1] ?? null;

/// A path without the common prefix /api/v1.
export const shortRoute = (route: string): string => route.replace(/^\/api\/v1/, '');

/// Converts the text in the object field (a run's id, or a path with or without /api/v1) to a path.
export const objectPath = (text: string): string => {
  if (text.startsWith('r_')) return `/api/v1/runs/${text}`;
  return text.startsWith('/') && !text.startsWith('/api/') ? `/api/v1${text}` : text;
};

/// Converts the page's filters to API parameters. The page's `to` is the last day shown; the API's is exclusive.
export function auditQuery(filters: Readonly<Record<string, string>>): URLSearchParams {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(filters)) {
    if (!value) continue;
    const last = name === 'to' ? Date.parse(value) : NaN;
    query.set(
      name,
      name === 'object'
        ? objectPath(value)
        : Number.isNaN(last)
          ? value
          : new Date(last + 86_400_000).toISOString().slice(0, 10),
    );
  }
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

/// All write requests, including refused ones: actor, action, time, status. The newest page refreshes itself until older ones are loaded.
export class AuditPage extends ListPage {
  private entries: AuditEntry[] = [];
  private next: string | null = null;
  private paged = false;
  private readonly names = new RunNames();
  private readonly actor = h('input', {
    type: 'search',
    id: 'actor',
    placeholder: "a token's name",
    onchange: () => this.filter(),
  });
  private readonly object = h('input', {
    type: 'search',
    id: 'object',
    placeholder: "a run's id or a path",
    onchange: () => this.filter(),
  });
  private readonly answer = h(
    'select',
    { id: 'status', onchange: () => this.filter() },
    ANSWERS.map(([value, text]) => h('option', { value }, text)),
  );
  private readonly from = h('input', { type: 'date', id: 'from', onchange: () => this.filter() });
  private readonly to = h('input', { type: 'date', id: 'to', onchange: () => this.filter() });
  private readonly saving = h('span', { class: 'muted', role: 'status' });
  private readonly count = h('span', { class: 'muted', role: 'status' });
  private readonly older = h(
    'button',
    { type: 'button', class: 'chip', hidden: true, onclick: () => void this.loadOlder() },
    'older',
  );
  private readonly newest = h(
    'button',
    { type: 'button', class: 'chip', hidden: true, onclick: () => this.restart() },
    'back to the newest',
  );

  constructor(root: HTMLElement, query: URLSearchParams, status: Status) {
    super(root, status, 'Audit');
    for (const [name, field] of this.fields()) field.value = query.get(name) ?? '';
    const save = h('button', { type: 'button', class: 'chip', onclick: () => void this.save() }, 'save as JSON lines');
    this.start(
      EVERY_MS,
      h(
        'p',
        { class: 'field-row' },
        h('label', { for: 'actor' }, 'Actor'),
        this.actor,
        h('label', { for: 'object' }, 'object'),
        this.object,
        h('label', { for: 'status' }, 'status'),
        this.answer,
        h('label', { for: 'from' }, 'from'),
        this.from,
        h('label', { for: 'to' }, 'to'),
        this.to,
        this.count,
        this.newest,
        save,
        this.saving,
      ),
      h('p', {}, this.older),
    );
  }

  protected async fetch(): Promise<void> {
    if (this.paged) return;
    const asked = auditQuery(this.filters()).toString();
    const page = await this.page('');
    if (this.paged || asked !== auditQuery(this.filters()).toString()) return;
    this.entries = page.items;
    this.next = page.next_cursor;
  }

  protected override tell(): void {
    super.tell();
    if (this.paged) this.status('finished', `as of ${formatClock(Date.parse(this.entries[0]?.time ?? ''))}`);
  }

  protected inputs(): readonly unknown[] {
    return [this.entries];
  }

  protected draw(): HTMLElement {
    setText(this.count, `${formatCount(this.entries.length)}${this.next ? ' newest' : ''}`);
    this.older.hidden = this.next === null;
    this.newest.hidden = !this.paged;
    return table(
      'Audit',
      ['Time', 'Actor', 'Action', '#Status', '#Count', 'Object', 'Address', 'Request'],
      this.entries.map((entry): Child[] => {
        const run = runOf(entry.object);
        return [
          `${formatTime(entry.time)}:${entry.time.slice(17, 19)}`,
          h(
            'button',
            {
              type: 'button',
              class: 'link',
              title: `Filter by ${entry.actor}`,
              onclick: () => this.filter(entry.actor),
            },
            entry.actor,
          ),
          `${entry.method} ${shortRoute(entry.route)}`,
          h('span', { class: entry.status >= 400 ? 'refused' : null }, entry.status),
          h(
            'span',
            { title: entry.count > 1 ? `last at ${formatTime(entry.last_time)}` : null },
            formatCount(entry.count),
          ),
          run ? this.names.link(run) : shortRoute(entry.object),
          entry.address,
          h('code', {}, entry.request),
        ];
      }),
    );
  }

  private async page(cursor: string): Promise<{ items: AuditEntry[]; next_cursor: string | null }> {
    const query = auditQuery(this.filters());
    query.set('limit', String(A_PAGE));
    if (cursor) query.set('cursor', cursor);
    const page = await getJson<{ items: AuditEntry[]; next_cursor: string | null }>(`/audit?${query}`);
    await this.names.learn(page.items.flatMap(({ object }) => runOf(object) ?? []));
    return page;
  }

  private async loadOlder(): Promise<void> {
    if (!this.next) return;
    this.paged = true;
    this.older.disabled = true;
    try {
      const page = await this.page(this.next);
      this.entries = [...this.entries, ...page.items];
      this.next = page.next_cursor;
      this.tell();
      this.redraw();
    } catch (error) {
      this.complain(error);
    }
    this.older.disabled = false;
  }

  private filter(actor = this.actor.value): void {
    this.actor.value = actor;
    const query = new URLSearchParams(Object.entries(this.filters()).filter(([, value]) => value));
    history.replaceState(null, '', hashOf('audit', query));
    this.restart();
  }

  private fields(): readonly (readonly [string, HTMLInputElement | HTMLSelectElement])[] {
    return [
      ['actor', this.actor],
      ['object', this.object],
      ['status', this.answer],
      ['from', this.from],
      ['to', this.to],
    ];
  }

  private filters(): Record<string, string> {
    return Object.fromEntries(this.fields().map(([name, field]) => [name, field.value.trim()]));
  }

  private save(): Promise<void> {
    return download(`${BASE}/audit.jsonl?${auditQuery(this.filters())}`, '', (text) => setText(this.saving, text));
  }

  private restart(): void {
    this.paged = false;
    void this.load();
  }
}
