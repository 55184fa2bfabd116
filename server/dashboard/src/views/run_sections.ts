import '../styles/sections.css';
import { explain } from '../api/client';
import type { RunData } from '../data/run_data';
import { h, setText, valueOf } from '../lib/dom';
import { formatCount, formatSignificant } from '../lib/format';
import type { RunTab } from '../lib/routes';
import { Life, oneAtATime } from '../lib/work';
import { ChartGrid, chartsOf } from './chart_grid';
import { labelled, Owner, type RunContext, type Section } from './parts';
import { configuration, history, log } from './run_history';
import { checkpoints, evaluations, nextSteps } from './run_models';
import { ranks } from './run_ranks';
import { translation } from './run_translate';

const AGAIN_MS = 5000; // until a section that could not be loaded is tried again

type Make = (run: RunContext, owner: Owner) => Section;

/// A section of a tab: made at once, or with code that is fetched when its tab is first shown. `loads`: it fetches data
/// that depend on those of the page.
type TabPart = { title: string; make?: Make; fetch?: () => Promise<Make>; spec?: `div.${string}`; loads?: boolean };

const PARTS: Record<Exclude<RunTab, 'charts'>, readonly TabPart[]> = {
  report: [{ title: 'Report', fetch: async () => (await import('./run_lab')).report }],
  translations: [{ title: 'Evaluations', make: evaluations, spec: 'div.evaluations', loads: true }],
  checkpoints: [
    { title: 'Checkpoints', make: checkpoints, loads: true },
    { title: 'Translate a sentence', make: translation },
  ],
  ranks: [{ title: 'Ranks', make: ranks, spec: 'div.ranks', loads: true }],
  inside: [
    { title: 'Inside an update', fetch: async () => (await import('./run_lab')).traces },
    { title: 'Parameters', fetch: async () => (await import('./run_lab')).parameters },
    { title: 'Probes', fetch: async () => (await import('./run_probes')).probes },
  ],
  whatif: [{ title: 'What if', fetch: async () => (await import('./run_what_if')).whatIf }],
  log: [
    { title: 'Alerts and history', make: history, spec: 'div.history' },
    { title: 'Log', make: log },
  ],
  config: [{ title: 'Configuration', make: configuration }],
};

type PanelId = keyof typeof PARTS;

/// The sections of one tab, made when it is first shown.
class Panel extends Life {
  readonly element = h('div.tab-panel');
  private readonly owners = new Map<string, Owner>(); // by title

  constructor(
    private readonly run: RunContext,
    private readonly parts: readonly TabPart[],
  ) {
    super();
    parts.forEach((part) => this.add(part));
  }

  private add({ title, make, fetch, spec }: TabPart): void {
    const made = (each: Make) => (owner: Owner) => each(this.run, owner);
    const heading = h(this.parts.length > 1 ? 'h2' : 'h2.visually-hidden', title);
    const card = h('section.card.section', heading);
    this.element.append(card);
    if (make) {
      const owner = this.own(title, new Owner(made(make), spec));
      return card.append(owner.element);
    }
    const problem = h('p.problem', { role: 'alert' });
    const start = async (): Promise<void> => {
      const owner = new Owner(made(await fetch!()), 'div.lab');
      await owner.begin();
      setText(problem, '');
      card.append(this.own(title, owner).element);
    };
    const again = this.later(AGAIN_MS, () => begin());
    const begin = oneAtATime(start, (error) => {
      setText(problem, `Not loaded: ${explain(error)}`);
      again();
    });
    card.append(problem);
    begin();
  }

  private own(title: string, owner: Owner): Owner {
    this.owners.set(title, owner);
    this.atEnd(() => owner.close());
    return owner;
  }

  update(): void {
    for (const { title, make, loads } of this.parts) {
      if (make) this.owners.get(title)!.draw();
      if (loads) this.owners.get(title)!.load();
    }
  }

  /// Fetches again what the sections show of the log or of artifacts.
  reload(): void {
    for (const { title, fetch } of this.parts) if (fetch || title === 'Log') this.owners.get(title)?.load();
  }
}

/// The tabs of a run's page but its charts, and the charts of all metrics. Fetched as a separate file.
export class RunSections extends Life {
  readonly element = h('div.others');
  readonly metrics: AllMetrics;
  readonly next: Owner; // what comes after a run that has succeeded
  private readonly panels = new Map<PanelId, Panel>();
  private shown: PanelId | null = null;

  constructor(private readonly run: RunContext) {
    super();
    this.metrics = new AllMetrics(run);
    this.next = new Owner((owner) => nextSteps(run, owner));
    this.atEnd(
      () => this.metrics.grid.close(),
      () => this.next.close(),
    );
  }

  /// Shows the panel of the tab; of the charts none.
  show(tab: RunTab): void {
    this.shown = tab === 'charts' ? null : tab;
    if (this.shown) this.panelOf(this.shown).reload();
    this.panels.forEach(({ element }, id) => element.classList.toggle('shown', id === this.shown));
    this.update();
  }

  /// Makes and updates all panels whose code is here, for paper.
  showAll(): void {
    const ids = (Object.keys(PARTS) as PanelId[]).filter((id) => PARTS[id].every(({ make }) => make));
    ids.forEach((id) => this.panelOf(id).update());
  }

  private panelOf(id: PanelId): Panel {
    const present = this.panels.get(id);
    if (present) return present;
    const panel = new Panel(this.run, PARTS[id]);
    this.panels.set(id, panel);
    this.element.append(panel.element);
    this.atEnd(() => panel.close());
    return panel;
  }

  update(): void {
    this.next.draw();
    if (this.shown) this.panels.get(this.shown)!.update();
    else this.metrics.update();
  }

  /// Fetches the log, or artifacts, again where they are shown.
  reload(tabs: readonly PanelId[]): void {
    if (this.shown && tabs.includes(this.shown)) this.panels.get(this.shown)!.reload();
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
    this.grid.arrange(this.element.open ? found.map(({ key, aggregate }) => this.run.anyChart(key, aggregate)) : []);
  }
}
