// Posts the records of a made-up run of several ranks on two hosts, with everything that can happen to one: a straggler, a
// spike, a loss that is not finite, evaluations with translations, checkpoints, warnings, a restart. For tests of the run page,
// never shown as a result.
//   node detailed_run.mjs http://127.0.0.1:8080 [updates=1200] [live seconds=0] [token]
import { createHash, randomBytes } from 'node:crypto';
import { pathToFileURL } from 'node:url';

const STEP_MS = 310;
const PARAMETERS = 60_900_000;

const DIGITS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
export const makeRunId = () => 'r_0' + [...randomBytes(25)].map((byte) => DIGITS[byte % 32]).join('');

/// Numbers that look random and are the same in every run of the test.
function numbers(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 4294967296;
  };
}

const SENTENCES = [
  [
    'The committee approved the new budget on Tuesday evening.',
    'Der Ausschuss genehmigte am Dienstagabend den neuen Haushalt.',
    [
      'Der Ausschuss hat den neuen Haushalt.',
      'Der Ausschuss genehmigte am Dienstag den neuen Haushalt.',
      'Der Ausschuss billigte am Dienstagabend den neuen Haushalt.',
    ],
  ],
  [
    'She had never seen the sea before that summer.',
    'Vor diesem Sommer hatte sie das Meer noch nie gesehen.',
    [
      'Sie hatte nie den Sommer.',
      'Sie hatte das Meer vor diesem Sommer nie gesehen.',
      'Vor diesem Sommer hatte sie das Meer nie gesehen.',
    ],
  ],
  [
    'Select the cells <b>first</b>, then press & hold.',
    'Wählen Sie zuerst die Zellen <b>aus</b>, dann gedrückt halten.',
    [
      'Wählen Sie die Zellen.',
      'Wählen Sie zuerst die Zellen, dann halten.',
      'Wählen Sie zuerst die Zellen <b>aus</b>, dann halten.',
    ],
  ],
  [
    'Two thirds of the members voted against the proposal because it did not name a date by which the work has to be finished.',
    'Zwei Drittel der Mitglieder stimmten gegen den Vorschlag, weil er keinen Termin nannte, bis zu dem die Arbeit beendet sein muss.',
    [
      'Zwei Mitglieder stimmten gegen den Vorschlag.',
      'Zwei Drittel der Mitglieder stimmten gegen den Vorschlag, weil er kein Datum nannte.',
      'Zwei Drittel der Mitglieder stimmten gegen den Vorschlag, weil er keinen Termin nannte, bis zu dem die Arbeit fertig sein muss.',
    ],
  ],
];

export const CONFIG = (updates, rate = 0.0007) => `run:
  name: wmt16-base
  seed: 7
model:
  preset: transformer-base
  layers: 6
  width: 512
  heads: 8
  dropout: 0.1
optimizer:
  learning_rate: ${rate}
  warmup: 400u
  label_smoothing: 0.1
data:
  languages:
    - en
    - de
  max_tokens: 8192
validation:
  every: 200u
  beam: 4
communication:
  gradient_wire: f32
  bucket_mb: 16
max_updates: ${updates}
`;

export class DetailedRun {
  constructor(
    server,
    {
      name = 'wmt16-base',
      hosts = ['alder', 'alder', 'birch', 'birch'],
      maxUpdates = 5000,
      startMs = Date.now(),
      spikeAt = 777,
      nanAt = 901,
      slowRank = 3,
      slowFrom = 500,
      slowTo = 700,
      purposes = 0,
      powered = true,
      token = '',
      rate = 0.0007,
      linkBytes = 1.25e9,
    } = {},
  ) {
    Object.assign(this, {
      server,
      name,
      hosts,
      maxUpdates,
      startMs,
      spikeAt,
      nanAt,
      slowRank,
      slowFrom,
      slowTo,
      purposes,
      powered,
      token,
      rate,
      linkBytes,
    });
    this.id = makeRunId();
    this.random = numbers(11);
    this.attempt = 1;
    this.update = 0;
    this.sequence = hosts.map(() => 0);
    this.pending = hosts.map(() => []);
  }

  add(rank, kind, body, timeMs) {
    this.pending[rank].push({ sequence: ++this.sequence[rank], kind, time_ms: Math.round(timeMs), ...body });
  }

  log(rank, level, text, timeMs) {
    this.add(rank, 'log', { level, text }, timeMs);
  }

