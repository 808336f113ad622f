/** The completion script for fish. */
import type { LoadedCommand } from '../command.ts';
import type { OptionSpec } from '../options.ts';

export function fishScript(commands: readonly LoadedCommand[]): string {
  const names = commands.map(({ name }) => name);
  return `# Completion of orchd for fish.
function __orchd_command
    # The command that the line has so far, before the word under the cursor.
    set -l words (commandline -opc)
    test (count $words) -gt 1; and echo $words[2]
end
function __orchd_words
    test (count (commandline -opc)) -eq $argv[1]
end
complete -c orchd -e
complete -c orchd -n '__orchd_words 1' -f
${commands.map(({ name, summary }) => `complete -c orchd -n '__orchd_words 1' -a ${quoted(name)} -d ${quoted(summary)}`).join('\n')}
complete -c orchd -n '__orchd_words 1' -a help -d 'Show the help of a command'
complete -c orchd -n 'test "$(__orchd_command)" = help; and __orchd_words 2' -f -a ${quoted(names.join(' '))}
${commands.flatMap(commandLines).join('\n')}`;
}

function commandLines({ name, words, options }: LoadedCommand): string[] {
  const condition = `test "$(__orchd_command)" = ${name}`;
  const first =
    words === undefined
      ? []
      : [`complete -c orchd -n '${condition}; and __orchd_words 2' -f -a ${quoted(words.join(' '))}`];
  const specs = Object.entries(options as Record<string, OptionSpec>).map(
    ([option, spec]) =>
      `complete -c orchd -n '${condition}' -l ${option}${argumentOf(spec)} -d ${quoted(spec.help ?? '')}`,
  );
  return [...first, ...specs, `complete -c orchd -n '${condition}' -l help -d 'say how it is used'`];
}

/** After an option that takes a value come its choices alone, or whatever the shell offers by itself. */
function argumentOf({ type, choices }: OptionSpec): string {
  if (type === 'boolean') return '';
  return choices === undefined ? ' -r' : ` -x -a ${quoted(choices.join(' '))}`;
}

/** In single quotes fish knows two escapes. */
const quoted = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
