import { runCsvOf } from '../api/client';
import { h } from '../lib/dom';
import type { XMode } from '../lib/series';
import type { ViewState } from '../lib/view_state';

const MODES: readonly [XMode, string][] = [['update', 'update'], ['elapsed', 'elapsed'], ['wall', 'clock']];

export interface ToolbarActions {
  setX(mode: XMode): void;
  setSmoothing(value: number): void;
  resetZoom(): void;
}

/// The switches that act on all charts.
export class Toolbar {
  readonly element: HTMLElement;
  private readonly modes: HTMLButtonElement[];
  private readonly slider: HTMLInputElement;
  private readonly shown = h('output', { for: 'smoothing' });
  private readonly reset: HTMLButtonElement;

  constructor(run: string, actions: ToolbarActions) {
    this.modes = MODES.map(([mode, label]) => h('button', { type: 'button', class: 'chip', onclick: () => actions.setX(mode) }, label));
    this.slider = h('input', { type: 'range', id: 'smoothing', min: 0, max: 0.99, step: 0.01,
      oninput: () => actions.setSmoothing(Number(this.slider.value)) });
    this.reset = h('button', { type: 'button', class: 'chip', onclick: () => actions.resetZoom() }, 'show all');
    this.element = h('div', { class: 'toolbar', role: 'toolbar', 'aria-label': 'Charts' },
      h('span', { class: 'group', role: 'group', 'aria-label': 'Horizontal axis' }, h('span', { class: 'muted' }, 'x axis'), this.modes),
      h('span', { class: 'group' }, h('label', { for: 'smoothing', class: 'muted' }, 'smoothing'), this.slider, this.shown),
      this.reset, h('span', { class: 'hint muted' }, 'drag to zoom, double-click to show all'),
      h('a', { class: 'chip', href: runCsvOf(run), download: `${run}.csv` }, 'all steps as CSV'));
  }

  update(view: ViewState): void {
    this.modes.forEach((button, index) => button.setAttribute('aria-pressed', String(MODES[index]![0] === view.x)));
    this.slider.value = String(view.smoothing);
    this.shown.textContent = view.smoothing.toFixed(2);
    this.reset.disabled = view.range === null;
  }
}
