import { explain, getJson } from '../api/client';
import { h, replaceChildren, setText, Slot } from '../lib/dom';
import { DASH, formatAge, formatBytes, formatBytesPerSecond, formatPercent } from '../lib/format';
import { ageMs } from '../lib/freshness';
import { hashOfRun } from '../lib/view_state';
import type { Page, Status } from './page';
import { table } from './tables';

interface Device { index?: number; name?: string; busy_fraction?: number | null; memory_used_bytes?: number | null; memory_total_bytes?: number | null;
  power_w?: number | null; power_limit_w?: number | null; temperature_c?: number | null }

/// A host that ranks run on, or ran on (server/api/openapi.yaml).
export interface NodeItem {
  host: string;
  state?: string;
  heartbeat_age_ms?: number | null;
  ranks?: number;
  runs?: string[];
  busy_fraction?: number | null;
  memory_used_bytes?: number | null;
  memory_total_bytes?: number | null;
  disk_free_bytes?: number | null;
  network_rx_bytes_per_second?: number | null;
  network_tx_bytes_per_second?: number | null;
  gpus?: Device[];
}

const EVERY_MS = 2000;

const part = (used: number | null | undefined, all: number | null | undefined): string =>
  (typeof used === 'number' ? `${formatBytes(used)}${typeof all === 'number' ? ` of ${formatBytes(all)}` : ''}` : DASH);

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
    replaceChildren(root, h('h1', {}, 'Nodes'), this.problem, h('section', { class: 'card', 'aria-label': 'Hosts' }, this.slot.element));
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
      this.nodes = (await getJson<{ items: NodeItem[] }>('/nodes?limit=500')).items;
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
    return table('Hosts', ['Host', 'State', 'Last heartbeat', 'Runs', '#Ranks', '#Busy', '#Memory', '#Disk free', '#Received', '#Sent', 'Devices'],
      this.nodes.map((node) => [node.host, node.state ?? DASH,
        typeof node.heartbeat_age_ms === 'number' ? formatAge(ageMs(node.heartbeat_age_ms, this.atMs, nowMs) / 1000) : DASH,
        (node.runs ?? []).length > 0 ? (node.runs ?? []).map((run, at) => [at > 0 ? ', ' : '', h('a', { href: hashOfRun(run) }, `…${run.slice(-6)}`)]) : DASH,
        node.ranks ?? DASH, formatPercent(node.busy_fraction, 0), part(node.memory_used_bytes, node.memory_total_bytes), formatBytes(node.disk_free_bytes),
        formatBytesPerSecond(node.network_rx_bytes_per_second), formatBytesPerSecond(node.network_tx_bytes_per_second),
        (node.gpus ?? []).map((gpu) => `${gpu.name ?? 'GPU'} ${formatPercent(gpu.busy_fraction, 0)} busy, ${part(gpu.memory_used_bytes, gpu.memory_total_bytes)}`).join('; ') || DASH]));
  }
}
