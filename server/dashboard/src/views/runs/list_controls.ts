import { h, patchChildren, setText } from '../../lib/dom';
import { MAX_COMPARED } from '../../lib/run_view';
import type { ListState } from './list_state';

export interface ControlActions {
  change(part: Partial<ListState>): void;
  columns(): void;
  compare(): void;
  archive(archived: boolean): void;
  clear(): void;
}

export interface ControlFacts {
  count: string;
  selected: number;
  operate: boolean; // whether to show actions that need scope `operate`
  labels: readonly string[];
  states: readonly string[];
}

/// The controls above the list: search, filters, and actions for ticked runs.
export class ListControls {
  readonly element: HTMLElement;
  private readonly search: HTMLInputElement;
  private readonly label: HTMLInputElement;
  private readonly labels = h('datalist', { id: 'labels' });
  private readonly archived: HTMLInputElement;
  private readonly states = h('span', { class: 'group', role: 'group', 'aria-label': 'States' });
  private readonly count = h('p', { class: 'muted count-line', role: 'status' });
  private readonly submit = h('a', { class: 'chip primary', href: '#/submit' }, 'new run');
  private readonly selection: HTMLElement;
  private readonly selectedText = h('span');
  private readonly changers: HTMLButtonElement[];
  private state: ListState;

  constructor(state: ListState, actions: ControlActions) {
    this.state = state;
    this.search = h('input', {
      type: 'search',
      id: 'search',
      placeholder: 'Search runs (press /)',
      oninput: () => actions.change({ text: this.search.value }),
    });
    this.label = h('input', {
      type: 'search',
      id: 'label',
      list: 'labels',
      placeholder: 'label=value',
      class: 'narrow',
      oninput: () => actions.change({ label: this.label.value.trim() }),
    });
    this.archived = h('input', {
      type: 'checkbox',
      id: 'archived',
      onchange: () => actions.change({ archived: this.archived.checked }),
    });
    this.states.addEventListener('click', (event) => this.toggleState(event, actions));
    this.changers = [
      h('button', { type: 'button', class: 'chip', onclick: () => actions.archive(true) }, 'archive'),
      h('button', { type: 'button', class: 'chip', onclick: () => actions.archive(false) }, 'unarchive'),
    ];
    this.selection = h(
      'div',
      { class: 'selection', role: 'group', 'aria-label': 'Ticked runs' },
      this.selectedText,
      h('button', { type: 'button', class: 'chip primary', onclick: () => actions.compare() }, 'compare'),
      this.changers,
      h('button', { type: 'button', class: 'chip', onclick: () => actions.clear() }, 'untick all'),
    );
    this.element = h(
      'div',
      { class: 'list-controls' },
      h('div', { class: 'list-head' }, h('h1', {}, 'Runs'), this.count, this.submit),
      h(
        'div',
        { class: 'filters', role: 'search' },
        h('label', { for: 'search', class: 'visually-hidden' }, 'Search runs'),
        this.search,
        this.states,
        h('label', { for: 'label', class: 'visually-hidden' }, 'Label'),
        this.label,
        this.labels,
        h('label', { class: 'tick' }, this.archived, ' include archived'),
        h('button', { type: 'button', class: 'chip', onclick: () => actions.columns() }, 'columns'),
      ),
      this.selection,
    );
    this.search.value = state.text;
    this.label.value = state.label;
    this.archived.checked = state.archived;
  }

  private toggleState(event: Event, actions: ControlActions): void {
    const { state: name } = (event.target as HTMLElement).dataset;
    if (!name) return;
    const on = this.state.states.includes(name);
    actions.change({ states: on ? this.state.states.filter((each) => each !== name) : [...this.state.states, name] });
  }

  focusSearch(): void {
    this.search.focus();
    this.search.select();
  }

  update(state: ListState, facts: ControlFacts): void {
    this.state = state;
    setText(this.count, facts.count);
    this.submit.hidden = !facts.operate;
    this.selection.hidden = facts.selected === 0;
    setText(
      this.selectedText,
      `${facts.selected} ticked${facts.selected > MAX_COMPARED ? `, the first ${MAX_COMPARED} are compared` : ''}`,
    );
    this.changers.forEach((button) => {
      button.hidden = !facts.operate;
    });
    const states = [...new Set([...facts.states, ...state.states])];
    patchChildren(
      this.states,
      states.length > 1 || state.states.length > 0
        ? states.map((name) =>
            h(
              'button',
              {
                type: 'button',
                class: 'chip',
                'data-state': name,
                'aria-pressed': String(state.states.includes(name)),
              },
              name,
            ),
          )
        : null,
    );
    this.label.hidden = facts.labels.length === 0 && state.label === '';
    patchChildren(
      this.labels,
      facts.labels.map((value) => h('option', { value })),
    );
  }
}
