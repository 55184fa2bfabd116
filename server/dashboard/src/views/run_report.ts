import { explain } from '../api/client';
import { request, withRetries } from '../api/request';
import type { RunData } from '../data/run_data';
import { h, replaceChildren, setText, type Child } from '../lib/dom';
import { oneAtATime } from '../lib/one_at_a_time';
import { saveText } from '../lib/save';
import type { FoldContent } from './fold';
import { table } from './tables';

/// The report on the run, in the words and plots of its HTML file.
export class Report implements FoldContent {
  readonly element: HTMLElement;
  private readonly answers = h('div', { class: 'report' });
  private readonly said = h('p', { class: 'muted', role: 'status' });
  private html = '';
  private closed = false;

  private constructor(private readonly data: RunData) {
    const again = oneAtATime(
      () => this.fetch(),
      (error) => setText(this.said, `Not loaded: ${explain(error)}`),
    );
    const save = (): void => saveText(this.html, `report-${this.data.id}.html`, 'text/html');
    this.element = h(
      'div',
      { class: 'lab' },
      h(
        'p',
        {},
        h('button', { type: 'button', onclick: save }, 'Save as a file'),
        ' ',
        h('button', { type: 'button', onclick: again }, 'Make it again'),
      ),
      this.said,
      this.answers,
    );
  }

  static async load(data: RunData): Promise<Report> {
    const report = new Report(data);
    await report.fetch();
    return report;
  }

  /// The report is made again on request only: it reads the whole run.
  refresh(): void {}

  close(): void {
    this.closed = true;
  }

  private async fetch(): Promise<void> {
    setText(this.said, 'Reading the run …');
    this.html = await withRetries(async () =>
      (await request(`/runs/${this.data.id}/report?format=html`, { headers: { Accept: 'text/html' } })).text(),
    );
    if (this.closed) return;
    setText(this.said, '');
    // The page's content security policy reports styles even where they are only parsed.
    const unstyled = this.html.replace(/<style>[^<]*<\/style>/, '');
    const page = new DOMParser().parseFromString(unstyled, 'text/html');
    replaceChildren(this.answers, [...page.querySelectorAll('article')].map(answer));
  }
}

/// One answer of the report's HTML, made anew: texts as texts, plots as pictures.
function answer(article: HTMLElement): Child {
  const children: Child[] = [];
  for (const part of article.children) {
    const svg = part.querySelector('svg');
    if (part instanceof HTMLHeadingElement) children.push(h('h3', {}, part.textContent));
    else if (svg) children.push(picture(svg));
    else if (part.querySelector('table')) children.push(copiedTable(part));
    else children.push(h('p', { class: part.classList.contains('quiet') && 'muted' }, part.textContent));
  }
  return h('article', {}, children);
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
  return [h('p', { class: 'muted' }, caption), table(caption, texts(rows[0]!, 'th'), cells)];
}
