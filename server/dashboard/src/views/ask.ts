import { h, replaceChildren, type Child } from '../lib/dom';

export interface Question {
  title: string;
  about?: string; // explanation below the title
  fields?: Child;
  confirm: string;
  danger?: boolean;
  typed?: string; // text to type before confirming, against mistakes
}

/// A radio button with a label.
export const choice = (name: string, value: string, checked: boolean, text: string): HTMLElement =>
  h('label', { class: 'choice' }, h('input', { type: 'radio', name, value, checked }), ` ${text}`);

/// Asks in a modal dialog. Resolves to the filled-in form, or null if the user cancels.
export function ask(question: Question): Promise<FormData | null> {
  const { title, about, fields, confirm, danger = false, typed } = question;
  return new Promise((resolve) => {
    const button = h(
      'button',
      { type: 'submit', class: `chip ${danger ? 'danger' : 'primary'}`, disabled: typed !== undefined },
      confirm,
    );
    const form = h(
      'form',
      { method: 'dialog', onsubmit: () => resolve(new FormData(form)) },
      h('h2', { id: 'ask-title' }, title),
      about ? h('p', { class: 'muted' }, about) : null,
      fields,
      typed === undefined
        ? null
        : h(
            'label',
            { class: 'field' },
            h('span', {}, 'Type ', h('strong', {}, typed), ' to confirm '),
            h('input', {
              name: 'typed',
              type: 'text',
              autocomplete: 'off',
              spellcheck: 'false',
              oninput: (event: Event) => {
                button.disabled = (event.target as HTMLInputElement).value.trim() !== typed.trim();
              },
            }),
          ),
      h(
        'p',
        { class: 'ask-buttons' },
        h('button', { type: 'button', class: 'chip', onclick: () => dialog.close() }, 'Cancel'),
        button,
      ),
    );
    const dialog = h('dialog', {
      class: 'ask',
      'aria-labelledby': 'ask-title',
      onclose: () => {
        dialog.remove();
        resolve(null);
      },
    });
    replaceChildren(dialog, form);
    document.body.append(dialog);
    dialog.showModal();
  });
}