  async flush() {
    const headers = {
      'Content-Type': 'application/json',
      ...(this.token ? { Authorization: `Bearer ${this.token}` } : {}),
    };
    for (const [rank, host] of this.hosts.entries()) {
      while (this.pending[rank].length > 0) {
        const records = this.pending[rank].splice(0, this.purposes > 50 ? 100 : 1000);
        const response = await fetch(`${this.server}/api/v1/runs/${this.id}/records`, {
          method: 'POST',
          headers,
          body: JSON.stringify({ attempt: this.attempt, rank, host, records }),
        });
        if (!response.ok) throw new Error(`records of rank ${rank}: ${response.status} ${await response.text()}`);
      }
    }
  }

  life(rank, event, timeMs, more = {}) {
    this.add(
      rank,
      'lifecycle',
      {
        event,
        detail: '',
        name: this.name,
        config: '',
        version: '0.1.0',
        world_size: this.hosts.length,
        pid: 0,
        parameters: PARAMETERS,
        max_updates: this.maxUpdates,
        device: '',
        ...more,
      },
      timeMs,
    );
  }

  start(timeMs = this.startMs) {
    this.life(0, 'started', timeMs, { config: CONFIG(this.maxUpdates, this.rate) });
    const libraries = { onednn: '2.6.3', open_mpi: '4.1.4', sentencepiece: '0.1.97', glibc: '2.36' };
    this.hosts.forEach((host, rank) =>
      this.life(rank, 'rank_up', timeMs, { pid: 4100 + rank, device: 'NVIDIA A10G', libraries }),
    );
    this.log(0, 'info', `training starts with ${this.hosts.length} ranks`, timeMs);
  }

  /// The next attempt goes on after update `from`, as after a fault.
  async restart(from) {
    await this.flush();
    this.attempt += 1;
    this.sequence = this.hosts.map(() => 0);
    this.update = from;
    this.start(this.startMs + from * STEP_MS + 4000);
    this.log(0, 'warn', `attempt ${this.attempt} goes on from update ${from}`, this.startMs + from * STEP_MS + 4000);
  }

  finish(event = 'finished', detail = 'max_updates') {
    this.life(0, event, this.startMs + (this.update + 1) * STEP_MS, { detail });
  }

  parts(rank, update) {
    const noise = (spread = 0.06) => 1 - spread + 2 * spread * this.random();
    const slow = rank === this.slowRank && update >= this.slowFrom && update < this.slowTo ? 1.45 : 1;
    const parts = {
      data_ms: 2.4 * noise(0.3),
      forward_ms: 52 * noise() * slow,
      backward_ms: 104 * noise() * slow,
      optimizer_ms: 9 * noise(),
      other_ms: 3 * noise(),
    };
    const own = Object.values(parts).reduce((sum, part) => sum + part, 0);
    const slowest = update >= this.slowFrom && update < this.slowTo ? 250 : 178; // all wait for the last one
    return { ...parts, exposed_communication_ms: Math.max(8, slowest - own + 120 * noise(0.15)) };
  }

  /// A record holds at most 64 purposes, so larger numbers of them take turns.
  memory(update) {
    const most = Math.min(50, this.purposes);
    const extra = Object.fromEntries(
      Array.from({ length: most }, (_, at) => (update * most + at) % this.purposes).map((at) => [
        `layer_${String(at).padStart(3, '0')}`,
        1_000_000 + 1000 * at + update,
      ]),
    );
    return {
      weights: 365e6,
      gradients: 243e6,
      moments: 487e6,
      activations: 1.9e9,
      scratch: 0.4e9,
      peak: 4.1e9,
      ...extra,
    };
  }

