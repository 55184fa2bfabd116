import { runCsvOf } from '../api/client';
import { h, setText } from '../lib/dom';
import type { XMode } from '../lib/series';
import type { ViewState } from '../lib/run_view';
import { X_UNITS } from '../lib/x_axis';

const MODES: readonly [XMode, string][] = [
  ['update', 'update'],
  ['elapsed', 'elapsed'],
  ['wall', 'clock'],
  ['tokens', 'tokens'],
];

export interface ToolbarActions {
  setX(mode: XMode): void;
  setLogX(log: boolean): void;
  setSmoothing(value: number): void;
  setLink?(gbit: number): void; // capacity of a host's link; absent if no network is shown
  scale(factor: number): void; // scales the shown range around its middle
  resetZoom(): void;
}

/// The controls for all charts.
export class Toolbar {
  readonly element: HTMLElement;
  private readonly modes: HTMLButtonElement[];
  private readonly slider: HTMLInputElement;
  private readonly shown = h('output', { for: 'smoothing' });
  private readonly logX: HTMLButtonElement;
  private readonly link: HTMLInputElement;
  private readonly linkField: HTMLElement;
  private readonly reset: HTMLButtonElement;
  private readonly further: HTMLButtonElement;
  private readonly hint = h('span', { class: 'hint muted' });
  private readonly csv: HTMLAnchorElement;

  constructor(
    run: string,
    private readonly view: ViewState,
    actions: ToolbarActions,
  ) {
    const chip = (label: string, name: string | null, work: () => void): HTMLButtonElement =>
      h(
        'button',
        { type: 'button', class: 'chip', 'aria-label': /\w/.test(label) ? null : name, title: name, onclick: work },
        label,
      );
    this.modes = MODES.map(([mode, label]) => chip(label, X_UNITS[mode], () => actions.setX(mode)));
    this.logX = chip('log x', 'logarithmic horizontal axis', () => actions.setLogX(!this.view.logX));
    this.slider = h('input', {
      type: 'range',
      id: 'smoothing',
      min: 0,
      max: 0.99,
      step: 0.01,
      oninput: () => actions.setSmoothing(Number(this.slider.value)),
    });
    this.link = h('input', {
      type: 'number',
      id: 'link',
      min: 0,
      max: 10000,
      step: 'any',
      placeholder: '–',
      value: view.linkGbit || null,
      onchange: () => actions.setLink?.(Math.max(0, Number(this.link.value) || 0)),
    });
    this.linkField = h(
      'span',
      {
        class: 'group',
        hidden: true,
        title: "Capacity of a host's link, drawn in the network chart. No rank reports it.",
      },
      h('label', { for: 'link', class: 'muted' }, 'link'),
      this.link,
      h('span', { class: 'muted' }, 'Gbit/s'),
    );
    this.csv = h('a', { class: 'chip', href: runCsvOf(run), download: `${run}.csv` }, 'all steps as CSV');
    this.reset = chip('show all', null, () => actions.resetZoom());
    this.further = chip('−', 'zoom out', () => actions.scale(2));
    this.element = h(
      'div',
      { class: 'toolbar', role: 'group', 'aria-label': 'All charts' },
      h(
        'span',
        { class: 'group', role: 'group', 'aria-label': 'Horizontal axis' },
        h('span', { class: 'muted' }, 'x axis'),
        this.modes,
        this.logX,
      ),
      h(
        'span',
        { class: 'group' },
        h('label', { for: 'smoothing', class: 'muted' }, 'smoothing'),
        this.slider,
        this.shown,
      ),
      h(
        'span',
        { class: 'group', role: 'group', 'aria-label': 'Zoom' },
        chip('+', 'zoom in', () => actions.scale(0.5)),
        this.further,
        this.reset,
      ),
      this.linkField,
      this.hint,
      this.csv,
    );
    this.update();
  }

  /// Shows or hides the field for the link capacity.
  askForLink(wanted: boolean): void {
    this.linkField.hidden = !wanted;
  }

  /// Sets the file name of the run's CSV.
  nameFile(name: string): void {
    this.csv.download = `${name}.csv`;
  }

  update(): void {
    const { view } = this;
    this.modes.forEach((button, index) => button.setAttribute('aria-pressed', String(MODES[index]![0] === view.x)));
    this.logX.setAttribute('aria-pressed', String(view.logX));
    this.logX.disabled = view.x === 'wall';
    this.slider.value = String(view.smoothing);
    setText(this.shown, view.smoothing.toFixed(2));
    this.reset.disabled = this.further.disabled = view.range === null;
    setText(this.hint, view.range === null ? 'drag to zoom' : 'zoomed: not following the run');
  }
}
