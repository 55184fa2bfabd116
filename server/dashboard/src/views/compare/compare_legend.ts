import { h, type Child, type Slot } from '../../lib/dom';
import { hashOfRun } from '../../lib/routes';
import type { Run } from '../../api/types';
import { colorOf } from './compare_lines';
import { cutText, type CompareState } from './compare_state';
import { shortFigure } from './compare_tables';
import type { ComparedRun } from './compared_run';

const OFFERED = 5;

type SetRuns = (ids: readonly string[]) => void;

function legendItem(run: ComparedRun, at: number, state: CompareState, setRuns: SetRuns): HTMLElement {
  const others = state.runs.filter((each) => each !== run.id);
  return h(
    'li',
    {},
    h('span', { class: `swatch swatch-${colorOf(at)}`, 'aria-hidden': 'true' }),
    h('a', { href: hashOfRun(run.id) }, run.name),
    at === 0
      ? h('span', { class: 'best' }, 'baseline')
      : h('button', { type: 'button', class: 'chip', onclick: () => setRuns([run.id, ...others]) }, 'make baseline'),
    h('span', { class: 'muted' }, shortFigure(run)),
    h(
      'button',
      { type: 'button', class: 'chip', 'aria-label': `Remove ${run.name}`, onclick: () => setRuns(others) },
      '×',
    ),
  );
}

/// The compared runs with their colours, or how to choose some.
export function legend(runs: readonly ComparedRun[], state: CompareState, setRuns: SetRuns): HTMLElement {
  if (runs.length === 0)
    return h(
      'p',
      {},
      'Choose the runs to compare: tick them in the ',
      h('a', { href: '#/runs' }, 'list'),
      ', or add them here.',
    );
  const cut = cutText(state.asked);
  return h(
    'div',
    {},
    cut ? h('p', { class: 'problem' }, cut) : null,
    h(
      'ul',
      { class: 'run-legend' },
      runs.map((run, at) => legendItem(run, at, state, setRuns)),
    ),
  );
}

/// Suggests the newest runs until there are two to compare.
export function offered(known: readonly Run[], compared: readonly string[], setRuns: SetRuns): Child {
  const free =
    compared.length < 2
      ? known.filter(({ id, emulated }) => !emulated && !compared.includes(id)).slice(0, OFFERED)
      : [];
  return free.length === 0
    ? null
    : h(
        'p',
        { class: 'filters' },
        h('span', { class: 'muted' }, 'newest'),
        free.map((run) =>
          h(
            'button',
            { type: 'button', class: 'chip', title: run.id, onclick: () => setRuns([...compared, run.id]) },
            `+ ${run.name || run.id}`,
          ),
        ),
      );
}

/// A slot as a region that scrolls and that the keyboard reaches.
export function tableBox(label: string, slot: Slot): HTMLElement {
  slot.element.className = 'table-box';
  slot.element.tabIndex = 0;
  slot.element.role = 'region';
  slot.element.ariaLabel = label;
  return slot.element;
}
