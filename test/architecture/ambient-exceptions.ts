/** Files that may reach past kit/env, and for what. */

interface Exception {
  readonly allows: readonly string[];
  readonly reason: string;
}

/** Files that may use what others may not, each with the reason. */
export const EXCEPTIONS: Readonly<Record<string, Exception>> = {
  'src/stores/journal/history/sqlite.ts': {
    allows: ['node:sqlite', 'node:fs'],
    reason: 'the history index is derived and rebuildable; a damaged one is removed and made anew',
  },
  'src/agents/tools/root-folder.ts': {
    allows: ['node:fs'],
    reason:
      'reads and writes files of users, not ours, through descriptors, which the disk of the env does not have',
  },
  'src/client/client.ts': {
    allows: ['Date.now', 'setTimeout', 'AbortSignal.timeout'],
    reason: 'runs on its own in programs and browsers, where there is no env',
  },
  'src/client/patience.ts': {
    allows: ['Date.now', 'setTimeout'],
    reason: 'a part of the client',
  },
  'src/client/line-feed.ts': {
    allows: ['setTimeout'],
    reason: 'a part of the client',
  },
  'src/client/submit-lines.ts': {
    allows: ['crypto randomness'],
    reason: 'a part of the client',
  },
  'src/stores/journal/thread.ts': {
    allows: ['node:worker_threads'],
    reason: 'starts the thread that keeps checkpoints and history off the event loop',
  },
  'src/stores/journal/thread-main.ts': {
    allows: ['node:worker_threads'],
    reason: 'runs on that thread',
  },
  'src/consumer/heartbeats.ts': {
    allows: ['node:worker_threads'],
    reason: 'starts the thread that sends the heartbeats of a consumer',
  },
  'src/consumer/heartbeat-main.ts': {
    allows: ['node:worker_threads'],
    reason: 'runs on that thread',
  },
  'src/stores/mariadb/leadership.ts': {
    allows: ['node:worker_threads', 'process.hrtime'],
    reason: 'starts the thread that stands in the election, and shares a clock with it',
  },
  'src/stores/mariadb/elector-main.ts': {
    allows: ['node:worker_threads', 'process.hrtime'],
    reason: 'runs on that thread',
  },
  'src/wire/connections.ts': {
    allows: ['setTimeout'],
    reason: 'limits the life of real sockets, as the timeouts of node:http do',
  },
  'src/backends/local/command/keeper-client.ts': {
    allows: ['node:child_process'],
    reason: 'starts the keeper processes',
  },
  'src/adapters/modules/host-main.ts': {
    allows: ['node:worker_threads'],
    reason: 'runs outside of the brain, and watches on a thread of its own whether the brain lives',
  },
  'src/backends/mcp/server-process.ts': {
    allows: ['node:child_process'],
    reason: 'starts the processes of MCP servers, which are programs of users',
  },
  'src/adapters/modules/module-process.ts': {
    allows: ['node:child_process'],
    reason: 'starts the processes of modules, which are programs of users',
  },
  'src/backends/local/command/sandbox-probe.ts': {
    allows: ['node:child_process'],
    reason: 'runs bubblewrap once, to see whether it works',
  },
  'src/kit/process/identity.ts': {
    allows: ['node:fs'],
    reason: 'asks /proc which process is meant; it is no data of ours',
  },
  'src/kit/process/loop-delay.ts': {
    allows: ['node:perf_hooks', 'performance.now'],
    reason: 'asks the runtime how late its event loop is; it is no data of ours',
  },
  'src/kit/process/usage.ts': {
    allows: ['node:fs', 'node:perf_hooks', 'performance.now'],
    reason: 'asks the system and the runtime what this process uses; it is no data of ours',
  },
  'src/kit/process/cpu-limit.ts': {
    allows: ['node:fs'],
    reason: 'asks /proc and /sys how many cores it may use; it is no data of ours',
  },
  'src/kit/folder-watch.ts': {
    allows: ['node:fs'],
    reason: 'watches a folder; looking at it now and then, by the timers of the env, would do as well',
  },
  'src/backends/local/command/remove.ts': {
    allows: ['node:fs'],
    reason: 'removes what a command has left in its own folder',
  },
  'src/backends/local/command/token-folder.ts': {
    allows: ['node:fs'],
    reason: 'runs in a keeper process, outside the brain',
  },
  'src/backends/local/command/wrapper.ts': {
    allows: ['node:fs'],
    reason: 'runs in a keeper process, outside the brain',
  },
  'src/backends/local/command/output.ts': {
    allows: ['node:fs'],
    reason: 'runs in a keeper process, outside the brain',
  },
  'src/backends/local/command/leftovers.ts': {
    allows: ['setTimeout', 'setImmediate', 'performance.now'],
    reason: 'runs in a keeper process, outside the brain',
  },
  'src/backends/local/command/kept-command.ts': {
    allows: [
      'node:fs',
      'node:child_process',
      'node:timers/promises',
      'setTimeout',
      'Date.now',
      'performance.now',
    ],
    reason: 'runs in a keeper process, outside the brain',
  },
  'src/backends/local/command/keeper.ts': {
    allows: ['node:fs', 'setTimeout', 'Date.now', 'performance.now'],
    reason: 'runs in a keeper process, outside the brain',
  },
  'src/backends/local/command/demo-main.ts': {
    allows: ['setTimeout'],
    reason: 'runs as a command, outside the brain',
  },
  'src/daemons/pool-manager/processes.ts': {
    allows: ['node:child_process', 'node:fs'],
    reason: 'starts the processes of workers, with their logs, and asks /proc which of them live',
  },
  'src/daemons/pool-manager/program.ts': {
    allows: ['node:child_process'],
    reason: 'runs nvidia-smi',
  },
  'src/daemons/pool-manager/links.ts': {
    allows: ['node:fs'],
    reason: 'asks where links lead; the cache of the hub is made of them, and is no data of ours',
  },
  'src/daemons/worker/openai-upstream.ts': {
    allows: ['node:child_process'],
    reason: 'starts the server behind a worker, outside the brain',
  },
  'src/daemons/execution/ledger.ts': {
    allows: ['node:fs'],
    reason: 'an audit file that several workers append to, beside all data',
  },
};
