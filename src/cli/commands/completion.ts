/** `orchd completion bash|zsh|fish`: made from the table of commands, so that it cannot lag behind it. */

import { oneOf, singlePositional } from '../arguments.ts';
import { type Command, EXIT, type LoadedCommand } from '../command.ts';
import { usageOf } from '../options.ts';
import { bashScript } from '../text/completion-bash.ts';
import { fishScript } from '../text/completion-fish.ts';
import { zshScript } from '../text/completion-zsh.ts';

const SCRIPTS = { bash: bashScript, zsh: zshScript, fish: fishScript } as const;

const SHELLS = Object.keys(SCRIPTS) as (keyof typeof SCRIPTS)[];

export const completionOf = (commands: () => Promise<readonly LoadedCommand[]>): Command => ({
  usage: usageOf({
    call: 'completion bash|zsh|fish',
    about: 'Prints a completion script, to be read by the shell when it starts.',
    options: {},
    examples: [
      'source <(orchd completion bash)',
      'orchd completion bash > ~/.local/share/bash-completion/completions/orchd',
      'source <(orchd completion zsh)',
      'orchd completion fish > ~/.config/fish/completions/orchd.fish',
    ],
  }),
  options: {},
  words: SHELLS,
  async run({ positionals }, terminal) {
    const shell = oneOf(singlePositional(positionals, 'shell'), 'the shell', SHELLS);
    terminal.print(SCRIPTS[shell](await commands()));
    return EXIT.ok;
  },
});
