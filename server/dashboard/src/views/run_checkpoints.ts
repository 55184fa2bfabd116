import { explain, fileOf, sendJson, sumsOf } from '../api/client';
import { BASE } from '../api/request';
import { may } from '../api/session';
import type { Checkpoint } from '../api/types';
import type { RunData } from '../data/run_data';
import { copyText } from '../lib/copy';
import { h, setText, Slot, type Child } from '../lib/dom';
import { formatBytes, formatCount, formatFixed, formatLoss, formatTime } from '../lib/format';
import { badge, table } from './tables';

const archiveOf = (id: string): string => `${BASE}/checkpoints/${id}/archive.tar`;

/// The command that downloads the checkpoint, verifies its digests, and resumes after an interruption.
export const downloadCommand = (server: string, run: string, checkpoint: string): string =>
  `nmt run download ${run} --checkpoint ${checkpoint} --server ${server}`;

const fileList = (row: Checkpoint): HTMLElement =>
  h(
    'details',
    {},
    h('summary', {}, `${row.files.length} files`),
    h(
      'ul',
      { class: 'files' },
      row.files.map((file) =>
        h(
          'li',
          {},
          h('a', { href: fileOf(row.id, file.name), download: file.name }, file.name),
          ` ${formatBytes(file.size)} `,
          h('code', { title: file.sha256 }, file.sha256.slice(0, 12)),
        ),
      ),
    ),
  );

/// The run's checkpoints with downloads and digests. A pinned checkpoint is never removed.
export class Checkpoints {
  readonly element: HTMLElement;
  private readonly rows = new Slot();
  private readonly said = h('p', { class: 'muted', role: 'status' });

  constructor(
    private readonly data: RunData,
    private readonly changed: () => void,
  ) {
    this.element = h('div', {}, this.rows.element, this.said);
  }

  update(): void {
    const { checkpoints } = this.data;
    this.rows.show([checkpoints, this.data.bestCheckpoint, may('operate')], () =>
      table(
        'Checkpoints',
        ['#Update', '#sacreBLEU', '#Loss', 'Written', '#Size', 'Download', 'Files and SHA-256', ''],
        checkpoints.map((row) => this.row(row)),
        checkpoints.map(({ id }) => id),
      ),
    );
  }

  private row(row: Checkpoint): Child[] {
    return [
      [
        formatCount(row.update),
        row === this.data.bestCheckpoint ? badge('best') : null,
        row.pinned ? badge('pinned') : null,
      ],
      formatFixed(row.sacrebleu, 2),
      formatLoss(row.loss),
      formatTime(row.created_at),
      formatBytes(row.bytes),
      [
        h('a', { href: archiveOf(row.id), download: `${row.name}.tar` }, 'archive.tar'),
        ' ',
        h('a', { href: sumsOf(row.id), download: 'SHA256SUMS' }, 'SHA256SUMS'),
      ],
      fileList(row),
      h(
        'span',
        { class: 'group' },
        may('operate')
          ? h(
              'button',
              {
                type: 'button',
                class: 'chip',
                'aria-pressed': String(row.pinned),
                'aria-label': `Pin the checkpoint of update ${row.update}`,
                onclick: () => void this.pin(row),
              },
              row.pinned ? 'unpin' : 'pin',
            )
          : null,
        h(
          'button',
          {
            type: 'button',
            class: 'chip',
            title: 'Copy the command that downloads and verifies this checkpoint',
            'aria-label': `Copy command for update ${row.update}`,
            onclick: () => void this.copy(row),
          },
          'copy command',
        ),
      ),
    ];
  }

  private async pin(row: Checkpoint): Promise<void> {
    try {
      await sendJson(row.pinned ? 'DELETE' : 'PUT', `/checkpoints/${row.id}/pin`);
      setText(
        this.said,
        row.pinned
          ? `The checkpoint of update ${formatCount(row.update)} is no longer pinned.`
          : `The checkpoint of update ${formatCount(row.update)} is kept until it is unpinned.`,
      );
      this.changed();
    } catch (error) {
      setText(this.said, `Failed: ${explain(error)}`);
    }
  }

  private async copy(row: Checkpoint): Promise<void> {
    const command = downloadCommand(location.origin, this.data.id, row.id);
    setText(this.said, (await copyText(command)) ? `Copied: ${command}` : command);
  }
}
