import { Chart, type ChartView } from '../charts/chart';
import type { ChartDefinition } from '../charts/definitions';
import type { RunData } from '../data/run_data';
import { h } from '../lib/dom';
import { Slices } from '../lib/slices';
import type { ViewState } from '../lib/run_view';

/// Callbacks from a grid of charts to the page.
export interface ChartActions {
  zoom(range: [number, number] | null): void;
  setLog(chart: string, log: boolean): void;
  cameIntoView(): void; // charts were mounted; their series may be missing
}

const AHEAD = '300px 0px'; // charts are mounted at this distance from the window

/// A grid of charts. Only charts near the window have a plot, so that a run with hundreds of keys stays usable.
export class ChartGrid {
  readonly element: HTMLElement;
  private readonly shown = new Map<string, { definition: ChartDefinition; chart: Chart }>();
  private readonly watcher: IntersectionObserver;
  private readonly inSight = new Set<Element>();
  private all = false;
  private readonly slices = new Slices<Chart>(); // drawing twenty plots at once would block the page

  constructor(
    label: string,
    private readonly data: RunData,
    private readonly actions: ChartActions,
  ) {
    this.element = h('section', { class: 'charts', 'aria-label': label });
    this.watcher = new IntersectionObserver((entries) => this.seen(entries), { rootMargin: AHEAD });
  }

  close(): void {
    this.watcher.disconnect();
    this.slices.clear();
    for (const { chart } of this.shown.values()) chart.destroy();
    this.shown.clear();
  }

  /// The series of the mounted charts.
  keys(): string[] {
    return [...this.shown.values()]
      .filter(({ chart }) => chart.mounted)
      .flatMap(({ definition }) => [...definition.keys(this.data)]);
  }

  /// Shows these charts in this order; keeps existing ones.
  arrange(definitions: readonly ChartDefinition[]): void {
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
    }
  }

  /// `now`: draws synchronously instead of when the browser is idle.
  draw(view: ViewState, range: [number, number], full: [number, number], now = false): void {
    const { x, logX } = view;
    for (const { definition, chart } of this.shown.values()) {
      if (!chart.mounted) continue;
      const waiting = definition.keys(this.data).some((name) => !this.data.series.has(name));
      const shown: ChartView = {
        x,
        logX,
        range,
        full,
        waiting,
        log: !definition.stacked && view.log.has(definition.id),
      };
      const update = (): void => chart.update(definition.data(this.data, view), shown);
      if (now) update();
      else this.slices.add(chart, update);
    }
  }

  /// Mounts all charts, visible or not, until `release`.
  mountAll(): void {
    this.all = true;
    for (const { chart } of this.shown.values()) if (!chart.mounted) chart.mount();
  }

  release(): void {
    this.all = false;
    for (const { chart } of this.shown.values()) {
      if (!this.inSight.has(chart.element)) chart.unmount();
      chart.fit();
    }
  }

  /// Fits the charts to the current width.
  fit(): void {
    for (const { chart } of this.shown.values()) chart.fit();
  }

  /// Redraws after a change of theme.
  redraw(): void {
    for (const { chart } of this.shown.values()) chart.redraw();
  }

  private make(definition: ChartDefinition): Chart {
    const { id, title, unit, axisFormat, evals = [], stacked = false } = definition;
    return new Chart({
      id,
      title,
      unit,
      axisFormat,
      fileName: () => this.data.fileName,
      onZoom: (range) => this.actions.zoom(range),
      onLog: stacked ? null : (log) => this.actions.setLog(id, log),
      csv: async () => {
        const { saveChartCsv } = await import('../data/export');
        await saveChartCsv(
          this.data.id,
          `${this.data.fileName}-${id}`,
          definition.keys(this.data),
          this.data.evals,
          evals,
        );
      },
    });
  }

  private seen(entries: readonly IntersectionObserverEntry[]): void {
    let mounted = false;
    for (const { target, isIntersecting } of entries) {
      const entry = [...this.shown.values()].find(({ chart }) => chart.element === target);
      if (isIntersecting) this.inSight.add(target);
      else this.inSight.delete(target);
      if (!entry || this.all || entry.chart.mounted === isIntersecting) continue;
      if (isIntersecting) entry.chart.mount();
      else entry.chart.unmount();
      mounted ||= isIntersecting;
    }
    if (mounted) this.actions.cameIntoView();
  }
}
