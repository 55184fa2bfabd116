import { ApiError, explain, getJson } from '../api/client';
import type { Run } from '../api/types';
import { type Child, h, replaceChildren, setText } from '../lib/dom';
import { hashOfRun } from '../lib/routes';
import { Owner, type Page, type Place, type Section } from './parts';

const AT_ONCE = 50;

/// Names of runs that the server returns by id only. Each name is requested once.
export class RunNames {
  private readonly names = new Map<string, string>();

  async learn(ids: Iterable<string>): Promise<void> {
    const unknown = [...new Set(ids)].filter((id) => !this.names.has(id)).slice(0, AT_ONCE);
    const learnOne = async (id: string): Promise<void> => {
      const { name } = await getJson<Run>(`/runs/${id}`).catch(() => ({ name: '' }));
      this.names.set(id, name);
    };
    await Promise.all(unknown.map(learnOne));
  }

  link(id: string): HTMLElement {
    return h('a', { href: hashOfRun(id), title: id }, this.names.get(id) || `…${id.slice(-6)}`);
  }
}

/// A list that is a page: the section of its rows, and what stands around it.
export interface List extends Section {
  title: string;
  everyMs: number;
  load: () => Promise<void>;
  inputs: () => readonly unknown[];
  above?: Child;
  below?: Child;
  asOf?: () => string; // the time that the list is of, '' while it follows the server
}

/// A page with one list, fetched at once and then periodically while the page is visible. Shows the status of each fetch. Stops
/// with an explanation if the token lacks the scope.
export class ListPage extends Owner implements Page {
  private readonly problem = h('p.problem', { role: 'alert' });
  private refused = false;

  constructor(
    private readonly place: Place,
    make: (page: Owner) => List,
  ) {
    let list!: List;
    super((page) => {
      list = make(page);
      const load = async (): Promise<void> => {
        await list.load();
        this.open(() => this.tell(list.asOf?.() ?? ''))();
      };
      return {
        load,
        failed: (error) => this.showFailure(list.title, error),
        inputs: () => list.inputs(),
        render: () => list.render(),
        close: () => list.close?.(),
      };
    });
    const { root, status } = place;
    document.title = `${list.title} · Babelring`;
    status('loading', 'loading');
    const box = h('section.card', { 'aria-label': list.title }, this.element);
    replaceChildren(root, h('h1', list.title), list.above, this.problem, box, list.below);
    this.every(list.everyMs, () => document.visibilityState === 'visible' && !this.refused && this.load());
    this.atEnd(() => root.replaceChildren());
    this.load();
  }

  complain(error: unknown): void {
    setText(this.problem, explain(error));
  }

  private tell(asOf: string): void {
    this.place.status(asOf ? 'finished' : 'live', asOf ? `as of ${asOf}` : 'live');
    setText(this.problem, '');
  }

  private showFailure(title: string, error: unknown): void {
    this.complain(error);
    if (error instanceof ApiError && error.status === 403) {
      this.refused = true;
      this.place.status('stale', 'not allowed');
      const advice =
        'Log in with a token that has the required scope, or ask the administrator of this server for one.';
      return replaceChildren(this.place.root, h('h1', title), this.problem, h('p', advice));
    }
    this.place.status('reconnecting', 'reconnecting');
    this.draw();
  }
}
