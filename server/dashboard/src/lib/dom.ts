export type Child = Node | string | number | null | undefined | false | readonly Child[];

type Attributes = Record<string, string | number | boolean | ((event: never) => void) | null | undefined>;

/// The names of all listeners that h() has set, so that patching can transfer them.
const handlers = new Set<'onclick'>();

function appendChild(parent: Node, child: Child): void {
  if (child === null || child === undefined || child === false) return;
  if (Array.isArray(child)) child.forEach((item: Child) => appendChild(parent, item));
  else parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
}

/// Creates an element: h('a', { class: 'x', href: '#', onclick: f }, 'text', child). Omits attributes that are null, undefined or
/// false. Functions become listeners. Text is never parsed as HTML.
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') {
      handlers.add(name as 'onclick');
      element[name as 'onclick'] = value as () => void;
    } else element.setAttribute(name, value === true ? '' : String(value));
  }
  appendChild(element, children);
  return element;
}

export function replaceChildren(parent: Element, ...children: Child[]): void {
  const fragment = document.createDocumentFragment();
  appendChild(fragment, children);
  parent.replaceChildren(fragment);
}

/// Makes the children of `parent` equal to the given ones by changing only what differs, so that selection, focus and scroll
/// positions stay. data-key identifies elements. Listeners are replaced; a <details> element keeps its open state.
export function patchChildren(parent: Element, ...children: Child[]): void {
  const fragment = document.createDocumentFragment();
  appendChild(fragment, children);
  patch(parent, fragment);
}

/// The existing node at this position to patch into `child`. An element with data-key is found at any position, so that the focus
/// stays with a row when another is inserted before it; a new one is inserted.
function keyed(parent: Node, child: Node, at: number): Node | undefined {
  const present = parent.childNodes[at];
  const key = child instanceof HTMLElement ? child.dataset['key'] : undefined;
  if (key === undefined || !present || (present as HTMLElement).dataset?.['key'] === key) return present;
  const found =
    [...parent.childNodes].find((other) => (other as HTMLElement).dataset?.['key'] === key) ?? child.cloneNode();
  return parent.insertBefore(found, present);
}

function patch(parent: Node, wanted: Node): void {
  const children = [...wanted.childNodes];
  children.forEach((child, at) => {
    const present = keyed(parent, child, at);
    if (!present) parent.appendChild(child);
    else if (present instanceof HTMLElement && child instanceof HTMLElement && present.tagName === child.tagName) {
      patchAttributes(present, child);
      for (const name of handlers) if (present[name] !== child[name]) present[name] = child[name];
      patch(present, child);
    } else if (!(present instanceof Text && child instanceof Text)) parent.replaceChild(child, present);
    else if (present.data !== child.data) present.data = child.data;
  });
  while (parent.childNodes.length > children.length) parent.lastChild!.remove();
}

function patchAttributes(element: HTMLElement, wanted: HTMLElement): void {
  for (const { name } of [...element.attributes])
    if (!wanted.hasAttribute(name) && name !== 'open') element.removeAttribute(name);
  for (const { name, value } of wanted.attributes) {
    if (name === 'style')
      element.style.cssText = wanted.style.cssText; // the page's content security policy forbids the attribute
    else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  }
}

/// A container that is redrawn only if its inputs have changed.
export class Slot {
  readonly element = h('div', {});
  private shown: readonly unknown[] | null = null;

  /// `inputs` are all values that `build` reads; compared one by one.
  show(inputs: readonly unknown[], build: () => Child): void {
    if (this.shown?.length === inputs.length && inputs.every((input, at) => Object.is(input, this.shown![at]))) return;
    this.shown = inputs;
    patchChildren(this.element, build());
  }
}

/// Sets text only if it has changed, so that a live page does not disturb a selection or a screen reader.
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/// Calls `work` at most once per animation frame.
export function oncePerFrame(work: () => void): () => void {
  let pending = false;
  return () => {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => {
      pending = false;
      work();
    });
  };
}
