import { type Group, statsOf } from '../../data/choice';
import { staleForMs } from '../../data/runs';
import type { Run } from '../../api/types';
import { checkedOf, type Child, h, patchChildren } from '../../lib/dom';
import { cutMiddle, DASH, formatSignificant } from '../../lib/format';
import { hashOf, hashOfRun } from '../../lib/routes';
import { type Column, type Details, difference, type Value } from './columns';

export type RowActions = { select: (ids: readonly string[], on: boolean) => void; pin: (id: string) => void };

/// The data that every row is drawn from. `pinned`: the baseline.
export interface RowContext {
  columns: readonly Column[];
  details: Details;
  atMs: number;
  selected: ReadonlySet<string>;
  pinned: Run | null;
}

const NAME_LETTERS = 30; // with it and the usual columns a row fits into 1,440 px

/// The difference of a value to the pinned run's.
function offOf(column: Column, value: Value, { pinned, details }: RowContext): Child {
  const off = pinned && difference(column, value, column.value(pinned, details));
  if (!off) return null;
  return h('small', { class: `off ${off.good === null ? '' : off.good ? 'good' : 'bad'}` }, off.text);
}

abstract class Row {
  readonly element = h('tr');
  private mark = ''; // key of the shown state

  constructor(
    readonly id: string,
    protected readonly actions: RowActions,
  ) {}

  /// Changes the page only if the shown state has changed, so that focus and selection survive.
  protected draw(state: unknown, make: () => Child): void {
    const mark = JSON.stringify(state);
    if (mark === this.mark) return;
    this.mark = mark;
    patchChildren(this.element, make());
  }

  protected box(name: string, ids: readonly string[], on: boolean): HTMLElement {
    const onchange = (event: Event): void => this.actions.select(ids, checkedOf(event));
    return h('label.tick-box', h('input', { type: 'checkbox', checked: on, 'aria-label': `Tick ${name}`, onchange }));
  }
}

/// One run in the table.
export class RunRow extends Row {
  update(run: Run, context: RowContext): void {
    const { columns, details, atMs, pinned } = context;
    const silentMs = staleForMs(run, atMs, Date.now());
    const values = columns.map((column) => [
      column.id,
      column.value(run, details),
      column.known?.(run, details),
      pinned && column.value(pinned, details),
    ]);
    const silence = silentMs && Math.floor(silentMs / 1000);
    const selected = context.selected.has(run.id);
    const isPinned = pinned?.id === this.id;
    this.element.classList.toggle('pinned', isPinned);
    this.draw([run.name, selected, pinned?.id, run.archived, run.emulated, silence, values], () => [
      this.head(run, selected, isPinned),
      columns.map((column) => {
        const off = isPinned ? null : offOf(column, column.value(run, details), context);
        return h('td', { class: column.number && 'number' }, column.cell(run, details, atMs), off);
      }),
    ]);
  }

  private head(run: Run, selected: boolean, isPinned: boolean): Child {
    const { id, actions } = this;
    const name = run.name || run.id;
    const pin = {
      'aria-pressed': String(isPinned),
      'aria-label': `Pin ${name} as the baseline`,
      title: isPinned ? 'Baseline: other runs show their difference to this run' : 'Pin as the baseline',
      onclick: () => actions.pin(id),
    };
    return [
      h('td.tools', this.box(name, [id], selected), h('button.pin', pin, isPinned ? '★' : '☆')),
      h(
        'th',
        { scope: 'row' },
        h('a.run-name', { href: hashOfRun(id), title: name }, cutMiddle(name, NAME_LETTERS)),
        h('span.label', { hidden: run.archived !== true }, 'archived'),
        h('span.label', { hidden: run.emulated !== true }, 'emulated'),
      ),
    ];
  }
}

/// Runs that differ in their seeds only: means with standard deviations, and a link to their comparison.
export class GroupRow extends Row {
  update(group: Group, context: RowContext): void {
    const { columns, details, atMs, selected, pinned } = context;
    const ids = group.runs.map(({ id }) => id);
    const on = ids.every((id) => selected.has(id));
    const values = columns.map((column) => group.runs.map((run) => column.value(run, details)));
    this.draw([group.label, on, pinned?.id, values], () => {
      const name = group.label || `${group.runs[0]!.name} and repetitions`;
      const href = hashOf('compare', new URLSearchParams({ runs: ids.join() }));
      const link = h(
        'a.run-name',
        { href, title: group.runs.map((run) => run.name || run.id).join('\n') },
        cutMiddle(name, NAME_LETTERS),
      );
      return [
        h('td.tools', this.box(name, ids, on), h('span.seeds', `×${ids.length}`)),
        h('th', { scope: 'row' }, link),
        columns.map((column, at) => this.cell(column, group.runs, values[at]!, context, atMs)),
      ];
    });
  }

  private cell(
    column: Column,
    runs: readonly Run[],
    values: readonly Value[],
    context: RowContext,
    atMs: number,
  ): Child {
    const kind = { class: column.number && 'number' };
    if (new Set(values).size === 1) return h('td', kind, column.cell(runs[0]!, context.details, atMs));
    if (!column.number) return h('td.muted', `${new Set(values).size} values`);
    const { mean, spread, count } = statsOf(values.filter((value) => typeof value === 'number'));
    if (mean === null) return h('td', kind, DASH);
    const write = column.format ?? formatSignificant;
    const part = count < runs.length ? ` of ${count}` : '';
    const around = spread !== null && h('small.at', ` ± ${write(spread)}${part}`);
    return h('td', kind, write(mean), around, offOf(column, mean, context));
  }
}
