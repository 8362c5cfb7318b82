// Editors for input, and the same without editing for results: both show long texts, line by line.

import { yaml } from "@codemirror/lang-yaml";
import { syntaxHighlighting } from "@codemirror/language";
import { setDiagnostics } from "@codemirror/lint";
import { EditorState, RangeSetBuilder } from "@codemirror/state";
import { Decoration, EditorView, ViewPlugin } from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";
import { basicSetup } from "codemirror";
import { StyleModule } from "style-mod";

// CodeMirror writes elements `style`, which the content security policy refuses, unless it is told where styles go.
const mounted = new Set();
StyleModule.mount = (root, modules) => {
  for (const module of [modules].flat().filter((module) => !mounted.has(module))) {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(module.getRules());
    root.adoptedStyleSheets.push(sheet);
    mounted.add(module);
  }
};

// An editor below `parent`. `changed` is called for changes by the user.
export function editor(parent, label, language, changed) {
  const listener = EditorView.updateListener.of((update) => {
    if (update.docChanged) changed();
  });
  const highlighted = language === "text" ? [] : [yaml(), syntaxHighlighting(classHighlighter)];
  return new EditorView({ parent, extensions: [basicSetup, named(label), listener, EditorView.lineWrapping, highlighted] });
}

// A text that only the page changes.
export function result(parent, label) {
  const extensions = [basicSetup, named(label), EditorState.readOnly.of(true), EditorView.lineWrapping, colours];
  return new EditorView({ parent, extensions });
}

export function replace(view, text) {
  if (view.state.doc.toString() === text) return;
  view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
}

// Shows findings with a line, and maybe a column and a length, in characters.
export function mark(view, findings) {
  const { doc } = view.state;
  const diagnostics = findings.map(({ line, column, length, severity, message, hint, code }) => {
    const row = doc.line(Math.min(Math.max(line, 1), doc.lines));
    const characters = [...row.text];
    const offset = (count) => row.from + characters.slice(0, count).join("").length;
    const from = column ? offset(column - 1) : row.from;
    const to = column ? offset(column - 1 + (length || 1)) : row.to;
    const text = `${message} (${code})${hint ? `\nhint: ${hint}` : ""}`;
    return { from, to: Math.max(from, to), severity: severity === "note" ? "info" : severity, message: text };
  });
  view.dispatch(setDiagnostics(view.state, diagnostics.sort((one, other) => one.from - other.from)));
}

const named = (label) => EditorView.contentAttributes.of({ "aria-label": label });

// The classes of lines of a diff and of reports.
const KINDS = [
  [/^(\+\+\+|---|@@|diff )/, "head"],
  [/^\+/, "added"],
  [/^-/, "removed"],
  [/^\s*(error|crash|tcp|mixed)\b.*:/, "error"],
  [/^\s*(warning|cause)\b.*:/, "warning"],
  [/^\s*(remedy|hint)\b.*:/, "remedy"],
  [/^fabric:/, "added"],
];

const colours = ViewPlugin.define(
  (view) => ({
    lines: coloured(view),
    update(update) {
      if (update.docChanged || update.viewportChanged) this.lines = coloured(update.view);
    },
  }),
  { decorations: (plugin) => plugin.lines },
);

function coloured(view) {
  const builder = new RangeSetBuilder();
  for (const { from, to } of view.visibleRanges) {
    for (let at = from; at <= to; ) {
      const line = view.state.doc.lineAt(at);
      const kind = KINDS.find(([pattern]) => pattern.test(line.text));
      if (kind) builder.add(line.from, line.from, Decoration.line({ class: `line-${kind[1]}` }));
      at = line.to + 1;
    }
  }
  return builder.finish();
}
