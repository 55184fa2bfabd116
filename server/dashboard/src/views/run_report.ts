import { request, withRetries } from '../api/client';
import { type Child, h, saveText } from '../lib/dom';
import { type Owner, type Section, status, table } from './parts';
import type { RunContext } from './run_sections';

/// The report on the run, in the words and plots of its HTML file. It is made again on request only: it reads the whole run.
export function report({ data }: RunContext, owner: Owner): Section {
  const path = `/runs/${data.id}/report?format=html`;
  let html = '';
  let answers: Child = null;
  let wanted = true;
  const save = (): void => saveText(html, `report-${data.id}.html`, 'text/html');
  const again = (): void => {
    wanted = true;
    owner.load();
  };
  return {
    load: async () => {
      if (!wanted) return;
      wanted = false;
      owner.say('Reading the run …');
      html = await withRetries(async () => (await request(path, { headers: { Accept: 'text/html' } })).text());
      owner.said = '';
      // The page's content security policy reports styles even where they are only parsed.
      const unstyled = html.replace(/<style>[^<]*<\/style>/, '');
      const page = new DOMParser().parseFromString(unstyled, 'text/html');
      answers = [...page.querySelectorAll('article')].map(answer);
    },
    inputs: () => [html],
    render: () => [
      h('p', h('button', { onclick: save }, 'Save as a file'), ' ', h('button', { onclick: again }, 'Make it again')),
      status(owner.said),
      h('div.report', answers),
    ],
  };
}

/// One answer of the report's HTML, made anew: texts as texts, plots as pictures.
function answer(article: HTMLElement): Child {
  const children = [...article.children].map((part): Child => {
    const svg = part.querySelector('svg');
    if (part instanceof HTMLHeadingElement) return h('h3', part.textContent);
    if (svg) return picture(svg);
    if (part.querySelector('table')) return copiedTable(part);
    return h('p', { class: part.classList.contains('quiet') && 'muted' }, part.textContent);
  });
  return h('article', children);
}

function picture(svg: SVGElement): Child {
  const source = `data:image/svg+xml,${encodeURIComponent(svg.outerHTML)}`;
  return h('img', { src: source, alt: svg.querySelector('title')?.textContent ?? '', width: 760, height: 420 });
}

function copiedTable(part: Element): Child {
  const texts = (row: Element, kind: string): string[] =>
    [...row.querySelectorAll(kind)].map(({ textContent }) => textContent ?? '');
  const caption = part.querySelector('caption')?.textContent ?? '';
  const rows = [...part.querySelectorAll('tr')];
  const cells = rows.slice(1).map((row) => texts(row, 'td'));
  return [h('p.muted', caption), table(caption, texts(rows[0]!, 'th'), cells)];
}
