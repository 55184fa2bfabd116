import { getJson } from '../api/client';
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

/// The run that a path below /api/v1 is about; null where it is about something else.
export const runOf = (path: string): string | null => /^\/api\/v1\/runs\/(r_[0-9A-HJKMNP-TV-Z]{26})(?:\/|$)/.exec(path)?.[1] ?? null;

/// A path without the prefix that all have.
export const shortRoute = (route: string): string => route.replace(/^\/api\/v1/, '');

/// Every write, refused ones too: who, what, when, with what outcome. The newest page renews itself until older ones are wanted.
export class AuditPage extends ListPage {
  private entries: AuditEntry[] = [];
  private next: string | null = null;
  private paged = false;
  private readonly names = new RunNames();
  private readonly actor = h('input', { type: 'search', id: 'actor', placeholder: 'a token\'s name', onchange: () => this.filter() });
  private readonly count = h('span', { class: 'muted', role: 'status' });
  private readonly older = h('button', { type: 'button', class: 'chip', hidden: true, onclick: () => void this.loadOlder() }, 'older');
  private readonly newest = h('button', { type: 'button', class: 'chip', hidden: true, onclick: () => this.restart() }, 'back to the newest');

  constructor(root: HTMLElement, query: URLSearchParams, status: Status) {
    super(root, status, 'Audit');
    this.actor.value = query.get('actor') ?? '';
    this.start(EVERY_MS, h('p', { class: 'field-row' }, h('label', { for: 'actor' }, 'Only by'), this.actor, this.count, this.newest), h('p', {}, this.older));
  }

  protected async fetch(): Promise<void> {
    if (this.paged) return;
    const actor = this.actor.value.trim();
    const page = await this.page('');
    if (this.paged || actor !== this.actor.value.trim()) return;
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
    return table('Audit', ['When', 'By', 'What', '#Answer', 'Of', 'From', 'Request'], this.entries.map((entry): Child[] => {
      const run = runOf(entry.object);
      return [`${formatTime(entry.time)}:${entry.time.slice(17, 19)}`, h('button', { type: 'button', class: 'link', title: `Only by ${entry.actor}`, onclick: () => this.filter(entry.actor) }, entry.actor),
        `${entry.method} ${shortRoute(entry.route)}`, h('span', { class: entry.status >= 400 ? 'refused' : null }, entry.status),
        run ? this.names.link(run) : shortRoute(entry.object), entry.address, h('code', {}, entry.request)];
    }));
  }

  private async page(cursor: string): Promise<{ items: AuditEntry[]; next_cursor: string | null }> {
    const query = new URLSearchParams({ limit: String(A_PAGE), ...(this.actor.value.trim() ? { actor: this.actor.value.trim() } : {}), ...(cursor ? { cursor } : {}) });
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
    const query = new URLSearchParams(actor.trim() ? { actor: actor.trim() } : {});
    history.replaceState(null, '', hashOf('audit', query));
    this.restart();
  }

  private restart(): void {
    this.paged = false;
    void this.load();
  }
}
