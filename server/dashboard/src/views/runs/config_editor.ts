import type { ProblemPlace } from '../../api/problem';
import { h, replaceChildren, setText } from '../../lib/dom';

/// The 1-based line of an error, from its member or from its text ("config:12:3: …", "line 12"); null if unknown.
export function lineOf({ line, detail }: ProblemPlace): number | null {
  if (line !== undefined) return line;
  const found = /(?:^|[\s:])(?:line )?(\d+):\d+:/.exec(detail) ?? /line (\d+)/.exec(detail);
  return found ? Number(found[1]) : null;
}

/// The range of characters of line `line` in the text.
export function lineRange(text: string, line: number): [number, number] {
  let from = 0;
  for (let at = 1; at < line; at += 1) {
    const end = text.indexOf('\n', from);
    if (end < 0) break;
    from = end + 1;
  }
  const end = text.indexOf('\n', from);
  return [from, end < 0 ? text.length : end];
}

/// A text area with line numbers and errors that link to their lines.
export class ConfigEditor {
  readonly element: HTMLElement;
  private readonly text: HTMLTextAreaElement;
  private readonly numbers = h('pre', { class: 'line-numbers', 'aria-hidden': 'true' });
  private readonly list = h('ul', { class: 'problems' });

  constructor(id: string, value: string) {
    this.text = h('textarea', {
      id,
      rows: 22,
      spellcheck: 'false',
      wrap: 'off',
      autocomplete: 'off',
      'aria-describedby': `${id}-problems`,
      oninput: () => this.number(),
      onscroll: () => {
        this.numbers.scrollTop = this.text.scrollTop;
      },
    });
    this.text.value = value;
    this.element = h(
      'div',
      {},
      h('div', { class: 'editor' }, this.numbers, this.text),
      h('div', { id: `${id}-problems`, role: 'alert' }, this.list),
    );
    this.number();
  }

  get value(): string {
    return this.text.value;
  }

  set value(value: string) {
    this.text.value = value;
    this.number();
  }

  show(problems: readonly ProblemPlace[]): void {
    const bad = new Set(problems.map(lineOf));
    replaceChildren(
      this.list,
      problems.map((problem) => {
        const line = lineOf(problem);
        const place =
          line !== null ? `line ${line}` : problem.pointer && problem.pointer !== '/config' ? problem.pointer : '';
        return h(
          'li',
          {},
          line !== null ? h('button', { type: 'button', class: 'link', onclick: () => this.goTo(line) }, place) : place,
          place ? ': ' : '',
          problem.detail,
        );
      }),
    );
    this.text.setAttribute('aria-invalid', String(problems.length > 0));
    this.number(bad);
  }

  private goTo(line: number): void {
    const [from, to] = lineRange(this.text.value, line);
    this.text.focus();
    this.text.setSelectionRange(from, to);
    this.text.scrollTop = (line - 5) * (this.text.scrollHeight / Math.max(1, this.text.value.split('\n').length));
  }

  private number(bad: ReadonlySet<number | null> = new Set()): void {
    const count = this.text.value.split('\n').length;
    const shown = [...this.numbers.children].map((child) => child.className).join();
    const wanted = Array.from({ length: count }, (_, at) => (bad.has(at + 1) ? 'bad' : ''));
    if (shown === wanted.join() && this.numbers.childElementCount === count) return;
    replaceChildren(
      this.numbers,
      wanted.map((kind, at) => h('span', { class: kind }, `${at + 1}\n`)),
    );
    setText(this.numbers.firstElementChild!, '1\n');
  }
}
