/** Breaks a line between words; what follows begins with the indent. Without a width it stays one line. */
export const wrap = (text: string, width: number | undefined, indent: string): string => {
  if (width === undefined) return text
  const lines: string[] = []
  let rest = text
  while (rest.length > width) {
    const space = rest.lastIndexOf(' ', width)
    // A word that is longer than a line is left to the terminal.
    if (rest.slice(0, Math.max(space, 0)).trim() === '') break
    lines.push(rest.slice(0, space).trimEnd())
    rest = `${indent}${rest.slice(space + 1)}`
  }
  return [...lines, rest].join('\n')
}
