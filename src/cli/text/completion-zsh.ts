/** The completion script for zsh. */
import type { LoadedCommand } from '../command.ts';
import type { OptionSpec } from '../options.ts';
import { quoted } from './shell-word.ts';

export function zshScript(commands: readonly LoadedCommand[]): string {
  return `#compdef orchd
# Completion of orchd for zsh.
_orchd() {
  local -a commands
  commands=(
${commands.map(({ name, summary }) => `    ${quoted(`${name}:${summary.replaceAll(':', '\\:')}`)}`).join('\n')}
  )
  if (( CURRENT == 2 )); then
    _describe 'command' commands
    return
  fi
  local command="$words[2]"
  shift words
  (( CURRENT-- ))
  case "$command" in
  help) _describe 'command' commands ;;
${commands.map(commandCase).join('\n')}
  esac
}
# Autoloaded from fpath, this file is the body of _orchd and must call it; sourced, it registers _orchd.
if [ "$funcstack[1]" = '_orchd' ]; then
  _orchd "$@"
else
  compdef _orchd orchd
fi`;
}

function commandCase({ name, words, options }: LoadedCommand): string {
  const specs = Object.entries(options as Record<string, OptionSpec>).map(([option, spec]) =>
    quoted(optionSpec(option, spec)),
  );
  const first = words === undefined ? [] : [quoted(`1:word:(${words.join(' ')})`)];
  const all = [...specs, quoted('--help[say how it is used]'), ...first, quoted('*:argument:_files')];
  return `  ${name})\n    _arguments \\\n      ${all.join(' \\\n      ')}\n    ;;`;
}

function optionSpec(
  option: string,
  { type, help = '', value = 'value', choices, multiple }: OptionSpec,
): string {
  const head = `${multiple ? '*' : ''}--${option}${type === 'string' ? '=' : ''}[${plain(help)}]`;
  if (type === 'boolean') return head;
  return `${head}:${plain(value)}:${choices === undefined ? '_files' : `(${choices.join(' ')})`}`;
}

/** Replaces the characters that are syntax to zsh's _arguments by spaces. */
const plain = (text: string): string => text.replace(/[[\]:\\]/g, ' ');
