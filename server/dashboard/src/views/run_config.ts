import { explain, getItems, getJson } from '../api/client';
import { may } from '../api/session';
import type { Run } from '../api/types';
import { differences, search } from '../lib/config_tree';
import { type Child, copyText, h, valueOf } from '../lib/dom';
import { formatCount } from '../lib/format';
import { hashOfRun } from '../lib/routes';
import { labelled, options, type Owner, type Section, table } from './parts';
import type { RunContext } from './run_sections';

function differenceOf(config: string, id: string, other: Run): Child {
  const found = differences(config, other.config ?? '');
  const count = `${formatCount(found.length)} ${found.length === 1 ? 'difference' : 'differences'} to `;
  const cell = (value: string | null, kind: string): Child =>
    value === null ? h('span.muted', 'not set') : h('mark', { class: kind }, value);
  const rows = found.map(({ path, left, right }) => [h('code', path), cell(left, 'extra'), cell(right, 'missed')]);
  return [
    h('p', found.length === 0 ? 'No difference to ' : count, h('a', { href: hashOfRun(id) }, other.name || id)),
    rows.length > 0 && table('Differences of the configurations', ['Key', 'This run', 'Other run'], rows),
  ];
}

/// Shows the differences to the configuration of another run, or why they are not known.
async function compareWith(config: string, id: string): Promise<() => Child> {
  try {
    const other = await getJson<Run>(`/runs/${id}`);
    return () => differenceOf(config, id, other);
  } catch (error) {
    return () => h('p.problem', `not compared: ${explain(error)}`);
  }
}

const textOf = (config: string, wanted: string): Child =>
  config === ''
    ? 'not reported'
    : search(config, wanted).map(({ line, hit }) => (hit ? h('mark.extra', `${line}\n`) : `${line}\n`));

const named = ({ id, name }: Run): [string, string] => [id, `${name || 'unnamed'} · ${id.slice(-6)}`];
const copy = async (text: string): Promise<string> =>
  (await copyText(text)) ? 'copied' : 'the browser does not allow copying';
const SEARCH = 'Search the configuration';

/// The resolved configuration, with text search and a comparison with another run.
export function configuration({ data, view, remember }: RunContext, owner: Owner): Section {
  let wanted = ''; // text to search for
  let others: readonly Run[] | null = null; // fetched when the user is about to choose one
  let offering: Promise<void> | null = null;
  let compared: string | null = null; // the configuration that was compared with the other run's
  let difference = (): Child => null;
  const config = (): string => data.run?.config ?? '';
  const offered = (found: readonly Run[]): void => {
    others = found.filter(({ id }) => id !== data.id);
    owner.draw();
  };
  const refused = (error: unknown): void => {
    offering = null;
    owner.say(explain(error));
  };
  const offer = (): Promise<void> => (offering ??= getItems<Run>('/runs?limit=200').then(offered, refused));
  const compare = async (): Promise<void> => {
    const id = view.against;
    const shown = id === '' ? () => null : await compareWith(config(), id);
    if (id !== view.against) return;
    difference = shown;
    owner.draw();
  };
  const choose = (event: Event): void => {
    view.against = valueOf(event);
    remember();
    void compare();
  };
  const find = (event: Event): void => {
    wanted = valueOf(event);
    const hits = search(config(), wanted).filter(({ hit }) => hit).length;
    owner.say(wanted.trim() ? `${formatCount(hits)} ${hits === 1 ? 'line' : 'lines'}` : '');
  };
  return {
    inputs: () => {
      if (view.against !== '' && data.run && compared !== config()) {
        compared = config();
        void offer().then(compare);
      }
      return [data.run?.config, wanted, others, difference];
    },
    render: () => {
      const ask = { id: 'config-against', onfocus: () => void offer(), onpointerdown: () => void offer() };
      const field = h('input', { type: 'search', id: 'config-search', placeholder: SEARCH, oninput: find });
      const choices = options([['', 'no other run'], ...(others ?? []).map(named)], view.against);
      return [
        h(
          'p.field-row',
          labelled(SEARCH, field, true),
          labelled('compare with', h('select', { ...ask, onchange: choose }, choices)),
          h('button.chip', { onclick: () => void owner.act(() => copy(config())) }, 'copy'),
          may('operate') && h('a.chip', { href: `#/submit?from=${data.id}` }, 'new run from this'),
          h('span.muted', { role: 'status' }, owner.said),
        ),
        h('div', difference()),
        h('pre', { tabindex: 0, 'aria-label': 'Configuration' }, textOf(config(), wanted)),
      ];
    },
  };
}
