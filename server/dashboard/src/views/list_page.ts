import { ApiError, explain, isAbort } from '../api/client';
import { h, replaceChildren, setText, Slot, type Child } from '../lib/dom';
import type { Page, Status } from './page';

/// A page with one list, fetched at once and then periodically while the page is visible. Shows the status of each fetch. Stops
/// with an explanation if the token lacks the scope. A subclass calls `start` at the end of its constructor.
export abstract class ListPage implements Page {
  protected closed = false;
  private readonly slot = new Slot();
  private readonly problem = h('p', { class: 'problem', role: 'alert' });
  private timer: ReturnType<typeof setInterval> | null = null;

  constructor(
    private readonly root: HTMLElement,
    protected readonly status: Status,
    private readonly title: string,
  ) {
    document.title = `${title} · Babelring`;
    status('loading', 'loading');
  }

  close(): void {
    this.closed = true;
    this.stop();
    this.root.replaceChildren();
  }

  /// Fetches the data.
  protected abstract fetch(): Promise<void>;
  /// Everything that `draw` reads. `draw` is called only if one of them has changed.
  protected abstract inputs(): readonly unknown[];
  protected abstract draw(): Child;

  protected start(everyMs: number, above: Child = null, below: Child = null): void {
    replaceChildren(
      this.root,
      h('h1', {}, this.title),
      above,
      this.problem,
      h('section', { class: 'card', 'aria-label': this.title }, this.slot.element),
      below,
    );
    this.timer = setInterval(() => {
      if (document.visibilityState === 'visible') void this.load();
    }, everyMs);
    void this.load();
  }

  protected async load(): Promise<void> {
    try {
      await this.fetch();
      if (this.closed) return;
      this.tell();
    } catch (error) {
      if (this.closed || isAbort(error)) return;
      if (error instanceof ApiError && error.status === 403) return this.refuse(error);
      this.status('reconnecting', 'reconnecting');
      this.complain(error);
    }
    this.redraw();
  }

  /// Shows that the data is up to date.
  protected tell(): void {
    this.status('live', 'live');
    setText(this.problem, '');
  }

  protected complain(error: unknown): void {
    setText(this.problem, explain(error));
  }

  protected redraw(): void {
    this.slot.show(this.inputs(), () => this.draw());
  }

  private refuse(error: ApiError): void {
    this.stop();
    this.status('stale', 'not allowed');
    this.complain(error);
    replaceChildren(
      this.root,
      h('h1', {}, this.title),
      this.problem,
      h('p', {}, 'Log in with a token that has the required scope, or ask the administrator of this server for one.'),
    );
  }

  private stop(): void {
    if (this.timer !== null) clearInterval(this.timer);
    this.timer = null;
  }
}
