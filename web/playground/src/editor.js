// The editor of scenarios: CodeMirror, with completion and with mistakes at their lines.

import { autocompletion, closeBrackets, completionKeymap } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { HighlightStyle, StreamLanguage, syntaxHighlighting } from '@codemirror/language';
import { toml } from '@codemirror/legacy-modes/mode/toml';
import { lintGutter, lintKeymap, setDiagnostics } from '@codemirror/lint';
import { EditorState } from '@codemirror/state';
import { EditorView, drawSelection, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { completions } from './complete.js';

const style = HighlightStyle.define([
  { tag: tags.comment, color: 'var(--quiet)', fontStyle: 'italic' },
  { tag: tags.string, color: 'var(--code-text)' },
  { tag: [tags.propertyName, tags.atom], color: 'var(--code-key)' },
  { tag: [tags.number, tags.bool], color: 'var(--code-number)' },
]);

/// An editor in a folder. `edited` is called with the text a moment after each edit.
export class Editor {
  #view;
  #isQuiet = false;

  constructor(folder, schema, edited) {
    let timer;
    const listen = EditorView.updateListener.of((update) => {
      if (!update.docChanged || this.#isQuiet) return;
      clearTimeout(timer);
      timer = setTimeout(() => edited(this.text), 350);
    });
    this.#view = new EditorView({
      parent: folder,
      state: EditorState.create({
        extensions: [
          lineNumbers(),
          history(),
          drawSelection(),
          closeBrackets(),
          lintGutter(),
          StreamLanguage.define(toml),
          syntaxHighlighting(style),
          autocompletion({ override: [completions(schema)], icons: false }),
          keymap.of([...completionKeymap, ...lintKeymap, ...historyKeymap, ...defaultKeymap]),
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ 'aria-label': 'Scenario in TOML' }),
          listen,
        ],
      }),
    });
  }

  get text() {
    return this.#view.state.doc.toString();
  }

  /// Replaces the text without a call of `edited`.
  set text(text) {
    this.#isQuiet = true;
    const { length } = this.#view.state.doc;
    this.#view.dispatch({ changes: { from: 0, to: length, insert: text } });
    this.#isQuiet = false;
  }

  /// Marks a mistake; null: there is none.
  mark(mistake) {
    const { state } = this.#view;
    const found = [];
    if (mistake) {
      const line = state.doc.line(Math.min(Math.max(mistake.line ?? 1, 1), state.doc.lines));
      const key = mistake.key ? `${mistake.key}: ` : '';
      found.push({
        from: line.from,
        to: line.to,
        severity: 'error',
        message: `${key}${mistake.message}`,
      });
    }
    this.#view.dispatch(setDiagnostics(state, found));
  }
}
