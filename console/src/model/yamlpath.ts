/** Returns the fields that contain a line, given the lines above it and its indentation with list markers. */
export function parentsOf(above: string[], indent: string): string[] {
  const path: string[] = [];
  let depth = indent.length;
  const markers = (text: string): string[] => text.match(/- +/g) ?? [];
  for (const _ of markers(indent)) path.unshift("");
  depth -= markers(indent).join("").length;
  let inList = markers(indent).length > 0;
  for (const text of [...above].reverse()) {
    const match = /^(\s*)((?:- +)*)([\w./-]+):\s*$/.exec(text);
    const open = /^(\s*)((?:- +)+)/.exec(text);
    if (open && !inList && open[1]!.length < depth && open[1]!.length + open[2]!.length === depth) {
      path.unshift("");
      depth = open[1]!.length;
      inList = true;
      continue;
    }
    if (!match) continue;
    const column = match[1]!.length + match[2]!.length;
    if (column < depth || (inList && column === depth)) {
      path.unshift(match[3]!);
      if (match[2]) path.unshift("");
      depth = match[1]!.length;
      inList = match[2] !== "";
    }
  }
  return path;
}
