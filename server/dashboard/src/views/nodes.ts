import { getAll } from '../api/client';
import type { NodeItem } from '../api/types';
import { h, type Child } from '../lib/dom';
import {
  DASH,
  formatAge,
  formatBytes,
  formatBytesPerSecond,
  formatFixed,
  formatGpu,
  formatPercent,
} from '../lib/format';
import { ageMs } from '../lib/freshness';
import { ListPage } from './list_page';
import type { Status } from './page';
import { RunNames } from './run_names';
import { table } from './tables';

const EVERY_MS = 2000;

/// The distinct runs on a host, with their ranks there.
export function runsOf(node: {
  ranks: Pick<NodeItem['ranks'][number], 'run' | 'rank'>[];
}): { run: string; ranks: number[] }[] {
  const runs = new Map<string, number[]>();
  for (const { run, rank } of node.ranks)
    runs.set(
      run,
      [...(runs.get(run) ?? []), rank].sort((a, b) => a - b),
    );
  return [...runs].map(([run, ranks]) => ({ run, ranks }));
}

/// The hosts: heartbeats, runs and load.
export class NodesPage extends ListPage {
  private nodes: NodeItem[] = [];
  private atMs = 0;
  private readonly names = new RunNames();

  constructor(root: HTMLElement, status: Status) {
    super(root, status, 'Nodes');
    this.start(EVERY_MS, h('p', { class: 'muted' }, 'Hosts with ranks that reported in the last 24 hours.'));
  }

  protected async fetch(): Promise<void> {
    this.nodes = await getAll<NodeItem>('/nodes');
    this.atMs = Date.now();
    await this.names.learn(this.nodes.flatMap(({ ranks }) => ranks.map(({ run }) => run)));
  }

  protected inputs(): readonly unknown[] {
    return [this.nodes, Math.floor(Date.now() / 1000)];
  }

  protected draw(): HTMLElement {
    const nowMs = Date.now();
    const heard = (node: NodeItem): Child => {
      const age = formatAge(ageMs(node.heartbeat_age_ms, this.atMs, nowMs) / 1000);
      return node.silent ? h('span', { class: 'state state-stale' }, age) : age;
    };
    const runs = (node: NodeItem): Child =>
      node.ranks.length === 0
        ? DASH
        : runsOf(node).map(({ run, ranks }, at) => [
            at > 0 ? ', ' : '',
            this.names.link(run),
            ` (rank ${ranks.join(', ')})`,
          ]);
    const gpus = (node: NodeItem): string =>
      node.ranks
        .filter(({ gpu }) => gpu)
        .map(({ gpu }) => formatGpu(gpu))
        .join('; ') || DASH;
    return table(
      'Hosts',
      [
        'Host',
        'Last heartbeat',
        'Runs',
        'GPUs',
        '#Processors',
        '#Load',
        '#Memory used',
        '#Disk free',
        '#Received',
        '#Sent',
      ],
      this.nodes.map((node) => [
        node.host,
        heard(node),
        runs(node),
        gpus(node),
        node.processors,
        `${formatFixed(node.load, 1)} (${formatPercent(node.load / Math.max(1, node.processors), 0)})`,
        `${formatBytes(node.memory_bytes - node.memory_available_bytes)} of ${formatBytes(node.memory_bytes)}`,
        formatBytes(node.disk_free_bytes),
        formatBytesPerSecond(node.network_rx_bytes_per_second),
        formatBytesPerSecond(node.network_tx_bytes_per_second),
      ]),
    );
  }
}
