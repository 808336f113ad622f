/** Commands and the demo, as the rest of the program knows them. */
import type { CommandConfig } from '../../../config/backends.ts';
import type { ResolvedConfig } from '../../../config/resolve.ts';
import type { BackendKind } from '../../descriptor.ts';
import { CommandBackend } from './command.ts';
import { demoBackendOptions } from './demo.ts';

type Asked = ResolvedConfig['backends'];

export const commands: BackendKind<Asked['commands']> = (asked) =>
  asked.map((command) => ({
    name: command.name,
    make: ({ env, folder, node }) => new CommandBackend(env, { ...(command as CommandConfig), folder, node }),
  }));

export const demo: BackendKind<Asked['demo']> = (isWanted) =>
  isWanted
    ? [
        {
          name: 'demo',
          make: ({ env, folder, node }) => new CommandBackend(env, { ...demoBackendOptions(folder), node }),
        },
      ]
    : [];
