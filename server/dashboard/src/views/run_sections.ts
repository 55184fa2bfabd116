import '../styles/sections.css';
import { anyChart } from '../charts/definitions';
import type { Part, RunData } from '../data/run_data';
import { h, setText, valueOf } from '../lib/dom';
import { formatCount, formatSignificant } from '../lib/format';
import type { ViewState } from '../lib/routes';
import { Life } from '../lib/work';
import { type ChartActions, ChartGrid, chartsOf } from './chart_grid';
import { Fold, labelled, type Maker, Owner, type Section } from './parts';
import { checkpoints, translation } from './run_checkpoints';
import { configuration } from './run_config';
import { evaluations } from './run_evaluations';
import { history, log } from './run_log';
import { ranks } from './run_ranks';

/// Shared by the sections of a run's page with it.
export interface RunContext {
  data: RunData;
  view: ViewState;
  charts: ChartActions;
  reload: (parts: readonly Part[]) => void; // fetches these parts again after a change
  requestTrace: () => void; // asks the user for a trace of the next updates
  remember: () => void; // writes the view into the address
}

type Make = (run: RunContext, owner: Owner) => Section;

/// The sections whose code and data are fetched when they are opened.
const FOLDS: readonly [title: string, fetch: () => Promise<Make>][] = [
  ['Inside an update', async () => (await import('./run_traces')).traces],
  ['Parameters', async () => (await import('./run_parameters')).parameters],
  ['Probes', async () => (await import('./run_probes')).probes],
  ['What if', async () => (await import('./run_what_if')).whatIf],
  ['Report', async () => (await import('./run_report')).report],
];

const section = (title: string, ...children: Node[]): HTMLElement =>
  h('section.card.section', h('h2', title), ...children);

/// The sections of a run's page below its charts. Fetched as a separate file when the user scrolls near.
export class RunSections extends Life {
  readonly elements: readonly HTMLElement[];
  readonly grid: ChartGrid<RunData>; // the charts of all metrics
  private readonly owners: readonly Owner[];
  private readonly loading: readonly Owner[]; // those whose data depend on that of the page
  private readonly folds: readonly Fold[];
  private readonly log: Owner;
  private readonly metrics: AllMetrics;

  constructor(run: RunContext) {
    super();
    const own = (make: Make, spec?: `div.${string}`): Owner => new Owner((owner) => make(run, owner), spec);
    const fold = ([title, fetch]: (typeof FOLDS)[number]): Fold => {
      const maker = async (): Promise<Maker> => {
        const make = await fetch();
        return (owner) => make(run, owner);
      };
      return new Fold(title, maker, title === 'What if' && run.view.whatIf !== '');
    };
    const [heat, scores, files, box, events, config] = [
      own(ranks, 'div.ranks'),
      own(evaluations, 'div.evaluations'),
      own(checkpoints),
      own(translation),
      own(history, 'div.history'),
      own(configuration),
    ] as const;
    this.log = own(log);
    this.metrics = new AllMetrics(run);
    this.grid = this.metrics.grid;
    this.owners = [heat, scores, files, box, events, this.log, config];
    this.loading = [heat, scores];
    this.folds = FOLDS.map(fold);
    this.atEnd(...[...this.owners, ...this.folds, this.grid].map((part) => () => part.close()));
    this.elements = [
      section('Ranks', heat.element),
      ...this.folds.map(({ element }) => element),
      section('Evaluations', scores.element),
      section('Checkpoints', files.element, h('h3', 'Translate a sentence'), box.element),
      section('Alerts and history', events.element),
      section('Log', this.log.element),
      section('Configuration', config.element),
      this.metrics.element,
    ];
  }

  /// Shows what the page has fetched.
  update(): void {
    this.owners.forEach((owner) => owner.draw());
    this.loading.forEach((owner) => owner.load());
    this.metrics.update();
  }

  loadLog(): void {
    this.log.load();
  }

  /// Fetches what open sections show of artifacts again.
  refreshArtifacts(): void {
    this.folds.forEach((fold) => fold.refresh());
  }

  searchMetrics(): void {
    this.metrics.focus();
  }
}

/// Whether the key contains all words of the text, in any order.
export function matches(key: string, text: string): boolean {
  const name = key.toLowerCase();
  const words = text.toLowerCase().split(/\s+/);
  return words.every((word) => name.includes(word));
}

/// A chart for every reported key, with text search.
class AllMetrics {
  readonly element: HTMLDetailsElement;
  readonly grid: ChartGrid<RunData>;
  private readonly search: HTMLInputElement;
  private readonly count = h('span.muted', { role: 'status' });

  constructor(private readonly run: RunContext) {
    const { data, view, charts, remember } = run;
    this.grid = new ChartGrid('All metrics', chartsOf(data), view, charts);
    const changed = (): void => {
      this.update();
      remember();
    };
    const oninput = (event: Event): void => {
      view.find = valueOf(event);
      changed();
    };
    const ontoggle = (): void => {
      view.all = this.element.open;
      changed();
    };
    const placeholder = 'Search keys (press /)';
    this.search = h('input', { type: 'search', id: 'find-metric', placeholder, value: view.find, oninput });
    this.element = h(
      'details.card.section',
      { open: view.all, ontoggle },
      h('summary', h('h2', 'All metrics')),
      h('p.field-row', labelled('Search keys', this.search, true), this.count),
      this.grid.element,
    );
  }

  focus(): void {
    this.element.open = true;
    this.search.focus();
    this.search.scrollIntoView({ block: 'nearest' });
  }

  update(): void {
    const { keys } = this.run.data;
    const found = keys.filter(({ key }) => matches(key, this.run.view.find));
    const [only] = found.length === 1 ? found : [];
    const extreme = (value: number | null, step: number): string =>
      `${formatSignificant(value)} at ${formatCount(step)}`;
    const more = only
      ? ` · rank 0: last ${formatSignificant(only.last)}, min ${extreme(only.min, only.min_step)}, max ${extreme(only.max, only.max_step)}`
      : '';
    setText(this.count, `${formatCount(found.length)} of ${formatCount(keys.length)} keys${more}`);
    this.grid.arrange(this.element.open ? found.map(({ key, aggregate }) => anyChart(key, aggregate)) : []);
  }
}