  step(timeMs = this.startMs + (this.update + 1) * STEP_MS) {
    const update = ++this.update;
    const noise = () => 0.94 + 0.12 * this.random();
    const spike = update === this.spikeAt;
    const nan = update === this.nanAt;
    const loss = spike ? 11.5 : 2.4 + 7 * Math.exp(-update / 420) + 0.5 * (this.random() - 0.5);
    const tokens = this.hosts.map(() => Math.round(2600 * noise()));
    const all = tokens.reduce((sum, count) => sum + count, 0);
    const gradient = spike ? 40 : 0.7 + 2.5 * Math.exp(-update / 150) + 0.4 * this.random();
    this.hosts.forEach((host, rank) => {
      const parts = this.parts(rank, update);
      this.add(
        rank,
        'step',
        {
          update,
          epoch: update / 1430,
          loss: nan ? null : loss,
          nll: nan ? null : loss * 0.82,
          gradient_norm: nan ? null : gradient,
          learning_rate: this.rate * Math.min(update / 400, Math.sqrt(400 / update)),
          sentences: 96,
          source_tokens: tokens[rank] + 120,
          target_tokens: tokens[rank],
          update_target_tokens: all,
          step_ms: Object.values(parts).reduce((sum, part) => sum + part, 0),
          ...parts,
          communication_ms: parts.exposed_communication_ms + 70 * noise(),
          communication_bytes: 365e6,
          network_rx_bytes: Math.round(180e6 * noise()),
          network_tx_bytes: Math.round(182e6 * noise()),
          network_link_bytes_per_second: this.linkBytes,
          flops: 1.4e12,
          busy_fraction: 0.72 * noise(),
          power_w: this.powered ? 131 * noise() : 0,
          power_limit_w: this.powered ? 150 : 0,
          memory_bytes: this.memory(update),
          ...(this.powered
            ? { gpu: { utilization_percent: Math.round(91 * noise()), memory_used_bytes: 4_400_000_000 } }
            : {}),
          skipped: nan,
          weights_digest: '',
          ...(nan ? { non_finite: { loss: 'nan', nll: 'nan', gradient_norm: 'nan' } } : {}),
        },
        timeMs,
      );
    });
    if (nan) this.log(0, 'error', `update ${update}: the gradient is not finite; nothing was updated`, timeMs);
    if (update === this.slowFrom) this.log(this.slowRank, 'warn', 'processor throttled: 1.2 GHz of 2.9 GHz', timeMs);
    if (update % 200 === 0) this.evaluate(timeMs, loss);
    else if (update % 50 === 0) this.log(0, 'debug', `update ${update}: loss ${loss.toFixed(3)}`, timeMs);
  }

  resamples(score) {
    const digest = (text) => createHash('sha256').update(text).digest('hex');
    return {
      metric: 'BLEU',
      signature: 'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0',
      references: digest('newstest2015'),
      statistics: digest(`${this.id} ${this.update}`),
      score,
      scores: Array.from({ length: 1000 }, (_, k) => score + Math.sin(k) + 0.2 * Math.sin(k * this.rate * 1e4)),
    };
  }

  evaluate(timeMs, loss) {
    const sacrebleu = 27.8 * (1 - Math.exp(-this.update / 600));
    const common = { update: this.update, loss: loss + 0.16, sacrebleu, best: true };
    const level = this.update < 500 ? 0 : this.update < 1000 ? 1 : 2;
    this.add(
      0,
      'eval',
      {
        ...common,
        set: 'newstest2015',
        nll: loss,
        accuracy: 0.32 + sacrebleu / 90,
        teacher_forced_bleu: 8 + 1.1 * sacrebleu,
        chrf: 24 + 1.05 * sacrebleu,
        signature: 'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0',
        seconds: 21.7,
        resamples: [this.resamples(sacrebleu)],
        samples: SENTENCES.map(([source, reference, found]) => ({ source, reference, hypothesis: found[level] })),
      },
      timeMs,
    );
    const name = `update-${String(this.update).padStart(8, '0')}`;
    const files = [
      ['weights.safetensors', 243_612_416],
      ['optimizer.safetensors', 487_210_048],
      ['spm.model', 792_104],
      ['config.yaml', 1204],
      ['state.json', 1894],
    ].map(([file, size]) => ({
      name: file,
      size,
      sha256: createHash('sha256')
        .update(file + this.update)
        .digest('hex'),
    }));
    this.add(
      0,
      'checkpoint',
      { ...common, name, folder: `/nonexistent/${name}`, removed: false, write_seconds: 0.8, files },
      timeMs,
    );
    this.log(
      0,
      'info',
      `update ${this.update}: sacreBLEU ${sacrebleu.toFixed(2)}, chrF ${(24 + 1.05 * sacrebleu).toFixed(2)}`,
      timeMs,
    );
  }

  /// A trace of `count` updates with its summary; the file itself does not exist. `request`: number of the request.
  trace(update, count, request = 0) {
    const name = `trace-update-${String(update).padStart(8, '0')}.json.gz`;
    const ranks = this.hosts.map((host, rank) => ({
      rank,
      host,
      total_ms: count * STEP_MS,
      compute_ms: count * (rank === this.slowRank ? 232.5 : 155),
      exposed_ms: count * (rank === this.slowRank ? 62 : 139.5),
      hidden_ms: count * 77.5,
      data_ms: count * 9.3,
      other_ms: count * 6.2,
    }));
    this.add(
      0,
      'artifact',
      {
        update,
        name,
        artifact: 'trace',
        folder: '/nonexistent/lab',
        size: 812_345,
        sha256: createHash('sha256').update(name).digest('hex'),
        removed: false,
        content: { first_update: update, updates: count, ops: true, request, ranks },
      },
      Date.now(),
    );
  }

