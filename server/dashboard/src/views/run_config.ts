import { explain, getJson } from '../api/client';
import { may } from '../api/session';
import type { Run } from '../api/types';
import type { RunData } from '../data/run_data';
import { differences, search } from '../lib/config_tree';
import { copyText } from '../lib/copy';
import { h, replaceChildren, setText } from '../lib/dom';
import { formatCount } from '../lib/format';
import type { ViewState } from '../lib/run_view';
import { hashOfRun } from '../lib/routes';
import { table } from './tables';

/// The resolved configuration, with text search and a comparison with another run.
export class Configuration {
  readonly element: HTMLElement;
  private readonly text = h('pre', { tabindex: 0, 'aria-label': 'Configuration' });
  private readonly search: HTMLInputElement;
  private readonly select: HTMLSelectElement;
  private readonly difference = h('div', {});
  private readonly said = h('span', { class: 'muted', role: 'status' });
  private config: string | null = null; // null: nothing drawn yet
  private offered = false;

  constructor(
    private readonly data: RunData,
    private readonly view: ViewState,
    private readonly onView: () => void,
  ) {
    this.search = h('input', {
      type: 'search',
      id: 'config-search',
      placeholder: 'Search the configuration',
      oninput: () => this.draw(),
    });
    this.select = h(
      'select',
      {
        id: 'config-against',
        onfocus: () => void this.offer(),
        onpointerdown: () => void this.offer(),
        onchange: () => {
          this.view.against = this.select.value;
          this.onView();
          void this.compare();
        },
      },
      h('option', { value: '' }, 'no other run'),
    );
    const copy = h('button', { type: 'button', class: 'chip', onclick: () => void this.copy() }, 'copy');
    const again = may('operate') && h('a', { class: 'chip', href: `#/submit?from=${data.id}` }, 'new run from this');
    this.element = h(
      'div',
      {},
      h(
        'p',
        { class: 'field-row' },
        h('label', { for: 'config-search', class: 'visually-hidden' }, 'Search the configuration'),
        this.search,
        h('label', { for: 'config-against' }, 'compare with'),
        this.select,
        copy,
        again,
        this.said,
      ),
      this.difference,
      this.text,
    );
  }

  update(): void {
    const config = this.data.run?.config ?? '';
    if (config === this.config) return;
    this.config = config;
    this.draw();
    if (this.view.against !== '') void this.offer().then(() => this.compare());
  }

  private async copy(): Promise<void> {
    setText(this.said, (await copyText(this.config ?? '')) ? 'copied' : 'the browser does not allow copying');
  }

  private draw(): void {
    const config = this.config ?? '';
    const lines = search(config, this.search.value);
    const hits = lines.filter(({ hit }) => hit).length;
    setText(this.said, this.search.value.trim() ? `${formatCount(hits)} ${hits === 1 ? 'line' : 'lines'}` : '');
    if (config === '') return replaceChildren(this.text, 'not reported');
    replaceChildren(
      this.text,
      lines.map(({ line, hit }) => (hit ? h('mark', { class: 'extra' }, `${line}\n`) : `${line}\n`)),
    );
  }

  /// Fetches the other runs when the user is about to choose one.
  private async offer(): Promise<void> {
    if (this.offered) return;
    this.offered = true;
    try {
      const { items } = await getJson<{ items: Run[] }>('/runs?limit=200');
      this.select.append(
        ...items
          .filter(({ id }) => id !== this.data.id)
          .map(({ id, name }) => h('option', { value: id }, `${name || 'unnamed'} · ${id.slice(-6)}`)),
      );
      this.select.value = this.view.against;
    } catch (error) {
      this.offered = false;
      setText(this.said, explain(error));
    }
  }

  private async compare(): Promise<void> {
    const id = this.view.against;
    if (id === '') return replaceChildren(this.difference);
    try {
      const other = await getJson<Run>(`/runs/${id}`);
      if (id !== this.view.against) return;
      const found = differences(this.config ?? '', other.config ?? '');
      const cell = (value: string | null, kind: string): HTMLElement =>
        value === null ? h('span', { class: 'muted' }, 'not set') : h('mark', { class: kind }, value);
      replaceChildren(
        this.difference,
        h(
          'p',
          {},
          found.length === 0
            ? 'No difference to '
            : `${formatCount(found.length)} ${found.length === 1 ? 'difference' : 'differences'} to `,
          h('a', { href: hashOfRun(id) }, other.name || id),
        ),
        found.length > 0
          ? table(
              'Differences of the configurations',
              ['Key', 'This run', 'Other run'],
              found.map(({ path, left, right }) => [h('code', {}, path), cell(left, 'extra'), cell(right, 'missed')]),
            )
          : null,
      );
    } catch (error) {
      replaceChildren(this.difference, h('p', { class: 'problem' }, `not compared: ${explain(error)}`));
    }
  }
}
