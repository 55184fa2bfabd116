import { Chart, type ChartView } from '../charts/chart';
import { onThemeChange, zoomed } from '../charts/plot';
import type { ChartDefinition } from '../charts/definitions';
import type { RunData } from '../data/run_data';
import { X_UNITS } from '../lib/axes';
import { type Child, h, patchChildren, valueOf } from '../lib/dom';
import { X_MODES, type ViewState } from '../lib/routes';
import type { XMode } from '../lib/series';
import { Life, Slices } from '../lib/work';

type Range = [number, number];

/// A page with charts: what these and their toolbar ask of it.
export interface ChartActions {
  zoom: (range: Range | null) => void; // shows this range in all charts, null everything
  changed: () => void; // the view has changed
  cameIntoView: () => void; // charts were mounted; their series may be missing
  fileName: () => string; // prefix of the names of saved files
}

export interface ChartSource<Data> {
  data: Data;
  waiting: (chart: ChartDefinition<Data>) => boolean; // some of the chart's data are still being loaded
  saveCsv: (chart: ChartDefinition<Data>) => Promise<void>;
}

export const chartsOf = (data: RunData): ChartSource<RunData> => ({
  data,
  waiting: ({ keys }) => keys(data).some((name) => !data.series.has(name)),
  saveCsv: async ({ id, keys, evals = [] }) => {
    const { saveChartCsv } = await import('../data/export');
    await saveChartCsv(data.id, `${data.fileName}-${id}`, keys(data), data.evals, evals);
  },
});

const AHEAD_PX = 300; // charts are mounted at this distance from the window

/// A grid of charts. Only charts near the window have a plot, so that a run with hundreds of keys stays usable.
export class ChartGrid<Data> extends Life {
  readonly element: HTMLElement;
  private readonly shown = new Map<string, { definition: ChartDefinition<Data>; chart: Chart }>();
  private readonly watcher: IntersectionObserver;
  private readonly inSight = new Set<Element>();
  private all = false;
  private readonly slices = new Slices<Chart>(); // drawing twenty plots at once would block the page

  constructor(
    label: string,
    private readonly source: ChartSource<Data>,
    private readonly view: ViewState,
    private readonly actions: ChartActions,
  ) {
    super();
    this.element = h('section.charts', { 'aria-label': label });
    this.watcher = new IntersectionObserver((entries) => this.seen(entries), { rootMargin: `${AHEAD_PX}px 0px` });
    this.atEnd(
      onThemeChange(() => this.charts().forEach((chart) => chart.redraw())),
      () => this.watcher.disconnect(),
      () => this.slices.clear(),
      () => this.charts().forEach((chart) => chart.destroy()),
      () => this.shown.clear(),
    );
  }

  private charts(): Chart[] {
    return [...this.shown.values()].map(({ chart }) => chart);
  }

  mounted(): ChartDefinition<Data>[] {
    return [...this.shown.values()].filter(({ chart }) => chart.mounted).map(({ definition }) => definition);
  }

  /// Shows these charts in this order; keeps existing ones.
  arrange(definitions: readonly ChartDefinition<Data>[]): void {
    const wanted = new Set(definitions.map(({ id }) => id));
    if (wanted.size === this.shown.size && definitions.every(({ id }) => this.shown.has(id))) return;
    for (const [id, { chart }] of this.shown) {
      if (wanted.has(id)) continue;
      this.watcher.unobserve(chart.element);
      this.inSight.delete(chart.element);
      chart.destroy();
      this.shown.delete(id);
    }
    for (const definition of definitions) {
      const present = this.shown.get(definition.id) ?? { definition, chart: this.make(definition) };
      this.shown.set(definition.id, present);
      this.element.append(present.chart.element);
      this.watcher.observe(present.chart.element);
      if (this.all && !present.chart.mounted) present.chart.mount();
    }
  }

  /// `now`: draws synchronously instead of when the browser is idle.
  draw(range: Range, full: Range, now = false): void {
    const { x, logX, log } = this.view;
    for (const { definition, chart } of this.shown.values()) {
      if (!chart.mounted) continue;
      const waiting = this.source.waiting(definition);
      const shown: ChartView = { x, logX, range, full, waiting, log: !definition.stacked && log.has(definition.id) };
      const update = (): void => chart.update(definition.data(this.source.data, this.view), shown);
      if (now) update();
      else this.slices.add(chart, update);
    }
  }

  /// Mounts all charts, visible or not, until `release`.
  mountAll(): void {
    this.all = true;
    for (const chart of this.charts()) if (!chart.mounted) chart.mount();
  }

  release(): void {
    this.all = false;
    for (const chart of this.charts()) {
      if (!this.inSight.has(chart.element)) chart.unmount();
      chart.fit();
    }
  }

  fit(): void {
    this.charts().forEach((chart) => chart.fit());
  }

  private make(definition: ChartDefinition<Data>): Chart {
    const { id, title, unit, axisFormat, stacked = false, tools } = definition;
    const { fileName, zoom, changed } = this.actions;
    const setLog = (log: boolean): void => {
      if (log) this.view.log.add(id);
      else this.view.log.delete(id);
      changed();
    };
    const csv = (): Promise<void> => this.source.saveCsv(definition);
    const onLog = stacked ? null : setLog;
    return new Chart({ id, title, unit, axisFormat, fileName, onZoom: zoom, onLog, csv, tools });
  }

  private seen(entries: readonly IntersectionObserverEntry[]): void {
    let mounted = false;
    for (const { target, isIntersecting } of entries) {
      const chart = this.charts().find(({ element }) => element === target);
      if (isIntersecting) this.inSight.add(target);
      else this.inSight.delete(target);
      if (!chart || this.all || chart.mounted === isIntersecting) continue;
      if (isIntersecting) chart.mount();
      else chart.unmount();
      mounted ||= isIntersecting;
    }
    if (mounted) this.actions.cameIntoView();
  }
}

