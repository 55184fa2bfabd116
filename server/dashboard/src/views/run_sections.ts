import '../styles/sections.css';
import type { Part, RunData } from '../data/run_data';
import { h } from '../lib/dom';
import type { ViewState } from '../lib/run_view';
import type { ChartActions, ChartGrid } from './run_charts';
import { Checkpoints } from './run_checkpoints';
import { Configuration } from './run_config';
import { Fold } from './fold';
import { RunHistory } from './run_history';
import { RunLog } from './run_log';
import { AllMetrics } from './run_metrics';
import { Ranks } from './run_ranks';
import { Evaluations } from './run_samples';
import { TranslateBox } from './run_translate';

/// Callbacks from the sections to the page.
export interface SectionActions {
  charts: ChartActions;
  reload(parts: readonly Part[]): void; // fetches these parts again after a change
  requestTrace(): void; // asks the user for a trace of the next updates
  viewChanged(): void; // writes the view into the address
}

const section = (title: string, ...children: Node[]): HTMLElement =>
  h('section', { class: 'card section' }, h('h2', {}, title), ...children);

/// The sections of a run's page below its charts. Fetched as a separate file when the user scrolls near.
export class RunSections {
  readonly elements: readonly HTMLElement[];
  readonly log: RunLog;
  private readonly folds: readonly Fold[];
  private readonly ranks: Ranks;
  private readonly metrics: AllMetrics;
  private readonly parts: readonly { update(): void }[];

  constructor(data: RunData, view: ViewState, actions: SectionActions) {
    const { reload } = actions;
    const onView = (): void => actions.viewChanged();
    this.ranks = new Ranks(data, view, onView);
    this.metrics = new AllMetrics(data, view, actions.charts, onView);
    this.log = new RunLog(data, view, onView);
    const evaluations = new Evaluations(data, view, onView);
    const checkpoints = new Checkpoints(data, () => reload(['checkpoints']));
    const translate = new TranslateBox(data);
    const history = new RunHistory(data, () => reload(['alerts']));
    const config = new Configuration(data, view, onView);
    this.parts = [evaluations, checkpoints, translate, history, this.log, config, this.metrics];
    this.folds = [
      new Fold('Inside an update', async () => {
        const { Traces } = await import('./run_traces');
        return Traces.load(data, () => actions.requestTrace());
      }),
      new Fold('Parameters', async () => (await import('./run_parameters')).Parameters.load(data)),
      new Fold('Probes', async () => (await import('./run_probes')).Probes.load(data)),
      new Fold(
        'What if',
        async () => (await import('./run_what_if')).WhatIf.load(data, view, onView),
        view.whatIf !== '',
      ),
      new Fold('Report', async () => (await import('./run_report')).Report.load(data)),
    ];
    this.elements = [
      section('Ranks', this.ranks.element),
      ...this.folds.map(({ element }) => element),
      section('Evaluations', evaluations.element),
      section('Checkpoints', checkpoints.element, h('h3', {}, 'Translate a sentence'), translate.element),
      section('Alerts and history', history.element),
      section('Log', this.log.element),
      section('Configuration', config.element),
      this.metrics.element,
    ];
  }

  /// The charts of all metrics.
  get grid(): ChartGrid {
    return this.metrics.grid;
  }

  update(nowMs: number): void {
    this.ranks.update(nowMs);
    for (const part of this.parts) part.update();
  }

  /// Redraws after a change of theme.
  redraw(): void {
    this.grid.redraw();
    this.ranks.redraw();
  }

  /// Fetches what open sections show of artifacts again.
  refreshArtifacts(): void {
    this.folds.forEach((fold) => fold.refresh());
  }

  searchMetrics(): void {
    this.metrics.focus();
  }

  close(): void {
    [this.grid, this.ranks, this.log, ...this.folds].forEach((part) => part.close());
  }
}
