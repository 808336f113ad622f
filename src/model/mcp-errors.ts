/** The errors of calls to MCP servers, as a part of the catalogue in errors.ts. */
import { entry } from './error-entry.ts';

export const MCP_ERRORS = {
  MCP_UNAVAILABLE: entry(
    503,
    true,
    'The MCP server cannot be reached, does not start, or did not answer the first request.',
    'Read last_error of the server in `orchd tools`, and correct its command or url.',
  ),
  MCP_PROTOCOL: entry(
    502,
    false,
    'The MCP server has broken the protocol or a limit: too many bytes, a wrong answer, a request that is refused.',
    'Ask whoever wrote the server; raise max_message_bytes of the server if it only sends much.',
  ),
  MCP_TOOL_CHANGED: entry(
    409,
    false,
    'The MCP server offers another definition of the tool than the one that was allowed.',
    'Look at both with `orchd tools SERVER__TOOL`, and allow the new one with `orchd tools allow` if it is right.',
  ),
  MCP_TOOL_MISSING: entry(
    404,
    false,
    'The MCP server no longer offers the tool.',
    'Call another tool, or repair the server.',
  ),
};
