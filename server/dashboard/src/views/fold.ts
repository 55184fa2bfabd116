import { explain } from '../api/client';
import { h, replaceChildren, setText } from '../lib/dom';

/// The content of a Fold.
export interface FoldContent {
  readonly element: HTMLElement;
  refresh(): void; // fetches its data again
  close(): void;
}

/// A section that is closed at first. Its code and data are fetched when the user opens it.
export class Fold {
  readonly element: HTMLDetailsElement;
  private readonly problem = h('p', { class: 'problem', role: 'alert' });
  private content: FoldContent | null = null;
  private fetching = false;
  private closed = false;

  constructor(
    title: string,
    private readonly fetch: () => Promise<FoldContent>,
    open = false, // from the start
  ) {
    this.element = h(
      'details',
      { class: 'card section', open, ontoggle: () => this.element.open && this.refresh() },
      h('summary', {}, h('h2', {}, title)),
      this.problem,
    );
  }

  /// Fetches the data again if the section is open.
  refresh(): void {
    if (!this.element.open) return;
    if (this.content) this.content.refresh();
    else if (!this.fetching) void this.fill();
  }

  close(): void {
    this.closed = true;
    this.content?.close();
  }

  private async fill(): Promise<void> {
    this.fetching = true;
    try {
      const content = await this.fetch();
      if (this.closed) return content.close();
      this.content = content;
      setText(this.problem, '');
      replaceChildren(this.element, this.element.firstElementChild, this.problem, content.element);
    } catch (error) {
      setText(this.problem, `Not loaded: ${explain(error)}; close and open the section to try again.`);
    } finally {
      this.fetching = false;
    }
  }
}
