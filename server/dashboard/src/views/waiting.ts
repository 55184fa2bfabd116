import { h, replaceChildren } from '../lib/dom';
import type { Page, Status } from './page';

const EVERY_MS = 2000;
const KEY = 'babelring.loaded-again';
const LOOP_MS = 20_000;

/// Whether to reload: not if the last reload was less than LOOP_MS ago.
export const mayReload = (lastMs: number, nowMs: number): boolean => nowMs - lastMs > LOOP_MS;

/// Shown if the file of a page could not be fetched. Reloads the address as soon as the server answers: the server may have been
/// updated, and its files may have new names.
export class WaitingPage implements Page {
  private readonly timer = setInterval(() => void this.look(), EVERY_MS);
  private readonly text = h('p', { role: 'status' }, 'The server does not answer. This page opens as soon as it does.');

  constructor(
    private readonly root: HTMLElement,
    status: Status,
  ) {
    status('reconnecting', 'waiting for the server');
    replaceChildren(root, h('h1', {}, 'Not loaded yet'), this.text);
  }

  close(): void {
    clearInterval(this.timer);
    this.root.replaceChildren();
  }

  private async look(): Promise<void> {
    const answer = await fetch(location.pathname, { cache: 'no-store' }).catch(() => null);
    if (!answer?.ok) return;
    clearInterval(this.timer);
    const nowMs = Date.now();
    if (!mayReload(Number(sessionStorage.getItem(KEY)), nowMs)) {
      replaceChildren(
        this.text,
        'A file of this page is missing on the server. ',
        h('a', { href: location.href, onclick: () => location.reload() }, 'Reload'),
      );
      return;
    }
    sessionStorage.setItem(KEY, String(nowMs));
    location.reload();
  }
}
