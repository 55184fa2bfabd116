import { anyChart } from '../charts/any_chart';
import type { RunData } from '../data/run_data';
import { h, setText } from '../lib/dom';
import { formatCount, formatSignificant } from '../lib/format';
import type { ViewState } from '../lib/run_view';
import { ChartGrid, type ChartActions } from './run_charts';

/// Whether the key contains all words of the text, in any order.
export function matches(key: string, text: string): boolean {
  const name = key.toLowerCase();
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => name.includes(word));
}

/// A chart for every reported key, with text search.
export class AllMetrics {
  readonly element: HTMLDetailsElement;
  readonly grid: ChartGrid;
  private readonly search: HTMLInputElement;
  private readonly count = h('span', { class: 'muted', role: 'status' });

  constructor(
    private readonly data: RunData,
    private readonly view: ViewState,
    actions: ChartActions,
    onView: () => void,
  ) {
    this.grid = new ChartGrid('All metrics', data, actions);
    this.search = h('input', {
      type: 'search',
      id: 'find-metric',
      placeholder: 'Search keys (press /)',
      value: view.find,
      oninput: () => {
        this.view.find = this.search.value;
        this.update();
        onView();
      },
    });
    this.element = h(
      'details',
      {
        class: 'card section',
        open: view.all,
        ontoggle: () => {
          this.view.all = this.element.open;
          this.update();
          onView();
        },
      },
      h('summary', {}, h('h2', {}, 'All metrics')),
      h(
        'p',
        { class: 'field-row' },
        h('label', { class: 'visually-hidden', for: 'find-metric' }, 'Search keys'),
        this.search,
        this.count,
      ),
      this.grid.element,
    );
  }

  focus(): void {
    this.element.open = true;
    this.search.focus();
    this.search.scrollIntoView({ block: 'nearest' });
  }

  update(): void {
    const found = this.data.keys.filter(({ key }) => matches(key, this.view.find));
    const only = found.length === 1 ? found[0] : undefined;
    setText(
      this.count,
      `${formatCount(found.length)} of ${formatCount(this.data.keys.length)} keys${
        only
          ? ` · rank 0: last ${formatSignificant(only.last)}, min ${formatSignificant(only.min)} at ${formatCount(only.min_step)}, max ${formatSignificant(only.max)} at ${formatCount(only.max_step)}`
          : ''
      }`,
    );
    this.grid.arrange(this.element.open ? found.map(({ key, aggregate }) => anyChart(key, aggregate)) : []);
  }
}
