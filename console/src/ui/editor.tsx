import { autocompletion, closeBrackets, closeBracketsKeymap, type CompletionSource } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, foldGutter, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintGutter, linter, nextDiagnostic, setDiagnostics } from "@codemirror/lint";
import { MergeView, unifiedMergeView } from "@codemirror/merge";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { EditorState, type Extension, RangeSet, type StateEffect } from "@codemirror/state";
import { EditorView, GutterMarker, drawSelection, gutter, highlightActiveLine, highlightSpecialChars, hoverTooltip, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "preact/hooks";
import type { Document } from "yaml";
import { age, dateTime } from "../model/format";
import type { Manager } from "../model/ownership";
import type { Problem } from "../model/validation";
import { parseYAMLDocument, valueOf } from "../model/yaml";
import { type Path, parseField, rangeOf } from "../model/yamlpath";

const theme = EditorView.theme({
  "&": { fontSize: "13px", backgroundColor: "var(--surface)", color: "var(--text)", maxHeight: "60vh" },
  ".cm-scroller": { fontFamily: "var(--mono)", overflow: "auto" },
  ".cm-gutters": { backgroundColor: "var(--raised)", color: "var(--muted)", border: "none" },
  "&.cm-focused": { outline: "2px solid var(--accent)" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-activeLine": { backgroundColor: "var(--hover)" },
  ".cm-selectionBackground, &.cm-focused .cm-selectionBackground": { backgroundColor: "var(--selection) !important" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--text)", border: "1px solid var(--border)", padding: "4px 8px" },
  ".cm-panels": { backgroundColor: "var(--raised)", color: "var(--text)" },
  ".cm-specialChar": { color: "var(--danger)" },
  ".cm-collapsedLines": { color: "var(--muted)", backgroundImage: "none", backgroundColor: "var(--raised)" },
  ".cm-collapsedLines:before, .cm-collapsedLines:after": { content: '"⋯"' },
  // The Content-Security-Policy does not allow the images of CodeMirror, which are data URLs.
  ".cm-lint-marker-error": { content: "normal", width: "8px", height: "8px", margin: "4px auto", borderRadius: "50%", backgroundColor: "var(--danger)" },
  ".cm-lint-marker-warning": { content: "normal", width: "8px", height: "8px", margin: "4px auto", backgroundColor: "var(--warning)" },
  ".cm-lintRange-warning": { backgroundImage: "none", textDecoration: "underline wavy var(--warning)" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--danger)" },
  ".cm-owner": { width: "5px", height: "100%", borderRadius: "2px" },
  ...Object.fromEntries(Array.from({ length: 8 }, (_, i) => [`.cm-owner-${i}`, { backgroundColor: `var(--series-${i})` }])),
});

const highlighting = syntaxHighlighting(
  HighlightStyle.define([
    { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--code-key)" },
    { tag: [tags.string, tags.special(tags.string)], color: "var(--code-string)" },
    { tag: [tags.number, tags.bool, tags.null, tags.keyword], color: "var(--code-number)" },
    { tag: tags.comment, color: "var(--muted)" },
  ]),
);

const common: Extension = [theme, highlighting, lineNumbers(), foldGutter(), drawSelection(), search(), highlightSelectionMatches(), highlightSpecialChars(), indentUnit.of("  ")];

/**
 * Mounts an editor into a shadow root: CodeMirror then uses constructed style sheets, which the Content-Security-Policy
 * allows, instead of style elements.
 */
function useShadow(mount: (root: ShadowRoot) => { destroy: () => void }, dependencies: unknown[]) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const root = host.current!.shadowRoot ?? host.current!.attachShadow({ mode: "open" });
    const view = mount(root);
    return () => {
      view.destroy();
      root.replaceChildren();
    };
  }, dependencies);
  return host;
}

/**
 * Replaces a selection of several lines by the typed text. The browser would insert elements with style attributes,
 * which the Content-Security-Policy does not allow.
 */
const replaceLines = EditorView.domEventHandlers({
  beforeinput: (event, view) => {
    const { doc, selection } = view.state;
    const { from, to } = selection.main;
    if (event.inputType !== "insertText" || event.data === null || doc.lineAt(from).number === doc.lineAt(to).number) return false;
    view.dispatch(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
    event.preventDefault();
    return true;
  },
});

/** An error at a field of the document, such as spec.replicas. */
export interface FieldError {
  field: string;
  message: string;
}

/** The support of an editor for objects of a kind. */
export interface EditorSchema {
  complete: CompletionSource;
  validate: (object: unknown) => Problem[];
}

/** A YAML editor. changed receives each new text; schema completes and validates the object; errors are shown until the next change. */
export function Editor(props: { text: string; label: string; changed: (text: string) => void; schema?: EditorSchema | undefined; errors?: FieldError[] }) {
  const view = useRef<EditorView | null>(null);
  const changed = useRef(props.changed);
  changed.current = props.changed;
  // The schema arrives after the user may have begun to type, so it must not replace the editor.
  const schema = useRef(props.schema);
  schema.current = props.schema;
  const errors = useRef(props.errors);
  const host = useShadow((root) => {
    view.current = new EditorView({
      doc: props.text, root, parent: root,
      extensions: [
        common, yaml(), history(), closeBrackets(), replaceLines, highlightActiveLine(), lintGutter(), linter(async (editor) => ((await isIdle(editor)) ? diagnosticsOf(editor.state.doc.toString(), errors.current ?? [], schema.current) : [])),
        autocompletion({ icons: false, override: [(context) => schema.current?.complete(context) ?? null] }),
        keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...searchKeymap, ...historyKeymap, indentWithTab, { key: "F8", run: nextDiagnostic }]),
        EditorView.contentAttributes.of({ "aria-label": props.label }),
        EditorView.updateListener.of((update) => {
          if (!update.docChanged) return;
          errors.current = [];
          changed.current(update.state.doc.toString());
        }),
      ],
    });
    return view.current;
  }, [props.text]);
  useEffect(() => {
    errors.current = props.errors;
    const editor = view.current;
    if (!editor) return;
    const found = diagnosticsOf(editor.state.doc.toString(), props.errors ?? [], props.schema);
    editor.dispatch(setDiagnostics(editor.state, found));
    if (props.errors?.length && found[0]) editor.dispatch({ effects: EditorView.scrollIntoView(found[0].from, { y: "center" }) });
  }, [props.errors, props.schema]);
  return <div class="editor" ref={host} />;
}

