/// Formatting of numbers. A missing value (null, undefined, NaN, infinite) is shown as a dash, never as zero.

export type MaybeNumber = number | null | undefined;
export const DASH = '–';
const finite = (value: MaybeNumber): value is number => typeof value === 'number' && Number.isFinite(value);

/// 1234567 -> "1,234,567"; the same in every locale.
export function formatCount(value: MaybeNumber): string {
  if (!finite(value)) return DASH;
  return Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+(?!\d))/g, ',');
}

/// With a real minus sign.
export const formatFixed = (value: MaybeNumber, digits: number): string =>
  finite(value) ? value.toFixed(digits).replace('-', '−') : DASH;

/// A loss with three decimals, so that a column lines up; a huge one without decimals.
export const formatLoss = (value: MaybeNumber): string =>
  finite(value) && Math.abs(value) >= 10_000 ? formatCount(value) : formatFixed(value, 3);

/// Scientific notation with two decimals: "7.00e-4". For columns that span many powers of ten.
export const formatScientific = (value: MaybeNumber): string => (finite(value) ? value.toExponential(2) : DASH);

/// About `digits` significant digits without exponents for everyday sizes: 3.2173, 0.0004, 12,345, 1.2e-7.
export function formatSignificant(value: MaybeNumber, digits = 4): string {
  if (!finite(value)) return DASH;
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size < 1e-4 || size >= 1e9) return value.toExponential(Math.max(0, digits - 2));
  if (size >= 10 ** (digits - 1)) return formatCount(value);
  return Number(value.toPrecision(digits)).toString();
}

export const SI_UNITS = ['', 'k', 'M', 'G', 'T', 'P'];

/// Decimal prefixes: 12345 -> "12.3 k"; with a unit "12.3 kB".
export function formatSi(value: MaybeNumber, unit = ''): string {
  if (!finite(value)) return DASH;
  let scaled = value;
  let index = 0;
  while (Math.abs(scaled) >= 999.5 && index < SI_UNITS.length - 1) {
    scaled /= 1000;
    index += 1;
  }
  const size = Math.abs(scaled);
  const text =
    index === 0 && Number.isInteger(scaled) ? String(scaled) : scaled.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
  return `${text} ${SI_UNITS[index]}${unit}`.trimEnd();
}

export const formatBytes = (value: MaybeNumber): string => formatSi(value, 'B');
export const formatBytesPerSecond = (value: MaybeNumber): string => formatSi(value, 'B/s');

export function formatMs(value: MaybeNumber): string {
  if (!finite(value)) return DASH;
  if (Math.abs(value) >= 1000) return `${(value / 1000).toFixed(Math.abs(value) >= 9995 ? 1 : 2)} s`;
  return `${value.toFixed(Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2)} ms`;
}

export const formatPercent = (fraction: MaybeNumber, digits = 1): string =>
  finite(fraction) ? `${(fraction * 100).toFixed(digits)} %` : DASH;

/// "93 %, 40 GB, 412 W": a GPU's utilisation, used memory and power. Omits values that it does not report.
export function formatGpu(
  gpu: { utilization_percent: number | null; memory_used_bytes: number | null; power_w: number | null } | null,
): string {
  if (!gpu) return DASH;
  const told = [
    finite(gpu.utilization_percent) ? `${gpu.utilization_percent} %` : '',
    finite(gpu.memory_used_bytes) ? formatBytes(gpu.memory_used_bytes) : '',
    finite(gpu.power_w) ? `${Math.round(gpu.power_w)} W` : '',
  ];
  return told.filter(Boolean).join(', ') || DASH;
}

const pad2 = (part: number): string => String(part).padStart(2, '0');

