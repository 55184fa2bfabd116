import '../styles/sections.css';
import { anyChart } from '../charts/definitions';
import type { Part, RunData } from '../data/run_data';
import { h, setText, valueOf } from '../lib/dom';
import { formatCount, formatSignificant } from '../lib/format';
import type { ViewState } from '../lib/routes';
import { Life } from '../lib/work';
import { type ChartActions, ChartGrid, chartsOf } from './chart_grid';
import { Fold, labelled, Owner, type Section } from './parts';
import { configuration, history, log } from './run_history';
import { checkpoints, evaluations } from './run_models';
import { ranks } from './run_ranks';
import { translation } from './run_translate';

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

/// A section of the page: made at once, or folded, with code and data that are fetched when the user opens it. `loads`: it has data of
/// its own that depend on those of the page.
type PagePart = { title: string; make?: Make; fetch?: () => Promise<Make>; spec?: `div.${string}`; loads?: boolean };

const PARTS: readonly PagePart[] = [
  { title: 'Ranks', make: ranks, spec: 'div.ranks', loads: true },
  { title: 'Inside an update', fetch: async () => (await import('./run_lab')).traces },
  { title: 'Parameters', fetch: async () => (await import('./run_lab')).parameters },
  { title: 'Probes', fetch: async () => (await import('./run_probes')).probes },
  { title: 'What if', fetch: async () => (await import('./run_what_if')).whatIf },
  { title: 'Report', fetch: async () => (await import('./run_lab')).report },
  { title: 'Evaluations', make: evaluations, spec: 'div.evaluations', loads: true },
  { title: 'Checkpoints', make: checkpoints, loads: true },
  { title: 'Translate a sentence', make: translation },
  { title: 'Alerts and history', make: history, spec: 'div.history' },
  { title: 'Log', make: log },
  { title: 'Configuration', make: configuration },
];

/// The sections of a run's page below its charts. Fetched as a separate file when the user scrolls near.
export class RunSections extends Life {
  readonly elements: HTMLElement[] = [];
  readonly grid: ChartGrid<RunData>; // the charts of all metrics
  private readonly owners = new Map<string, Owner>(); // by title
  private readonly folds: Fold[] = [];
  private readonly metrics: AllMetrics;

  constructor(private readonly run: RunContext) {
    super();
    PARTS.forEach((part) => this.add(part));
    this.metrics = new AllMetrics(run);
    this.grid = this.metrics.grid;
    this.elements.push(this.metrics.element);
    const closing = [...this.owners.values(), ...this.folds, this.grid];
    this.atEnd(...closing.map((part) => () => part.close()));
  }

  private add({ title, make, fetch, spec }: PagePart): void {
    const made = (each: Make) => (owner: Owner) => each(this.run, owner);
    if (make) {
      const owner = new Owner(made(make), spec);
      this.owners.set(title, owner);
      // The box to translate a sentence stands with the checkpoints.
      if (make === translation) this.elements.at(-1)!.append(h('h3', title), owner.element);
      else this.elements.push(h('section.card.section', h('h2', title), owner.element));
    } else {
      const isOpen = title === 'What if' && this.run.view.whatIf !== '';
      const fold = new Fold(title, async () => made(await fetch!()), isOpen);
      this.folds.push(fold);
      this.elements.push(fold.element);
    }
  }

  update(): void {
    this.owners.forEach((owner) => owner.draw());
    for (const { title, loads } of PARTS) if (loads) this.owners.get(title)!.load();
    this.metrics.update();
  }

  loadLog(): void {
    this.owners.get('Log')!.load();
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
