export type Child = Node | string | number | null | undefined | false | readonly Child[];

type Attributes = Record<string, string | number | boolean | ((event: never) => void) | null | undefined>;

function appendChild(parent: Node, child: Child): void {
  if (child === null || child === undefined || child === false) return;
  if (Array.isArray(child)) child.forEach((item: Child) => appendChild(parent, item));
  else parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
}

/// An element: h('a', { class: 'x', href: '#', onclick: f }, 'text', child). Attributes that are null, undefined or
/// false are left out; names starting with "on" are listeners. Text is always text: nothing is parsed as HTML.
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') element.addEventListener(name.slice(2), value as EventListener);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  appendChild(element, children);
  return element;
}

export function replaceChildren(parent: Element, ...children: Child[]): void {
  const fragment = document.createDocumentFragment();
  appendChild(fragment, children);
  parent.replaceChildren(fragment);
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
