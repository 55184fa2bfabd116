import { explain } from '../api/client';
import { BASE } from '../api/request';
import type { Artifact } from '../api/types';
import { Artifacts } from '../data/artifacts';
import type { RunData } from '../data/run_data';
import { h, setText, Slot, type Child } from '../lib/dom';
import { formatBytes, formatCount, formatTime } from '../lib/format';
import { oneAtATime } from '../lib/one_at_a_time';
import type { FoldContent } from './fold';
import { ProbeCompare } from './run_probe_compare';
import { table } from './tables';

const NEWEST = 100;

/// The files that probes of the run wrote, one of each rank, and comparisons of two of them.
export class Probes implements FoldContent {
  readonly element: HTMLElement;
  readonly refresh: () => void;
  private readonly list = new Slot();
  private readonly comparing = new ProbeCompare();
  private readonly said = h('p', { class: 'muted', role: 'status' });
  private readonly artifacts: Artifacts<null>;
  private closed = false;

  private constructor(data: RunData) {
    this.artifacts = new Artifacts(data.id, 'probe', () => null);
    this.refresh = oneAtATime(
      () => this.fetch(),
      (error) => setText(this.said, `Not loaded: ${explain(error)}`),
    );
    this.element = h('div', { class: 'lab' }, this.said, this.comparing.element, this.list.element);
  }

  static async load(data: RunData): Promise<Probes> {
    const probes = new Probes(data);
    await probes.fetch();
    return probes;
  }

  close(): void {
    this.closed = true;
  }

  private async fetch(): Promise<void> {
    const items = await this.artifacts.newest(NEWEST);
    if (this.closed) return;
    setText(this.said, items.length > 0 ? '' : 'No probe yet. A run records every tensor of the update lab.probe.at.');
    this.comparing.update(items);
    this.list.show([items], () => (items.length > 0 ? this.table(items) : null));
  }

  private table(items: readonly Artifact[]): Child {
    return table(
      'Probes',
      ['#Update', '#Rank', 'Written', '#Size', 'File'],
      items.map((item) => [
        formatCount(item.update),
        formatCount(item.rank),
        formatTime(item.created_at),
        formatBytes(item.bytes),
        h('a', { href: `${BASE}/artifacts/${item.id}/file`, download: item.name }, item.name),
      ]),
      items.map(({ id }) => id),
    );
  }
}
