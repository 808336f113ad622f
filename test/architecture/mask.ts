/**
 * Blanks what is not code (comments, the insides of strings, templates and regular expressions) with spaces.
 * Offsets and line breaks stay, so that a match in the mask can be read in the text. Quotes stay as well.
 * A scan, not a parser: it knows enough TypeScript for the rules of this folder.
 */

interface Scan {
  readonly text: string;
  readonly out: string[];
  at: number;
}

export function maskOf(text: string): string {
  const scan: Scan = { text, out: [...blank(text)], at: 0 };
  code(scan, false);
  return scan.out.join('');
}

// Split by UTF-16 unit, not by character: offsets have to agree with those of the text.
const blank = (text: string): string[] => text.split('').map((unit) => (unit === '\n' ? '\n' : ' '));

/** Copies code until the end, or until the brace that ends a `${…}`. */
function code(scan: Scan, inTemplate: boolean): void {
  let depth = 0;
  while (scan.at < scan.text.length) {
    const unit = scan.text[scan.at]!;
    const pair = scan.text.slice(scan.at, scan.at + 2);
    if (pair === '//') skipTo(scan, '\n');
    else if (pair === '/*') skipPast(scan, '*/');
    else if (pair === '#!' && scan.at === 0) skipTo(scan, '\n');
    else if (unit === "'" || unit === '"') quoted(scan, unit);
    else if (unit === '`') template(scan);
    else if (unit === '/' && startsRegex(scan)) regex(scan);
    else {
      if (unit === '{') depth += 1;
      if (unit === '}') {
        if (inTemplate && depth === 0) return;
        depth -= 1;
      }
      keep(scan);
    }
  }
}

function keep(scan: Scan): void {
  scan.out[scan.at] = scan.text[scan.at]!;
  scan.at += 1;
}

function skipTo(scan: Scan, end: string): void {
  const found = scan.text.indexOf(end, scan.at);
  scan.at = found < 0 ? scan.text.length : found;
}

function skipPast(scan: Scan, end: string): void {
  scan.at += 2;
  skipTo(scan, end);
  scan.at = Math.min(scan.at + end.length, scan.text.length);
}

function quoted(scan: Scan, quote: string): void {
  keep(scan);
  while (scan.at < scan.text.length && scan.text[scan.at] !== quote && scan.text[scan.at] !== '\n') {
    scan.at += scan.text[scan.at] === '\\' ? 2 : 1;
  }
  if (scan.at < scan.text.length) keep(scan);
}

function template(scan: Scan): void {
  keep(scan);
  while (scan.at < scan.text.length && scan.text[scan.at] !== '`') {
    if (scan.text.startsWith('${', scan.at)) {
      scan.at += 2;
      code(scan, true);
    }
    scan.at += scan.text[scan.at] === '\\' ? 2 : 1;
  }
  if (scan.at < scan.text.length) keep(scan);
}

function regex(scan: Scan): void {
  keep(scan);
  let inClass = false;
  while (scan.at < scan.text.length && scan.text[scan.at] !== '\n') {
    const unit = scan.text[scan.at]!;
    if (unit === '/' && !inClass) break;
    if (unit === '[') inClass = true;
    if (unit === ']') inClass = false;
    scan.at += unit === '\\' ? 2 : 1;
  }
  if (scan.at < scan.text.length) keep(scan);
}

/** A slash divides after a value and starts a regular expression after anything else. */
function startsRegex(scan: Scan): boolean {
  const before = scan.out
    .slice(Math.max(0, scan.at - 200), scan.at)
    .join('')
    .trimEnd();
  const word = /[\w$]+$/.exec(before)?.[0];
  if (word !== undefined) return /^(return|typeof|case|in|of|void|delete|throw|new|await|yield)$/.test(word);
  return !/[)\]}'"`]$/.test(before);
}