const MODE_LABELS = { update: 'update', elapsed: 'elapsed', wall: 'clock', tokens: 'tokens' };

/// The controls for all charts of a page.
export class Toolbar {
  readonly element = h('div.toolbar', { role: 'group', 'aria-label': 'All charts' });

  /// `full` returns the x values of everything, `more` what stands at the end; `asksLink`: whether the user may enter the capacity of a
  /// host's link.
  constructor(
    private readonly view: ViewState,
    private readonly actions: ChartActions,
    private readonly full: () => Range,
    private readonly more: () => Child,
    private readonly asksLink: () => boolean = () => false,
  ) {}

  switchLogX(): void {
    if (this.view.x !== 'wall') this.set({ logX: !this.view.logX });
  }

  update(): void {
    const hint = this.view.range === null ? 'drag to zoom' : 'zoomed: not following the run';
    const fields = [this.axisField(), this.smoothingField(), this.zoomField(), this.linkField()];
    patchChildren(this.element, fields, h('span.hint.muted', hint), this.more());
  }

  private set(part: Partial<ViewState>): void {
    Object.assign(this.view, part);
    this.actions.changed();
  }

  /// Scales the shown range around its middle.
  private scale(factor: number): void {
    const full = this.full();
    const range = this.view.range ?? full;
    this.actions.zoom(zoomed(range, (range[0] + range[1]) / 2, factor, full));
  }

  private axisField(): Child {
    const { x, logX } = this.view;
    const choose = (mode: XMode): void => {
      Object.assign(this.view, { x: mode, logX: logX && mode !== 'wall' });
      this.actions.zoom(null);
    };
    const chip = (text: string, title: string, on: boolean, onclick: () => void, disabled = false): HTMLElement =>
      h('button.chip', { title, 'aria-pressed': String(on), disabled, onclick }, text);
    const modes = X_MODES.map((mode) => chip(MODE_LABELS[mode], X_UNITS[mode], mode === x, () => choose(mode)));
    const log = chip('log x', 'logarithmic horizontal axis', logX, () => this.switchLogX(), x === 'wall');
    const group = { role: 'group', 'aria-label': 'Horizontal axis' };
    return h('span.group', group, h('span.muted', 'x axis'), modes, log);
  }

  private smoothingField(): Child {
    const { smoothing } = this.view;
    const range = { type: 'range', id: 'smoothing', min: 0, max: 0.99, step: 0.01, value: smoothing };
    const oninput = (event: Event): void => this.set({ smoothing: Number(valueOf(event)) });
    const label = h('label.muted', { for: 'smoothing' }, 'smoothing');
    const shown = h('output', { for: 'smoothing' }, smoothing.toFixed(2));
    return h('span.group', label, h('input', { ...range, oninput }), shown);
  }

  private zoomField(): Child {
    const whole = this.view.range === null;
    const sign = (text: string, name: string, disabled: boolean, factor: number): HTMLElement =>
      h('button.chip', { title: name, 'aria-label': name, disabled, onclick: () => this.scale(factor) }, text);
    const all = h('button.chip', { disabled: whole, onclick: () => this.actions.zoom(null) }, 'show all');
    const group = { role: 'group', 'aria-label': 'Zoom' };
    return h('span.group', group, sign('+', 'zoom in', false, 0.5), sign('−', 'zoom out', whole, 2), all);
  }

  private linkField(): Child {
    const title = "Capacity of a host's link, drawn in the network chart. No rank reports it.";
    const onchange = (event: Event): void => this.set({ linkGbit: Math.max(0, Number(valueOf(event)) || 0) });
    const range = { type: 'number', id: 'link', min: 0, max: 10000, step: 'any', placeholder: '–' };
    const field = h('input', { ...range, value: this.view.linkGbit || null, onchange });
    const label = h('label.muted', { for: 'link' }, 'link');
    return h('span.group', { hidden: !this.asksLink(), title }, label, field, h('span.muted', 'Gbit/s'));
  }
}

export interface Printable {
  begin: () => void; // synchronously shows everything loaded, at the width of the paper
  end: () => void;
  load: () => Promise<void>; // fetches everything that is not loaded yet
}

/// Prepares a page for printing in light colours and restores it afterwards. The keyboard shortcut first fetches missing data; the
/// browser's print menu cannot wait and prints what is loaded. Returns a function that removes the listeners.
export function followPrinting(page: Printable): () => void {
  const { documentElement: root } = document;
  const listening = new AbortController();
  let theme: string | undefined;
  const switchTheme = (to: string | undefined): void => {
    if (to === undefined) delete root.dataset['theme'];
    else root.dataset['theme'] = to;
    window.dispatchEvent(new Event('themechange'));
  };
  const before = (): void => {
    if (root.classList.contains('printing')) return;
    root.classList.add('printing');
    theme = root.dataset['theme'];
    page.begin();
    switchTheme('light');
  };
  const after = (): void => {
    if (!root.classList.contains('printing')) return;
    root.classList.remove('printing');
    page.end();
    switchTheme(theme);
  };
  const key = (event: KeyboardEvent): void => {
    if (event.key.toLowerCase() !== 'p' || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
    event.preventDefault();
    const print = (): void => window.print();
    void page.load().then(print, print);
  };
  window.addEventListener('beforeprint', before, listening);
  window.addEventListener('afterprint', after, listening);
  window.addEventListener('keydown', key, listening);
  return () => {
    after();
    listening.abort();
  };
}
