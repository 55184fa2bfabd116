import { h, replaceChildren, setText } from '../lib/dom';
import { valueAt, type ChartData } from './chart_data';
import type { PictureLegend } from './picture';

/// Names of a chart's lines with the values under the cursor, else the newest ones.
export class Legend {
  readonly element = h('div', { class: 'legend' });

  show(data: ChartData): void {
    replaceChildren(this.element, data.lines.filter(({ legend }) => legend).map((line) =>
      h('span', { class: 'legend-item' },
        h('span', { class: `swatch swatch-${line.color}${line.kind === 'limit' ? ' swatch-dashed' : ''}`, 'aria-hidden': 'true' }),
        h('span', {}, line.label), h('output', { 'aria-live': 'off' }))));
  }

  read(data: ChartData, columns: readonly (readonly (number | null | undefined)[])[], row: number): void {
    const outputs = this.element.querySelectorAll('output');
    let shown = 0;
    data.lines.forEach((line, index) => {
      if (line.legend && outputs[shown]) setText(outputs[shown++]!, line.format(valueAt(line.values ?? columns[index] ?? [], row)));
    });
  }

  get text(): string {
    return [...this.element.querySelectorAll('.legend-item')].map((item) =>
      [...item.children].map((part) => part.textContent).filter(Boolean).join(' ')).join(', ');
  }

  entries(data: ChartData): PictureLegend[] {
    const outputs = this.element.querySelectorAll('output');
    return data.lines.filter(({ legend }) => legend).map(({ label, color }, at) => ({ label, color, value: outputs[at]?.textContent ?? '' }));
  }
}
