import { explain, getJson } from '../api/client';
import type { NodeItem } from '../api/types';
import { h, replaceChildren, setText, Slot, type Child } from '../lib/dom';
import { DASH, formatAge, formatBytes, formatBytesPerSecond, formatFixed, formatPercent } from '../lib/format';
import { ageMs } from '../lib/freshness';
import { hashOfRun } from '../lib/view_state';
import type { Page, Status } from './page';
import { table } from './tables';

const EVERY_MS = 2000;
const SILENT_MS = 10_000;  // ranks report every second

/// The runs on a host, each once, with the ranks it has there.
export function runsOf(node: Pick<NodeItem, 'ranks'>): { run: string; ranks: number[] }[] {
  const runs = new Map<string, number[]>();
  for (const { run, rank } of node.ranks) runs.set(run, [...(runs.get(run) ?? []), rank].sort((a, b) => a - b));
  return [...runs].map(([run, ranks]) => ({ run, ranks }));
}

/// Hosts: whether they answer, what runs there, how busy they are.
export class NodesPage implements Page {
  private readonly slot = new Slot();
  private readonly problem = h('p', { class: 'problem', role: 'alert' });
  private nodes: NodeItem[] = [];
  private atMs = 0;
  private readonly timer: ReturnType<typeof setInterval>;
  private closed = false;

  constructor(private readonly root: HTMLElement, private readonly status: Status) {
    document.title = 'Nodes · Babelring';
    status('loading', 'loading');
    replaceChildren(root, h('h1', {}, 'Nodes'), h('p', { class: 'muted' }, 'Hosts whose ranks reported within a day.'), this.problem,
      h('section', { class: 'card', 'aria-label': 'Hosts' }, this.slot.element));
    this.timer = setInterval(() => void this.load(), EVERY_MS);
    void this.load();
  }

  close(): void {
    this.closed = true;
    clearInterval(this.timer);
    this.root.replaceChildren();
  }

  private async load(): Promise<void> {
    if (document.visibilityState !== 'visible') return;
    try {
      this.nodes = (await getJson<{ items: NodeItem[] }>('/nodes')).items;
      if (this.closed) return;
      this.atMs = Date.now();
      this.status('live', 'live');
      setText(this.problem, '');
    } catch (error) {
      if (this.closed) return;
      this.status('reconnecting', 'reconnecting');
      setText(this.problem, explain(error));
    }
    this.slot.show([this.nodes, Math.floor(Date.now() / 1000)], () => this.draw());
  }

  private draw(): HTMLElement {
    const nowMs = Date.now();
    const heard = (node: NodeItem): Child => {
      const age = ageMs(node.heartbeat_age_ms, this.atMs, nowMs);
      return age > SILENT_MS ? h('span', { class: 'state state-stale' }, formatAge(age / 1000)) : formatAge(age / 1000);
    };
    const runs = (node: NodeItem): Child => (node.ranks.length === 0 ? DASH : runsOf(node).map(({ run, ranks }, at) => [at > 0 ? ', ' : '',
      h('a', { href: hashOfRun(run) }, `…${run.slice(-6)}`), ` (rank ${ranks.join(', ')})`]));
    return table('Hosts', ['Host', 'Last heartbeat', 'Runs', '#Processors', '#Load', '#Memory used', '#of', '#Disk free', '#Received', '#Sent'],
      this.nodes.map((node) => [node.host, heard(node), runs(node), node.processors, `${formatFixed(node.load, 1)} (${formatPercent(node.load / Math.max(1, node.processors), 0)})`,
        formatBytes(node.memory_bytes - node.memory_available_bytes), formatBytes(node.memory_bytes), formatBytes(node.disk_free_bytes),
        formatBytesPerSecond(node.network_rx_bytes_per_second), formatBytesPerSecond(node.network_tx_bytes_per_second)]));
  }
}
