/** The completion script for bash. */
import type { LoadedCommand } from '../command.ts';
import type { OptionSpec } from '../options.ts';

export function bashScript(commands: readonly LoadedCommand[]): string {
  const names = commands.map(({ name }) => name);
  return `# Completion of orchd for bash.
_orchd() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}" command="\${COMP_WORDS[1]}"
  local choices=''
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    choices='${[...names, 'help'].join(' ')}'
  else
    case "$command $previous" in
${commands.flatMap(valueCases).join('\n')}
    *)
      case "$command" in
      help) choices='${names.join(' ')}' ;;
${commands.map(commandCase).join('\n')}
      esac
      # Options are many: they are offered once a dash is typed, or where nothing else can come.
      case "$current" in
      -*) ;;
      *) choices="\${choices%%--*}" ;;
      esac
      ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$choices" -- "$current"))
}
complete -o default -F _orchd orchd`;
}

/** After an option that takes a value come its choices, or whatever the shell offers by itself. */
function valueCases({ name, options }: LoadedCommand): string[] {
  return Object.entries(options as Record<string, OptionSpec>)
    .filter(([, { type }]) => type === 'string')
    .map(([option, { choices }]) => {
      const then = choices === undefined ? '' : `choices='${choices.join(' ')}' `;
      return `    '${name} --${option}') ${then};;`;
    });
}

/** The words first: what follows the first dash is cut off above. */
function commandCase({ name, words = [], options }: LoadedCommand): string {
  const all = [...words, ...Object.keys(options).map((option) => `--${option}`), '--help'];
  return `      ${name}) choices='${all.join(' ')}' ;;`;
}
