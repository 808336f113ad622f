/** The list `modules`: producers that propose jobs, each in a process of its own (docs/modules.md). */
import { type Static, Type } from 'typebox';
import { Name, Variables } from './backends.ts';
import { section } from './section.ts';

const Words = Type.Array(Type.String(), { minItems: 1, expected: 'a list of words, the program first' });
const Path = Type.String({ minLength: 1, expected: 'a path' });

const ModuleSchema = section({
  name: Name,
  file: Type.Optional(Path),
  argv: Type.Optional(Words),
  handle_argv: Type.Optional(Words),
  cwd: Type.Optional(Path),
  env: Type.Optional(Variables),
  interval_sec: Type.Optional(Type.Number({ minimum: 0.01, maximum: 1_728_000 })),
  timeout_sec: Type.Optional(Type.Number({ minimum: 0.01, maximum: 86_400 })),
  memory_mb: Type.Optional(Type.Integer({ minimum: 16, maximum: 1_000_000 })),
  max_proposals: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000_000 })),
});
export type ModuleConfig = Static<typeof ModuleSchema>;

/** What an entry may set; for the test of the example file. */
export const MODULE_KEYS = Object.keys(ModuleSchema.properties);

export const MODULE_DEFAULTS = {
  interval_sec: 60,
  timeout_sec: 300,
  memory_mb: 256,
  max_proposals: 10_000,
} as const;

export const ModulesSchema = Type.Array(ModuleSchema, {
  default: [],
  maxItems: 64,
  expected: 'a list of up to 64 modules, with a name and a file or an argv each',
});
