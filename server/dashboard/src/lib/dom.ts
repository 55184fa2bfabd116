export type Child = Node | string | number | null | undefined | false | readonly Child[];
type Attributes = Record<string, string | number | boolean | ((event: never) => void) | null | undefined>;

/// The names of all listeners that h() has set, so that patching can transfer them.
const handlers = new Set<'onclick'>();

function appendChild(parent: Node, child: Child): void {
  if (child === null || child === undefined || child === false) return;
  if (Array.isArray(child)) child.forEach((item: Child) => appendChild(parent, item));
  else parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
}

type Tag = keyof HTMLElementTagNameMap;
type ElementOf<Spec> = Spec extends Tag
  ? HTMLElementTagNameMap[Spec]
  : Spec extends `${infer Name extends Tag}.${string}`
    ? HTMLElementTagNameMap[Name]
    : never;

const isAttributes = (part: Attributes | Child): part is Attributes =>
  typeof part === 'object' && part !== null && !Array.isArray(part) && !(part instanceof Node);

function build<E extends Element>(element: E, classes: readonly string[], parts: readonly (Attributes | Child)[]): E {
  if (classes.length > 0) element.setAttribute('class', classes.join(' '));
  for (const [name, value] of isAttributes(parts[0]) ? Object.entries(parts[0]) : []) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') {
      handlers.add(name as 'onclick');
      (element as unknown as HTMLElement)[name as 'onclick'] = value as () => void;
    } else element.setAttribute(name, value === true ? '' : String(value));
  }
  appendChild(element, parts.filter((part) => !isAttributes(part)) as Child[]);
  return element;
}

/// Creates an element: h('a.chip.primary', { href: '#', onclick: f }, 'text', child). The attributes may be absent; those that are null,
/// undefined or false are omitted. Functions become listeners. Text is never parsed as HTML. A button submits only if its type says so.
export function h<Spec extends Tag | `${Tag}.${string}`>(
  spec: Spec,
  ...parts: [] | [Attributes | Child, ...Child[]]
): ElementOf<Spec> {
  const [tag = '', ...classes] = spec.split('.');
  const element = document.createElement(tag);
  if (tag === 'button') element.setAttribute('type', 'button');
  return build(element, classes, parts) as ElementOf<Spec>;
}

/// Creates an element of a drawing. patchChildren() replaces a drawing as a whole.
export function svg(spec: string, attributes: Attributes, ...children: Child[]): SVGElement {
  const [tag = '', ...classes] = spec.split('.');
  return build(document.createElementNS('http://www.w3.org/2000/svg', tag) as SVGElement, classes, [
    attributes,
    ...children,
  ]);
}

/// Gives an element a colour of the style sheet, as its --tint.
export function tinted<E extends ElementCSSInlineStyle>(element: E, color: string): E {
  element.style.setProperty('--tint', `var(--${color})`);
  return element;
}

/// The colours of compared lines, in order.
export const COLORS = ['blue', 'orange', 'teal', 'violet', 'bad', 'olive', 'pink', 'muted'];

/// A sample of a colour, for a legend.
export const swatch = (color: string, kind = ''): HTMLElement =>
  tinted(h(`span.swatch${kind}`, { 'aria-hidden': 'true' }), color);

/// The text that this browser keeps under the key; null if there is none, or no storage.
export function readStored(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/// Keeps a text in this browser, or removes it. Does nothing without storage, or if it is full.
export function writeStored(key: string, text: string | null, store = globalThis.localStorage): void {
  try {
    if (text === null) store.removeItem(key);
    else store.setItem(key, text);
  } catch {
    // it lasts as long as the page
  }
}

export function replaceChildren(parent: Element, ...children: Child[]): void {
  const fragment = document.createDocumentFragment();
  appendChild(fragment, children);
  parent.replaceChildren(fragment);
}

const kept = new WeakMap<Node, HTMLElement>();

/// Stands for an element that stays the same while what is around it is rendered anew.
export function keep(element: HTMLElement): HTMLElement {
  const place = h('i', { 'data-keep': '' });
  kept.set(place, element);
  return place;
}

/// A new node with the kept elements in their places.
function settled(node: Node): Node {
  if (node instanceof HTMLElement)
    for (const place of node.querySelectorAll('[data-keep]')) place.replaceWith(kept.get(place)!);
  return kept.get(node) ?? node;
}

/// Makes the children of `parent` equal to the given ones by changing only what differs, so that selection, focus and scroll
/// positions stay. data-key identifies elements. Listeners are replaced; a <details> element keeps its open state, and a field what
/// was entered, unless its wanted value changes.
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
    const stays = kept.get(child);
    if (!present) parent.appendChild(settled(child));
    else if (stays) {
      if (present !== stays) parent.replaceChild(stays, present);
    } else if (present instanceof HTMLElement && child instanceof HTMLElement && present.tagName === child.tagName) {
      patchAttributes(present, child);
      for (const name of handlers) if (present[name] !== child[name]) present[name] = child[name];
      patch(present, child);
    } else if (!(present instanceof Text && child instanceof Text)) parent.replaceChild(settled(child), present);
    else if (present.data !== child.data) present.data = child.data;
  });
  while (parent.childNodes.length > children.length) parent.lastChild!.remove();
}

/// The attributes that are only the first value of a property.
const FIELD = new Set(['value', 'checked', 'selected']);

function patchAttributes(element: HTMLElement, wanted: HTMLElement): void {
  const changed = (name: string, value: string | null): void => {
    if (value === null) element.removeAttribute(name);
    else element.setAttribute(name, value);
    if (FIELD.has(name))
      (element as HTMLInputElement)[name as 'checked'] = (wanted as HTMLInputElement)[name as 'checked'];
  };
  for (const { name } of [...element.attributes])
    if (!wanted.hasAttribute(name) && name !== 'open') changed(name, null);
  for (const { name, value } of wanted.attributes) {
    if (name === 'style')
      element.style.cssText = wanted.style.cssText; // the page's content security policy forbids the attribute
    else if (element.getAttribute(name) !== value) changed(name, value);
  }
}

/// Sets text only if it has changed, so that a live page does not disturb a selection or a screen reader.
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/// The value of the field whose event this is. A listener does not know its element, which may be patched into another one.
export const valueOf = (event: Event): string => (event.currentTarget as HTMLInputElement | HTMLSelectElement).value;

export const checkedOf = (event: Event): boolean => (event.currentTarget as HTMLInputElement).checked;

/// A listener that does `work` instead of what the browser would do.
export const instead =
  (work: (event: Event) => void) =>
  (event: Event): void => {
    event.preventDefault();
    work(event);
  };

/// Copies text to the clipboard; false if the browser does not allow it (neither https nor loopback).
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/// Saves a blob as a file.
export function saveBlob(blob: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export const saveText = (text: string, name: string, type: string): void => saveBlob(new Blob([text], { type }), name);
