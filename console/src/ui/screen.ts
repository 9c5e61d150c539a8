import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";

/** The maximum number of bytes that the emulator has not yet shown. Further bytes are discarded, so that the page stays usable. */
const maxPending = 16 << 20;

/** Screen is a terminal emulator for the output of a command, which is untrusted. */
export interface Screen {
  readonly columns: number;
  readonly rows: number;
  write(bytes: Uint8Array): void;
  focus(): void;
  /** Offers the text to screen readers. Some input methods, such as emoji pickers, do not work then. */
  setScreenReader(enabled: boolean): void;
  /** Hides the cursor and ignores further input. */
  freeze(): void;
  dispose(): void;
}

/** Opens a screen that fills an element. typed receives input; resized receives each later size, in characters. */
export function openScreen(host: HTMLElement, typed: (bytes: Uint8Array) => void, resized: (columns: number, rows: number) => void): Screen {
  const styles = new StyledDocument();
  const terminal = new Terminal({ documentOverride: styles.document, fontSize: 13, logLevel: "off", minimumContrastRatio: 4.5, scrollback: 5000 });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  terminal.parser.registerOscHandler(8, () => true); // links of the output would open pages of other sites
  terminal.attachCustomKeyEventHandler((event) => !(event.key === "Tab" && event.shiftKey)); // moves the focus out of the terminal
  terminal.onData((text) => typed(new TextEncoder().encode(text)));
  terminal.onBinary((text) => typed(Uint8Array.from(text, (character) => character.charCodeAt(0))));
  // xterm.js ignores documentOverride for one style element, the colors of the scroll bar, which console.css has instead. The
  // policy applies to elements of the page, so it is removed before the terminal is a part of the page.
  const element = document.createElement("div");
  terminal.open(element);
  element.querySelector("style")?.remove();
  setStyleProperties(terminal);
  host.append(element);
  fit.fit();
  terminal.onResize(({ cols, rows }) => resized(cols, rows));
  const observer = new ResizeObserver(() => fit.fit());
  observer.observe(host);
  let pending = 0;
  return {
    get columns() {
      return terminal.cols;
    },
    get rows() {
      return terminal.rows;
    },
    write(bytes) {
      if (pending + bytes.length > maxPending) return;
      pending += bytes.length;
      terminal.write(bytes, () => (pending -= bytes.length));
    },
    focus: () => terminal.focus(),
    setScreenReader(enabled) {
      terminal.options.screenReaderMode = enabled;
    },
    freeze() {
      terminal.options.disableStdin = true;
      terminal.write("\x1b[?25l");
    },
    dispose() {
      observer.disconnect();
      terminal.dispose();
      styles.dispose();
    },
  };
}

/**
 * StyledDocument creates the elements of xterm.js without style elements, which the Content-Security-Policy forbids. Their
 * content becomes constructed style sheets.
 */
class StyledDocument {
  private readonly sheets: CSSStyleSheet[] = [];

  /** The document of the page, except createElement. */
  readonly document = new Proxy(document, {
    get: (target, name) => {
      if (name === "createElement") return (tag: string) => (tag === "style" ? this.styleElement() : target.createElement(tag));
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });

  /** Removes the style sheets from the page. */
  dispose(): void {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => !this.sheets.includes(sheet));
  }

  /** Returns an element without content whose text replaces a style sheet of the page. */
  private styleElement(): HTMLElement {
    const sheet = new CSSStyleSheet();
    this.sheets.push(sheet);
    document.adoptedStyleSheets.push(sheet);
    return Object.defineProperty(document.createElement("span"), "textContent", { set: (text: string) => sheet.replaceSync(text) });
  }
}

/** The method of xterm.js that sets style attributes for colors. It is not a part of its public API. */
interface Internals {
  _core: { _renderService: { _renderer: { value: { _rowFactory: { _addStyle: (element: HTMLElement, style: string) => void } } } } };
}

/** Lets xterm.js set properties of styles instead of style attributes, which the Content-Security-Policy forbids. */
function setStyleProperties(terminal: Terminal): void {
  (terminal as unknown as Internals)._core._renderService._renderer.value._rowFactory._addStyle = (element, style) => {
    element.style.cssText += style;
  };
}