/// 59 s, 4 min 05 s, 2 h 07 min, 3 d 4 h.
export function formatDuration(seconds: MaybeNumber): string {
  if (!finite(seconds) || seconds < 0) return DASH;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${pad2(whole % 60)} s`;
  if (whole < 86_400) return `${Math.floor(whole / 3600)} h ${pad2(Math.floor((whole % 3600) / 60))} min`;
  return `${Math.floor(whole / 86_400)} d ${Math.floor((whole % 86_400) / 3600)} h`;
}

/// "just now", "12 s ago", "2 h 07 min ago".
export function formatAge(seconds: MaybeNumber): string {
  if (!finite(seconds)) return DASH;
  return seconds < 1.5 ? 'just now' : `${formatDuration(seconds)} ago`;
}

/// A long text without its middle: "a-very-lo…e-end". Names differ most at their ends.
export function cutMiddle(text: string, most = 28): string {
  const head = Math.ceil((most - 1) / 2);
  return text.length <= most ? text : `${text.slice(0, head)}…${text.slice(text.length - (most - 1 - head))}`;
}

/// "alder, birch +6": the first names and the number of further ones.
export function formatNames(names: readonly string[], most = 2): string {
  if (names.length === 0) return DASH;
  const more = names.length - most;
  return names.slice(0, most).join(', ') + (more > 0 ? ` +${more}` : '');
}

/// Local time: "14:03:09".
export function formatClock(timeMs: MaybeNumber): string {
  if (!finite(timeMs)) return DASH;
  const date = new Date(timeMs);
  return `${pad2(date.getHours())}:${pad2(date.getMinutes())}:${pad2(date.getSeconds())}`;
}

/// Local date and time: "2026-11-21 14:03".
export function formatDateTime(timeMs: MaybeNumber): string {
  if (!finite(timeMs)) return DASH;
  const date = new Date(timeMs);
  const day = `${date.getFullYear()}-${pad2(date.getMonth() + 1)}-${pad2(date.getDate())}`;
  return `${day} ${pad2(date.getHours())}:${pad2(date.getMinutes())}`;
}

/// A server time in local time; a dash if there is none.
export const formatTime = (time: string | null | undefined): string => formatDateTime(Date.parse(time ?? ''));

/// With a capital first letter.
export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/// Makes a name safe for file names and shells: replaces other characters by dashes.
export const fileStem = (name: string): string =>
  name
    .normalize('NFC')
    .replace(/[^\p{L}\p{N}._-]+/gu, '-')
    .replace(/^[-.]+|-+$/g, '')
    .slice(0, 80) || 'run';

/// The measures of an evaluation, in words.
export const EVAL_TITLES = {
  loss: 'Validation loss',
  nll: 'Validation NLL',
  entropy: 'Entropy of the validation set',
  excess: 'Excess over entropy',
  sacrebleu: 'sacreBLEU',
  chrf: 'chrF',
  teacher_forced_bleu: 'BLEU, teacher-forced',
  accuracy: 'Accuracy, teacher-forced',
};

/// Whether a key is that of a measure of evaluations: eval:MEASURE.
export const isEval = (key: string): boolean => key.startsWith('eval:');

/// The parts of a key eval:MEASURE or eval:MEASURE@SET; no set means the validation set.
export function evalKey(key: string): { measure: string; set: string } {
  const name = key.slice('eval:'.length);
  const at = name.indexOf('@');
  return at < 0 ? { measure: name, set: '' } : { measure: name.slice(0, at), set: name.slice(at + 1) };
}

/// The format of a metric's values, by its key. The keys of evaluation measures are those of evalKey().
export function formatOf(name: string): (value: number | null) => string {
  const key = isEval(name) ? `eval:${evalKey(name).measure}` : name;
  if (/^eval:(sacrebleu|chrf|teacher_forced_bleu)$/.test(key)) return (value) => formatFixed(value, 2);
  if (key === 'eval:accuracy' || key.endsWith('_fraction')) return formatPercent;
  if (/(^|:)(loss|nll|entropy|excess|alignment_loss|r_drop_loss)$|^corpus_loss\./.test(key)) return formatLoss;
  if (key.endsWith('_ms')) return formatMs;
  if (key.endsWith('bytes_per_second')) return formatBytesPerSecond;
  if (key.includes('bytes')) return formatBytes;
  if (key.endsWith('_per_second') || key.endsWith('tokens') || key.startsWith('corpus_tokens.') || key === 'flops')
    return formatSi;
  return formatSignificant;
}
