/** Words of a command line that a person can copy into a shell. */

export const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

export const shellWord = (text: string): string => (/^[\w.,:@%+=/-]+$/.test(text) ? text : quoted(text));