const largeDocument = 200_000;
const largeDelay = 2000;

/** Waits for a longer pause of typing in a large document, because parsing 1 MiB takes about a second. Returns false if the user continues. */
async function isIdle(editor: EditorView): Promise<boolean> {
  const { doc } = editor.state;
  if (doc.length > largeDocument) await new Promise((resolve) => setTimeout(resolve, largeDelay));
  return editor.state.doc === doc;
}

/** Returns the errors of the syntax, the errors of the server, and the problems that the schema finds. */
function diagnosticsOf(text: string, errors: FieldError[], schema: EditorSchema | undefined): Diagnostic[] {
  const document = parseYAMLDocument(text);
  const at = (path: Path, message: string, severity: Diagnostic["severity"], name?: boolean): Diagnostic => {
    const [from, to] = rangeOf(document, path, name);
    return { from, to, severity, message };
  };
  const syntax = document.errors.map((error): Diagnostic => {
    const [from, to] = error.pos;
    return { from: Math.min(from, text.length), to: Math.min(to, text.length), severity: "error", message: error.message };
  });
  return [
    ...errors.map((error) => at(parseField(error.field), error.message, "error")),
    ...syntax,
    ...(syntax.length > 0 || !schema ? [] : problemsOf(document, schema)).map((problem) => at(problem.path, problem.message, problem.severity, problem.name)),
  ];
}

function problemsOf(document: Document, schema: EditorSchema): Problem[] {
  try {
    return schema.validate(valueOf(document));
  } catch {
    return []; // the aliases of the document are too numerous to be resolved
  }
}

class OwnerMarker extends GutterMarker {
  constructor(private readonly color: number) {
    super();
  }
  override eq(other: OwnerMarker): boolean {
    return other.color === this.color;
  }
  override toDOM(): Node {
    const node = document.createElement("div");
    node.className = `cm-owner cm-owner-${this.color}`;
    return node;
  }
}

/** The extensions of a text that cannot be edited. The keyboard reaches it, because long lines scroll. */
function readOnly(label: string): Extension {
  return [common, yaml(), EditorState.readOnly.of(true), EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" })];
}

/** A YAML text that cannot be edited. The color beside a line shows the manager of its field. */
export function Viewer(props: { text: string; label: string; managers?: Map<number, Manager[]>; colors?: Map<string, number> }) {
  const scroll = useRef<StateEffect<unknown>>(); // a new text keeps the scroll position
  const host = useShadow((root) => {
    const { managers, colors } = props;
    const extensions = [readOnly(props.label)];
    if (managers && colors) extensions.push(ownerGutter(managers, colors), ownerTooltip(managers));
    const view = new EditorView({ doc: props.text, root, parent: root, scrollTo: scroll.current, extensions: [...extensions, keymap.of([...defaultKeymap, ...searchKeymap])] });
    const destroy = (): void => {
      scroll.current = view.scrollSnapshot();
      view.destroy();
    };
    return { destroy };
  }, [props.text, props.managers]);
  return <div class="editor" ref={host} />;
}

function ownerGutter(managers: Map<number, Manager[]>, colors: Map<string, number>): Extension {
  return gutter({
    class: "cm-owners",
    markers: (view) => {
      const markers = [...managers].sort(([a], [b]) => a - b).filter(([line]) => line <= view.state.doc.lines);
      return RangeSet.of(markers.map(([line, owners]) => new OwnerMarker(colors.get(owners[0]!.name) ?? 7).range(view.state.doc.line(line).from)));
    },
  });
}

function ownerTooltip(managers: Map<number, Manager[]>): Extension {
  return hoverTooltip((view, position) => {
    const line = view.state.doc.lineAt(position);
    const owners = managers.get(line.number);
    if (!owners) return null;
    return {
      pos: line.from,
      create: () => {
        const dom = document.createElement("div");
        for (const owner of owners) {
          const row = document.createElement("div");
          row.textContent = `${owner.name} (${[owner.operation, owner.subresource].filter(Boolean).join(", ")}), ${age(owner.time)} ago, ${dateTime(owner.time)}`;
          dom.append(row);
        }
        return { dom };
      },
    };
  });
}

/** The difference of two texts: side by side, or in one column if the page is narrow. */
export function Difference(props: { before: string; after: string; label: string }) {
  const host = useShadow((root) => {
    const fixed = readOnly(props.label);
    const collapseUnchanged = { margin: 3, minSize: 6 };
    if (window.innerWidth < 900) {
      return new EditorView({ doc: props.after, root, parent: root, extensions: [fixed, unifiedMergeView({ original: props.before, mergeControls: false, collapseUnchanged })] });
    }
    return new MergeView({ a: { doc: props.before, extensions: fixed }, b: { doc: props.after, extensions: fixed }, root, parent: root, collapseUnchanged });
  }, [props.before, props.after]);
  return <div class="editor" ref={host} />;
}
