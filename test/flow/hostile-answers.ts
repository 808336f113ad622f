/** Answers of a server whose every text is hostile, for commands about rules, tools, reloads and replays. */

/** Undefined for a path of another command. */
export function hostileAnswer(url: string, hostile: string): object | undefined {
  const violation = { at: 1, job_id: hostile, tenant: hostile, rule: hostile, tool: hostile };
  const governance = {
    mode: hostile,
    since: 1,
    by: hostile,
    why: hostile,
    next: [hostile],
    shadow: true,
    allows: { categories: [hostile], running: { tools: 1 } },
    rules: [{ name: hostile, effect: hostile, reason: hostile }],
    violations: 1,
    last_violations: [{ ...violation, critical: true, shadow: true }],
  };
  const tool = {
    tool: hostile,
    name: hostile,
    state: 'changed',
    effect: 'pure',
    hash: hostile,
    definition: { description: hostile },
    allowed_at: 1,
    allowed_by: hostile,
    offered: { hash: hostile, definition: { description: hostile } },
  };
  const server = {
    name: hostile,
    transport: 'stdio',
    connected: false,
    restarts: 1,
    last_error: hostile,
    tools: [tool],
  };
  const reload = {
    at: 1,
    by: hostile,
    outcome: 'applied',
    leads: false,
    changes: [{ section: hostile, added: [hostile], changed: [hostile], removed: [hostile] }],
    restart_needed: [hostile],
  };
  const difference = {
    ...{ step: 1, event: hostile, job_id: hostile, field: hostile },
    ...{ recorded: hostile, replayed: hostile, text: hostile },
  };
  const replay = {
    ...{
      run_id: hostile,
      agent: hostile,
      against: 'given',
      equal: false,
      steps: 1,
      has_end: false,
      difference,
    },
  };
  if (url.startsWith('/v2/governance')) return governance;
  if (url === '/v2/tools') return { servers: [server] };
  if (url.startsWith('/v2/tools/')) return server;
  if (url === '/control/reload') return reload;
  if (/^\/v2\/runs\/[^/]*\/replay$/.test(url)) return replay;
  if (/^\/v2\/runs\/[^/]*\/fork$/.test(url)) return { run_id: hostile, agent: hostile };
  return undefined;
}
