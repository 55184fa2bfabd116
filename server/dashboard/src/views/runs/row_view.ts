import type { Run } from '../../api/types';
import { h, patchChildren } from '../../lib/dom';
import { staleForMs } from '../../lib/freshness';
import { hashOfRun } from '../../lib/routes';
import { difference, type Column, type Details } from './columns';

export interface RowActions {
  select(id: string, on: boolean): void;
  pin(id: string): void;
}

/// One run in the table. Reuses its elements, so that focus and selection survive updates.
export class RowView {
  readonly element: HTMLTableRowElement;
  readonly link: HTMLAnchorElement;
  private readonly check: HTMLInputElement;
  private readonly pinButton: HTMLButtonElement;
  private readonly archived = h('span', { class: 'label' }, 'archived');
  private readonly emulated = h('span', { class: 'label' }, 'emulated');
  private cells: HTMLTableCellElement[] = [];
  private mark = ''; // key of the shown state

  constructor(
    readonly id: string,
    actions: RowActions,
  ) {
    this.check = h('input', { type: 'checkbox', onchange: () => actions.select(id, this.check.checked) });
    this.pinButton = h('button', { type: 'button', class: 'pin', onclick: () => actions.pin(id) });
    this.link = h('a', { href: hashOfRun(id), class: 'run-name' });
    this.element = h(
      'tr',
      {},
      h('td', { class: 'tools' }, this.check, this.pinButton),
      h('th', { scope: 'row' }, this.link, ' ', this.archived, this.emulated),
    );
  }

  /// Changes the page only if the shown state has changed.
  update(
    run: Run,
    columns: readonly Column[],
    details: Details,
    atMs: number,
    view: { selected: boolean; pinned: Run | null },
  ): void {
    const silentMs = staleForMs(run, atMs, Date.now());
    const mark = JSON.stringify([
      run.name,
      view.selected,
      view.pinned?.id,
      run.archived,
      run.emulated,
      silentMs && Math.floor(silentMs / 1000),
      columns.map((column) => [
        column.id,
        column.value(run, details),
        column.known?.(run, details),
        view.pinned && column.value(view.pinned, details),
      ]),
    ]);
    if (mark === this.mark) return;
    this.mark = mark;
    const name = run.name || run.id;
    patchChildren(this.link, name);
    this.archived.hidden = run.archived !== true;
    this.emulated.hidden = run.emulated !== true;
    const isPinned = view.pinned?.id === this.id;
    this.check.checked = view.selected;
    this.check.setAttribute('aria-label', `Compare ${name}`);
    this.pinButton.setAttribute('aria-pressed', String(isPinned));
    this.pinButton.setAttribute('aria-label', `Pin ${name} as the baseline`);
    this.pinButton.textContent = isPinned ? '★' : '☆';
    this.pinButton.title = isPinned ? 'Baseline: other runs show their difference to this run' : 'Pin as the baseline';
    this.element.classList.toggle('pinned', isPinned);
    while (this.cells.length > columns.length) this.cells.pop()!.remove();
    columns.forEach((column, at) => {
      let cell = this.cells[at];
      if (!cell) this.element.append((cell = this.cells[at] = h('td')));
      cell.className = column.number ? 'number' : '';
      const off =
        view.pinned && !isPinned
          ? difference(column, column.value(run, details), column.value(view.pinned, details))
          : null;
      patchChildren(
        cell,
        column.cell(run, details, atMs),
        off ? h('small', { class: `off ${off.good === null ? '' : off.good ? 'good' : 'bad'}` }, off.text) : null,
      );
    });
  }
}
