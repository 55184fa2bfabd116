import { h, replaceChildren, setText } from '../lib/dom';
import { readLine, type ChartData } from './chart_data';
import type { PictureLegend } from './picture';

const MANY_LINES = 6;

/// The names of a chart's lines with their values under the cursor, otherwise the newest values.
export class Legend {
  readonly element = h('div', { class: 'legend' });

  show(data: ChartData): void {
    if (data.lines.length > MANY_LINES)
      this.element.tabIndex = 0; // it may scroll, so a keyboard must reach it
    else this.element.removeAttribute('tabindex');
    replaceChildren(
      this.element,
      data.lines
        .filter(({ legend }) => legend)
        .map((line) =>
          h(
            'span',
            { class: 'legend-item' },
            h('span', {
              class: `swatch swatch-${line.color}${line.kind === 'limit' ? ' swatch-dashed' : ''}`,
              'aria-hidden': 'true',
            }),
            h('span', {}, line.label),
            h('output', { 'aria-live': 'off' }),
          ),
        ),
    );
  }

  /// Shows the values nearest to `x`. A value more than `far` away is shown with its place, formatted by `place`.
  read(
    data: ChartData,
    xs: ArrayLike<number>,
    columns: readonly (readonly (number | null | undefined)[])[],
    x: number,
    far: number,
    place: (x: number) => string,
  ): void {
    const outputs = this.element.querySelectorAll('output');
    let shown = 0;
    data.lines.forEach((line, index) => {
      if (line.legend && outputs[shown])
        setText(
          outputs[shown++]!,
          line.values
            ? readLine(line, line.x, line.values, x, far, place)
            : readLine(line, xs, columns[index] ?? [], x, far, place),
        );
    });
  }

  get text(): string {
    return [...this.element.querySelectorAll('.legend-item')]
      .map((item) =>
        [...item.children]
          .map((part) => part.textContent)
          .filter(Boolean)
          .join(' '),
      )
      .join(', ');
  }

  entries(data: ChartData): PictureLegend[] {
    const outputs = this.element.querySelectorAll('output');
    return data.lines
      .filter(({ legend }) => legend)
      .map(({ label, color }, at) => ({ label, color, value: outputs[at]?.textContent ?? '' }));
  }
}