  /// A window of parameter counts that ends with `update`.
  window(update) {
    const name = `parameters-${String(update).padStart(8, '0')}.json`;
    const spread = (mean) => ({ min: 0, mean, max: 2 * mean });
    const parameter = (parameterName, rows, rowsAre, share) => ({
      name: parameterName,
      rows,
      width: 512,
      rows_are: rowsAre,
      frozen: false,
      changed: spread(100 * share),
      changed_elements: spread(51_200 * share),
      visible: spread(50 * share),
      untouched: spread(100 * (1 - share)),
      ratio: spread(0.001 * share),
      max_ratio: spread(0.01 * share),
      hottest: rowsAre === 'vector' ? [] : [{ row: 17, changed: 100, ratio: 0.25, label: '▁budget' }],
      coldest: rowsAre === 'vector' ? [] : [{ row: 4711, changed: 0, ratio: 0, label: '▁Haushalt' }],
    });
    const content = {
      first_update: update - 99,
      last_update: update,
      updates: 100,
      cold: 0.125,
      lost_in_rounding: 0.5,
      untouched_share: 0.25,
      parameters: [
        parameter('encoder.embedding', 8000, 'subwords', update / 2000),
        parameter('encoder.0.norm.gain', 1, 'vector', 1),
      ],
    };
    const artifact = {
      update,
      artifact: 'parameters',
      folder: '/nonexistent/lab',
      size: 96_000,
      sha256: createHash('sha256').update(name).digest('hex'),
      removed: false,
    };
    this.add(0, 'artifact', { ...artifact, name: name.replace('json', 'safetensors') }, Date.now());
    this.add(0, 'artifact', { ...artifact, name, content }, Date.now());
  }

  /// The memory inside an update of rank 0: a forward pass that fills the arena, and a backward pass that empties it.
  memoryCurve(update) {
    const name = `memory-update-${String(update).padStart(8, '0')}-rank-0.json`;
    const moments = Array.from({ length: 120 }, (_, at) => {
      const layer = `encoder.${Math.floor((at < 60 ? at : 119 - at) / 10)}`;
      const saved = 1e6 * (10 + 12 * Math.min(at, 119 - at));
      const op = at < 60 ? 'linear_forward' : 'linear_backward_data';
      return [at < 60 ? 'forward' : 'backward', layer, op, saved, 1e6 * (5 + (at % 7) * 8)];
    });
    const peak = moments.reduce((best, [, , , saved, scratch], at) => {
      const [, , , bestSaved, bestScratch] = moments[best];
      return saved + scratch > bestSaved + bestScratch ? at : best;
    }, 0);
    const content = {
      format: 1,
      update,
      rank: 0,
      device: 'cpu',
      precision: 'bf16',
      beside_arenas: { weights: 365e6, gradients: 243e6, moments: 487e6, communication: 0 },
      peak,
      owners: [
        ['encoder.5', 'attention_forward', 'out', 210e6],
        ['encoder.4', 'linear_forward', 'y', 90e6],
      ],
      other: 3e8,
      moments,
    };
    const sha256 = createHash('sha256').update(name).digest('hex');
    const body = { update, name, artifact: 'memory', folder: '/nonexistent/lab', size: 7_900, sha256, removed: false };
    this.add(0, 'artifact', { ...body, content }, Date.now());
  }

  /// The files of a probe, one of each rank.
  probe(update) {
    this.hosts.forEach((_, rank) => {
      const name = `probe-update-${String(update).padStart(8, '0')}-rank-${rank}.jsonl`;
      const sha256 = createHash('sha256').update(name).digest('hex');
      const body = { update, name, artifact: 'probe', folder: '/nonexistent/lab', size: 1_300_000, sha256 };
      this.add(rank, 'artifact', { ...body, removed: false }, Date.now());
    });
  }

  /// A heartbeat of rank 0, with `more` members; the commands in the answer.
  async beat(traceDone, more = {}) {
    const response = await fetch(`${this.server}/api/v1/runs/${this.id}/heartbeat`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', ...(this.token ? { Authorization: `Bearer ${this.token}` } : {}) },
      body: JSON.stringify({ attempt: this.attempt, rank: 0, host: this.hosts[0], trace_done: traceDone, ...more }),
    });
    if (!response.ok) throw new Error(`heartbeat: ${response.status} ${await response.text()}`);
    return (await response.json()).commands;
  }

  steps(count) {
    for (let at = 0; at < count; at += 1) this.step();
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
  const [server, updates = '1200', seconds = '0', token = ''] = process.argv.slice(2);
  const run = new DetailedRun(server, {
    startMs: Date.now() - Number(updates) * STEP_MS,
    maxUpdates: 4 * Number(updates),
    token,
  });
  run.start();
  run.steps(Number(updates));
  await run.flush();
  console.log(run.id);
  await run.live(Number(seconds));
}
