// Posts the records of a made-up run to a server, as workers would: for tests of the page, never shown as a result.
//   [BABELRING_TOKEN=…] node synthetic_run.mjs http://127.0.0.1:8080 [updates=600] [live seconds=0]
import { createHash, randomBytes } from 'node:crypto';
import { pathToFileURL } from 'node:url';

const DIGITS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
export const makeRunId = () => 'r_0' + [...randomBytes(25)].map((byte) => DIGITS[byte % 32]).join('');

const HOSTS = ['alder', 'birch'];
const STEP_MS = 180;

function mulberry(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/// A run of two ranks on two hosts whose records follow plausible curves. `nanAt` makes one loss not finite.
export class SyntheticRun {
  constructor(server, { name = 'synthetic-en-de', maxUpdates = 2000, startMs = Date.now(), nanAt = 0, token = null } = {}) {
    Object.assign(this, { server, name, maxUpdates, startMs, nanAt, token });
    this.id = makeRunId();
    this.random = mulberry(7);
    this.sequence = [0, 0];
    this.pending = [[], []];
    this.update = 0;
  }

  add(rank, kind, body, timeMs) {
    this.pending[rank].push({ sequence: ++this.sequence[rank], kind, time_ms: Math.round(timeMs), ...body });
  }

  async flush() {
    for (const rank of [0, 1]) {
      while (this.pending[rank].length > 0) {
        const records = this.pending[rank].splice(0, 2000);
        const response = await fetch(`${this.server}/api/v1/runs/${this.id}/records`, { method: 'POST',
          headers: { 'Content-Type': 'application/json', ...(this.token ? { Authorization: `Bearer ${this.token}` } : {}) },
          body: JSON.stringify({ attempt: 1, rank, host: HOSTS[rank], records }) });
        if (!response.ok) throw new Error(`records of rank ${rank}: ${response.status} ${await response.text()}`);
      }
    }
  }

  start() {
    const life = { detail: '', name: this.name, config: '', version: '0.1.0', world_size: 2, pid: 0, parameters: 7_340_000,
      max_updates: this.maxUpdates, device: '' };
    this.add(0, 'lifecycle', { ...life, event: 'started', config: `model: transformer-tiny\nmax_updates: ${this.maxUpdates}\nseed: 7\n` },
      this.startMs);
    for (const rank of [0, 1]) this.add(rank, 'lifecycle', { ...life, event: 'rank_up', pid: 4100 + rank, device: 'cpu' }, this.startMs);
    this.add(0, 'log', { level: 'info', text: 'training starts with 2 ranks' }, this.startMs);
  }

  finish(event = 'finished', detail = 'max_updates') {
    this.add(0, 'lifecycle', { event, detail, name: this.name, config: '', version: '', world_size: 2, pid: 0, parameters: 0,
      max_updates: this.maxUpdates, device: '' }, this.startMs + this.update * STEP_MS);
  }

  step(timeMs = this.startMs + (this.update + 1) * STEP_MS) {
    const update = ++this.update;
    const noise = () => 0.9 + 0.2 * this.random();
    const loss = 2.2 + 6.8 * Math.exp(-update / 350) + 0.35 * (this.random() - 0.5);
    const nan = update === this.nanAt;
    const tokens = [0, 1].map(() => Math.round(2000 * noise()));
    for (const rank of [0, 1]) {
      const parts = { data_ms: 2 * noise(), forward_ms: 48 * noise(), backward_ms: 96 * noise(),
        exposed_communication_ms: 19 * noise(), optimizer_ms: 9 * noise(), other_ms: 3 * noise() };
      this.add(rank, 'step', { update, epoch: update / 460, loss: nan ? null : loss, nll: nan ? null : loss * 0.84,
        gradient_norm: 0.6 + 2 * Math.exp(-update / 200) + 0.3 * this.random(),
        learning_rate: 0.0007 * Math.min(update / 200, Math.sqrt(200 / update)), sentences: 90, source_tokens: tokens[rank] + 80,
        target_tokens: tokens[rank], update_target_tokens: tokens[0] + tokens[1], step_ms: Object.values(parts).reduce((sum, part) => sum + part, 0), ...parts,
        communication_ms: 60, communication_bytes: 29_360_000, network_rx_bytes: Math.round(30e6 * noise()),
        network_tx_bytes: Math.round(30e6 * noise()), flops: 2.1e11, busy_fraction: 0.93, power_w: 0, power_limit_w: 0,
        memory_bytes: { weights: 29_360_000, peak: 410_000_000 }, skipped: nan, weights_digest: '',
        ...(nan ? { non_finite: { loss: 'nan', nll: 'nan' } } : {}) }, timeMs);
    }
    if (update % 200 === 0) this.evaluate(timeMs, loss);
  }

  evaluate(timeMs, loss) {
    const sacrebleu = 34 * (1 - Math.exp(-this.update / 700));
    const common = { update: this.update, loss: loss + 0.12, sacrebleu, best: true };
    this.add(0, 'eval', { ...common, set: 'valid', nll: loss, accuracy: 0.4 + sacrebleu / 120, chrf: 20 + sacrebleu,
      signature: 'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0', seconds: 4.2,
      samples: [{ source: 'Click the icon to open the dialogue.', reference: 'Klicken Sie auf das Symbol, um den Dialog zu öffnen.',
        hypothesis: 'Klicken Sie auf das Zeichen, um den Dialog zu öffnen.' },
      { source: 'Select the cells <b>first</b>.', reference: 'Wählen Sie zuerst die Zellen <b>aus</b>.',
        hypothesis: 'Markieren Sie die Zellen zuerst.' }] }, timeMs);
    const sha256 = createHash('sha256').update(String(this.update)).digest('hex');
    const name = `update-${String(this.update).padStart(8, '0')}`;
    this.add(0, 'checkpoint', { ...common, name, folder: `/nonexistent/${name}`, removed: false, write_seconds: 0.4,
      files: [{ name: 'model.safetensors', size: 29_360_512, sha256 }, { name: 'state.json', size: 1894, sha256 }] }, timeMs);
    this.add(0, 'log', { level: 'info', text: `update ${this.update}: sacreBLEU ${sacrebleu.toFixed(2)}` }, timeMs);
  }

  /// Real-time steps until `seconds` have passed or `stop.now` is set.
  async live(seconds, stop = { now: false }) {
    const end = Date.now() + seconds * 1000;
    while (Date.now() < end && !stop.now) {
      this.step(Date.now());
      await this.flush();
      await new Promise((resolve) => setTimeout(resolve, STEP_MS));
    }
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const [server, updates = '600', seconds = '0'] = process.argv.slice(2);
  const run = new SyntheticRun(server, { token: process.env.BABELRING_TOKEN, startMs: Date.now() - Number(updates) * STEP_MS, maxUpdates: 4 * Number(updates) });
  run.start();
  for (let update = 0; update < Number(updates); update += 1) run.step();
  await run.flush();
  console.log(run.id);
  await run.live(Number(seconds));
}
