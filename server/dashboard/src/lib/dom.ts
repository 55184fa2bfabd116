export type Child = Node | string | number | null | undefined | false | readonly Child[];

type Attributes = Record<string, string | number | boolean | ((event: never) => void) | null | undefined>;

/// Names of the listeners that h() has set on any element, so that patching can hand them over.
const handlers = new Set<'onclick'>();

function appendChild(parent: Node, child: Child): void {
  if (child === null || child === undefined || child === false) return;
  if (Array.isArray(child)) child.forEach((item: Child) => appendChild(parent, item));
  else parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
}

/// An element: h('a', { class: 'x', href: '#', onclick: f }, 'text', child). Attributes that are null, undefined or
/// false are left out; functions are listeners by their names. Text is always text: nothing is parsed as HTML.
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

/// Makes the children of `parent` equal to the given ones by changing only what differs, so that a selection, the focus and
/// scroll positions stay; data-key tells elements apart. Listeners become those of the given ones; whether a fold is open stays the reader's.
export function patchChildren(parent: Element, ...children: Child[]): void {
  const fragment = document.createDocumentFragment();
  appendChild(fragment, children);
  patch(parent, fragment);
}

/// What is at this place of `parent` to be made like `child`. An element with data-key is the same one wherever it stood, so that
/// the focus stays with a row when another comes before it; a new one is put in.
function keyed(parent: Node, child: Node, at: number): Node | undefined {
  const present = parent.childNodes[at];
  const key = child instanceof HTMLElement ? child.dataset['key'] : undefined;
  if (key === undefined || !present || (present as HTMLElement).dataset?.['key'] === key) return present;
  const found = [...parent.childNodes].find((other) => (other as HTMLElement).dataset?.['key'] === key) ?? child.cloneNode();
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
  for (const { name } of [...element.attributes]) if (!wanted.hasAttribute(name) && name !== 'open') element.removeAttribute(name);
  for (const { name, value } of wanted.attributes) {
    if (name === 'style') element.style.cssText = wanted.style.cssText;  // as an attribute the page's policy forbids it
    else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  }
}

/// A place of the page that is drawn only when what it shows has changed.
export class Slot {
  readonly element = h('div', {});
  private shown: readonly unknown[] | null = null;

  /// `inputs` are all that `build` reads, compared one by one.
  show(inputs: readonly unknown[], build: () => Child): void {
    if (this.shown?.length === inputs.length && inputs.every((input, at) => Object.is(input, this.shown![at]))) return;
    this.shown = inputs;
    patchChildren(this.element, build());
  }
}

/// Sets text only when it changed: a live page must not disturb a selection or a screen reader without need.
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
